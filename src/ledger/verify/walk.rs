//! The walk over all entries in order: chain, tree, keys, and what entries record about each other.
//! Pure: it gets bytes and reports what holds. Its checks of checkpoints are in `signatures`.

use super::entry::{CheckedEntry, EntryFacts, KindWord, PayloadState};
use super::erasures::Erasures;
use super::report::{RootMark, Verdict, Verification};
use crate::ledger::checkpoint::{Epochs, Note, VerifierKey, read_anchor};
use crate::ledger::entry::Kind;
use crate::ledger::payload::{dropped, sealed};
use crate::ledger::tree::{Frontier, Head, Tile, TileEdge};
use crate::types::Digest;
use std::sync::Arc;

/// A checkpoint that the walk will reach.
#[derive(Clone, Debug)]
pub(super) struct ExpectedCheckpoint {
    pub(super) size: u64,
    pub(super) note: Note,
    /// Its source and key, if it comes from outside.
    pub(super) outside: Option<(String, Option<VerifierKey>)>,
}

/// The walk over all entries in order.
#[derive(Clone, Debug, Default)]
pub(in crate::ledger) struct ChainWalk {
    pub(in crate::ledger) report: Verification,
    mark: Option<RootMark>,
    log: Option<Arc<str>>,
    /// The keys so far; `None` if the first entry pins none.
    pub(super) epochs: Option<Epochs>,
    /// Checkpoints ahead, the nearest last.
    pub(super) ahead: Vec<ExpectedCheckpoint>,
    /// The root of a checkpoint or seal was wrong, so later ones are not checked.
    pub(super) left: bool,
    /// Trees that `anchor` entries record, with the number of the entry. Their roots are compared
    /// after the tiles.
    pub(in crate::ledger) anchors: Vec<(u64, Head)>,
    pub(super) frontier: Frontier,
    edge: TileEdge,
    /// Size at which the root matched the mark: no earlier entry was changed.
    vouched: u64,
    /// The previous entry: its leaf, and the frontier without it.
    last: Option<(Digest, Frontier)>,
    /// A break between two entries. The next entry decides which of the two was changed.
    pub(super) torn: Option<Torn>,
    /// Missing payloads, and the entries that record their erasure.
    gone: Erasures,
    /// First entry of the current segment.
    segment: u64,
    is_sealed: bool,
    broken: bool,
}

/// The state before entry `from`, for a walk that begins with it.
#[derive(Clone, Debug)]
pub(super) struct WalkStart {
    pub(in crate::ledger) from: u64,
    pub(in crate::ledger) log: Arc<str>,
    pub(in crate::ledger) epochs: Epochs,
    /// Leaf of the previous entry.
    pub(in crate::ledger) last: Digest,
    pub(in crate::ledger) before: Frontier,
}

/// Entry `seq` names `expected` as the leaf before it, but that leaf is `found`.
#[derive(Clone, Debug)]
pub(super) struct Torn {
    seq: u64,
    found: Digest,
    expected: Digest,
    /// Frontier without the entry before `seq`.
    frontier: Frontier,
    leaf: Digest,
}

impl ChainWalk {
    pub(in crate::ledger) fn new(mark: Option<RootMark>) -> Self {
        Self { mark, ..Self::default() }
    }

    /// A walk that begins after entries that it does not read.
    pub(super) fn resume(mark: Option<RootMark>, start: WalkStart, edge: TileEdge) -> Self {
        let mut frontier = start.before.clone();
        frontier.push(start.last);
        let report = Verification { from: start.from, signed: start.from, ..Verification::default() };
        let last = Some((start.last, start.before));
        let (log, epochs) = (Some(start.log), Some(start.epochs));
        Self { report, mark, log, epochs, frontier, edge, last, ..Self::default() }
    }

    /// Replaces the mark. The walk has not passed the size of an earlier one, or has compared it.
    pub(super) fn set_mark(&mut self, mark: Option<RootMark>) {
        self.mark = mark;
    }

    /// Looks again at the payloads before entry `from` that a redaction from `from` on erased: they
    /// were still there when the walk passed them.
    pub(super) fn settle<E>(
        &mut self,
        from: u64,
        is_missing: impl FnMut(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.gone.settle(from, is_missing)
    }

    /// The entries of the segment that begins with `first` come next.
    pub(in crate::ledger) fn segment(&mut self, first: u64) {
        self.report.segments += 1;
        self.segment = first;
        let there = self.frontier.size();
        if self.broken || first == there || self.report.segments == 1 {
            return;
        }
        if first > there {
            let what = format!("the entry is missing; the next segment begins with {first}");
            return self.fail(there, Verdict::Incomplete, what);
        }
        let what = format!("a segment begins with {first}, but the one before it has later entries");
        self.fail(first, Verdict::Invalid, what);
    }

    /// Number of entries in the tree so far.
    pub(in crate::ledger) fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// Whether the chain is broken, so that nothing more can be compared.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Checks the entry stored under `seq` and returns the tiles that it fills. `body` is the
    /// stored payload, needed if [`ChainWalk::follows`] holds for the entry's kind.
    ///
    /// After the first break nothing more is compared.
    pub(in crate::ledger) fn entry(
        &mut self,
        seq: u64,
        checked: &CheckedEntry,
        body: Option<&[u8]>,
    ) -> Vec<Tile> {
        let expected_seq = self.frontier.size();
        if self.broken {
            return Vec::new();
        }
        if seq != expected_seq {
            self.fail(
                expected_seq,
                Verdict::Incomplete,
                format!("the entry is missing; the next one stored is {seq}"),
            );
            return Vec::new();
        }
        let (header, hash) = match &checked.header {
            Ok(header) => (header, checked.leaf),
            Err(what) => {
                self.blame_torn(false);
                self.fail(seq, Verdict::Invalid, what.to_string());
                return Vec::new();
            }
        };
        if self.is_sealed != (seq == self.segment && seq > 0) && self.report.entries > 0 {
            let what = match self.is_sealed {
                true => "it is in the same file as the seal before it",
                false => "a segment begins with it, but the one before has no seal",
            };
            return self.refuse(seq, what);
        }
        self.link(seq, header, hash);
        if self.broken {
            return Vec::new();
        }
        // At a break an entry's own fields prove nothing. The entry after it shows which one was
        // changed.
        if self.torn.is_none()
            && let Some(what) = self.misplaced(seq, header)
        {
            self.fail(seq, Verdict::Invalid, what);
            return Vec::new();
        }
        self.payload(seq, header, checked.payload);
        if self.torn.is_none() {
            self.keys(seq, header, body.unwrap_or_default());
            self.anchor(seq, header, body);
            self.rotation(seq, header, body.unwrap_or_default());
        }
        self.is_sealed = header.kind.is(Kind::SegmentSeal);
        let (last, before) = self.last.get_or_insert_with(|| (hash, Frontier::default()));
        *last = hash;
        before.set(&self.frontier);
        let filled = self.edge.push_with_frontier(&mut self.frontier, hash);
        self.report.entries += 1;
        self.at_mark();
        self.at_checkpoint();
        filled
    }

    /// Whether the walk reads the payloads of this kind.
    pub(super) fn follows(kind: &KindWord) -> bool {
        let KindWord::Known(kind) = kind else { return false };
        let followed = [Kind::Genesis, Kind::KeyEpoch, Kind::Anchor, Kind::SegmentSeal, Kind::PayloadDrop];
        followed.contains(kind)
    }

    /// Ends the walk and returns the report and the tree's frontier.
    pub(in crate::ledger) fn finish(mut self) -> (Verification, Frontier) {
        self.blame_last_torn();
        // A new segment may be empty, but only after a seal.
        let (first, there) = (self.segment, self.frontier.size());
        if !self.broken && first == there && self.report.segments > 1 && !self.is_sealed {
            self.fail(first, Verdict::Invalid, "a segment begins with it, but the one before has no seal");
        }
        if !self.broken {
            std::mem::take(&mut self.gone).compare(self.segment, &mut self.report);
        }
        // If no entry was added, the root matched a checkpoint, and that was checked.
        let is_met = self.report.anchored.is_some();
        if self.report.entries == 0 && !is_met && self.report.findings.is_empty() {
            self.report.find(None, Verdict::Incomplete, "the ledger has no entries: nothing was checked");
        }
        if !self.broken {
            self.beyond();
        }
        if let Some(RootMark { head }) = self.mark
            && head.size == 0
            && head.root != Frontier::default().root()
        {
            let what = "the high-water mark has size 0, but not the root of the empty tree";
            self.report.find(None, Verdict::Invalid, what);
        }
        if let Some(RootMark { head }) = self.mark
            && !self.broken
            && head.size > self.frontier.size()
        {
            let what = format!(
                "the ledger has {} entries, but the high-water mark has {}",
                self.frontier.size(),
                head.size
            );
            self.report.find(Some(self.frontier.size()), Verdict::Incomplete, what);
        }
        self.report.root = self.frontier.root().hex();
        (self.report, self.frontier)
    }

    /// Follows the chain: this entry must name the leaf before it.
    fn link(&mut self, seq: u64, header: &EntryFacts, hash: Digest) {
        let before = self.last.as_ref().map(|(leaf, _)| *leaf);
        if self.torn.is_some() {
            // The entry after a break shows on which side of it the change is.
            self.blame_torn(header.prev == before);
            return;
        }
        if header.prev == before {
            return;
        }
        match (&self.last, header.prev) {
            (Some((found, frontier)), Some(expected)) => {
                self.torn =
                    Some(Torn { seq, found: *found, expected, frontier: frontier.clone(), leaf: hash });
            }
            _ => self.fail(
                seq,
                Verdict::Invalid,
                "`prev` must be missing in the first entry and present in all others",
            ),
        }
    }

    /// Decides a break. If the entry after the later one confirms it, the earlier one was changed.
    fn blame_torn(&mut self, later_holds: bool) {
        let Some(torn) = self.torn.take() else { return };
        if later_holds {
            let what = format!("leaf hash {}…, expected {}…", torn.found.short(), torn.expected.short());
            self.fail(torn.seq - 1, Verdict::Invalid, what);
        } else {
            let what = format!(
                "`prev` is {}…, but the leaf before is {}…",
                torn.expected.short(),
                torn.found.short()
            );
            self.fail(torn.seq, Verdict::Invalid, what);
        }
    }

    /// Decides a break between the last two entries: the mark's root shows which of them was
    /// changed.
    fn blame_last_torn(&mut self) {
        let Some(torn) = &self.torn else { return };
        if self.vouched >= torn.seq {
            return self.blame_torn(false);
        }
        let mut other = torn.frontier.clone();
        other.push(torn.expected);
        other.push(torn.leaf);
        let later_holds =
            self.mark.is_none_or(|mark| mark.head.size != other.size() || mark.head.root == other.root());
        self.blame_torn(later_holds);
    }

    /// Why the header's own fields do not belong at this position.
    fn misplaced(&mut self, seq: u64, header: &EntryFacts) -> Option<String> {
        if header.seq != seq {
            return Some(format!("the header says seq {}", header.seq));
        }
        if (seq == 0) != header.kind.is(Kind::Genesis) {
            return Some(format!("kind `{}` is in the wrong place", header.kind.as_str()));
        }
        let log = self.log.get_or_insert_with(|| header.log.clone());
        (*log != header.log)
            .then(|| format!("the header says log {}, but the first entry says {log}", header.log))
    }

    fn payload(&mut self, seq: u64, header: &EntryFacts, payload: PayloadState) {
        if header.kind.is(Kind::Redaction) {
            match header.answers.filter(|target| *target < seq) {
                Some(target) => self.gone.redact(target, seq),
                None => {
                    self.report.find(Some(seq), Verdict::Invalid, "the redaction names no entry before it")
                }
            }
        }
        match payload {
            PayloadState::Sound => self.report.payloads += 1,
            PayloadState::Wrong(what) => self.report.find(Some(seq), Verdict::Invalid, what),
            PayloadState::Erased => {
                self.gone.missing(seq);
                if let KindWord::Known(kind) = &header.kind
                    && !kind.may_be_erased()
                {
                    let what =
                        format!("the payload is missing, but that of a `{}` is never erased", kind.as_str());
                    self.report.find(Some(seq), Verdict::Invalid, what);
                }
            }
        }
    }

    /// Checks that a seal describes the segment that it ends, and that payloads are dropped by
    /// whole segments.
    fn rotation(&mut self, seq: u64, header: &EntryFacts, body: &[u8]) {
        if header.kind.is(Kind::SegmentSeal) && sealed(body) != Some((self.segment, seq + 1)) {
            self.report.find(Some(seq), Verdict::Invalid, "the seal describes another segment");
        }
        if header.kind.is(Kind::PayloadDrop) {
            match dropped(body).filter(|range| range.end <= self.segment) {
                Some(range) => self.gone.drop_by_age(range),
                None => {
                    let what = "it records dropped payloads that are not in a sealed segment";
                    self.report.find(Some(seq), Verdict::Invalid, what);
                }
            }
        }
    }

    /// Follows the keys: the first entry pins two, and each `key.epoch` names the next.
    fn keys(&mut self, seq: u64, header: &EntryFacts, body: &[u8]) {
        if header.kind.is(Kind::Genesis) {
            match Epochs::from_genesis(&header.log, body) {
                Ok(epochs) => self.epochs = Some(epochs),
                Err(what) => self.leave(seq, what.to_string()),
            }
        }
        if header.kind.is(Kind::KeyEpoch) && !self.left {
            let root = self.frontier.root();
            let sealed = self.epochs.as_mut().map(|epochs| epochs.follow(seq, body));
            match sealed {
                None => self.leave(seq, "it has no epoch before it".to_owned()),
                Some(Err(what)) => self.leave(seq, what.to_string()),
                Some(Ok(seal)) if seal.head.root == root => {}
                Some(Ok(_)) => {
                    let what =
                        "its seal has another root: an entry before it was changed, or all were rewritten";
                    self.leave(seq, what.to_owned());
                }
            }
        }
        self.report.epochs = self.epochs.as_ref().map_or(0, Epochs::number);
    }

    /// Records the tree that an anchor claims. Its root is compared after the tiles.
    fn anchor(&mut self, seq: u64, header: &EntryFacts, body: Option<&[u8]>) {
        // A changed or erased payload proves nothing.
        let Some(body) = body.filter(|_| header.kind.is(Kind::Anchor) && self.report.findings.is_empty())
        else {
            return;
        };
        match read_anchor(seq, body, self.epochs.as_ref()) {
            Ok(head) => self.anchors.push((seq, head)),
            Err(what) => self.report.find(Some(seq), Verdict::Invalid, what.to_string()),
        }
    }

    /// From here on no checkpoint is checked.
    pub(super) fn leave(&mut self, seq: u64, what: String) {
        self.left = true;
        self.report.find(Some(seq), Verdict::Invalid, what);
    }

    fn at_mark(&mut self) {
        let Some(RootMark { head }) = self.mark.filter(|mark| mark.head.size == self.frontier.size()) else {
            return;
        };
        self.report.high_water = Some(head.size);
        // A break before the last entry is decided in `finish`, with this same root.
        if self.frontier.root() == head.root {
            self.vouched = head.size;
        } else if self.torn.is_none() {
            let what = format!(
                "the root is {}…, but the high-water mark has {}…: this entry was changed, or all were rewritten",
                self.frontier.root().short(),
                head.root.short()
            );
            self.report.find(Some(head.size - 1), Verdict::Invalid, what);
        }
    }

    fn refuse(&mut self, seq: u64, what: &str) -> Vec<Tile> {
        self.fail(seq, Verdict::Invalid, what);
        Vec::new()
    }

    fn fail(&mut self, seq: u64, verdict: Verdict, what: impl Into<String>) {
        self.broken = true;
        self.report.find(Some(seq), verdict, what);
    }
}
