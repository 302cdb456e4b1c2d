//! Verification, entry by entry. Pure: it is handed bytes and reports what holds.

use super::entry::Kind;
use super::epoch::Epochs;
use super::expire::{dropped, sealed};
use super::gone::Gone;
use super::look::{Facts, Looked, Payload, Word};
use super::merkle::{Frontier, Tile, TileEdge};
use super::note::{Checkpoint, Note, VerifierKey};
use super::{Head, anchored};
use crate::types::{Digest, limits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a verification found. `Ok` with nothing checked cannot happen: no entry is a finding.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The judgement over all findings.
    pub verdict: Verdict,
    /// The first entry that was read: the ones before were not.
    pub from: u64,
    /// Entries whose header, chain and leaf were checked.
    pub entries: u64,
    /// Payloads whose commitment was checked.
    pub payloads: u64,
    /// Payloads that a redaction erased.
    pub redacted: u64,
    /// Payloads that went with their age.
    pub dropped: u64,
    /// Files that the entries are in.
    pub segments: u64,
    /// Stored tiles that were recomputed.
    pub tiles: u64,
    /// Stored checkpoints whose signatures and root were checked.
    pub checkpoints: u64,
    /// Entries that the newest of them covers.
    pub signed: u64,
    /// The newest of them.
    #[serde(skip)]
    pub newest: Option<Note>,
    /// Epochs whose keys signed them, each named by the seal of the one before.
    pub epochs: u64,
    /// Entries that tell of an anchor, whose checkpoint was checked and compared with the tree.
    pub anchors: u64,
    /// Entries of the newest checkpoint from outside that this ledger was found to extend.
    pub anchored: Option<u64>,
    /// Rows of state.db that were compared, if it is there.
    pub state_rows: Option<u64>,
    /// Merkle root over the entries, in hexadecimal.
    pub root: String,
    /// Size at which the root was compared with the high-water mark, if there is one.
    pub high_water: Option<u64>,
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// What could not be known.
    pub warnings: Vec<String>,
}

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The entry, where one can be named.
    pub seq: Option<u64>,
    /// What is wrong with it.
    pub what: String,
    /// The judgement that it alone leads to.
    pub verdict: Verdict,
}

/// The judgement.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that was checked holds, also against a checkpoint from outside.
    #[default]
    Verified,
    /// Everything that was checked holds. Nothing from outside was there to compare with: a cut tail, a
    /// rollback or a rewrite by who holds the files and keys cannot be excluded.
    VerifiedUnanchored,
    /// Entries that were seen before are missing.
    Incomplete,
    /// A checkpoint from outside is of another history.
    Diverged,
    /// Bytes are not what was hashed.
    Invalid,
    /// The file cannot be read as a ledger.
    Unreadable,
}

impl Verdict {
    /// The word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::VerifiedUnanchored => "verified_unanchored",
            Self::Incomplete => "incomplete",
            Self::Diverged => "diverged",
            Self::Invalid => "invalid",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether everything that was checked holds.
    #[must_use]
    pub fn holds(self) -> bool {
        matches!(self, Self::Verified | Self::VerifiedUnanchored)
    }
}

/// Findings beyond this many are counted by the first ones.
const FINDINGS_MAX: usize = 20;

impl Report {
    /// Adds a finding; the worst verdict stands.
    pub fn find(&mut self, seq: Option<u64>, verdict: Verdict, what: impl Into<String>) {
        self.verdict = self.verdict.max(verdict);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { seq, what: what.into(), verdict });
        }
    }
}

/// A mark that the root at some size must meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) head: Head,
}

/// A checkpoint that a log signed and somebody kept elsewhere, and what is known of who may sign.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Where it comes from, for people.
    pub from: String,
    /// The note.
    pub note: Note,
    /// The log key that it has to be signed with; else that of the ledger itself.
    pub key: Option<VerifierKey>,
}

/// A checkpoint on the walk's way.
#[derive(Clone, Debug)]
struct Way {
    size: u64,
    note: Note,
    /// Where it comes from, if from outside.
    outside: Option<(String, Option<VerifierKey>)>,
}

/// The walk over all entries in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    pub(super) report: Report,
    mark: Option<Mark>,
    log: Option<Arc<str>>,
    /// The keys so far; none where the first entry pins none.
    epochs: Option<Epochs>,
    /// Checkpoints ahead, the nearest last.
    ahead: Vec<Way>,
    /// A checkpoint was of another root: the later ones have no more to say.
    left: bool,
    /// Anchors that the entries tell of, with their entry: their roots are compared once the tiles are.
    pub(super) anchors: Vec<(u64, Head)>,
    frontier: Frontier,
    edge: TileEdge,
    /// Size at which the root met the mark: no entry before it was changed.
    vouched: u64,
    /// The entry before: its leaf, and the frontier without it.
    last: Option<(Digest, Frontier)>,
    /// A break between two entries whose culprit the next entry decides.
    torn: Option<Torn>,
    /// Payloads that are not there, and what is said of them.
    gone: Gone,
    /// First entry of the segment that is walked, and whether the entry before was a seal.
    segment: u64,
    is_sealed: bool,
    broken: bool,
}

/// What a walk that begins with entry `from` is told of the ones before it.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) from: u64,
    pub(super) log: Arc<str>,
    pub(super) epochs: Epochs,
    /// Leaf of the entry before, and the frontier without it.
    pub(super) last: Digest,
    pub(super) before: Frontier,
}

/// Entry `seq` names `expected` as the leaf before it, and that is not `found`.
#[derive(Clone, Debug)]
struct Torn {
    seq: u64,
    found: Digest,
    expected: Digest,
    /// Frontier without the entry before `seq`, and the leaf of `seq`.
    frontier: Frontier,
    leaf: Digest,
}

impl Walk {
    pub(super) fn new(mark: Option<Mark>) -> Self {
        Self { mark, ..Self::default() }
    }

    /// A walk that begins behind entries that it does not read.
    pub(super) fn resume(mark: Option<Mark>, start: Start, edge: TileEdge) -> Self {
        let mut frontier = start.before.clone();
        frontier.push(start.last);
        let report = Report { from: start.from, signed: start.from, ..Report::default() };
        let last = Some((start.last, start.before));
        let (log, epochs) = (Some(start.log), Some(start.epochs));
        Self { report, mark, log, epochs, frontier, edge, last, ..Self::default() }
    }

    /// Stored checkpoints, by rising size, as their table has them: span and note.
    pub(super) fn expect(&mut self, stored: &[(i64, i64, Vec<u8>)], outside: &[Outside]) {
        let mut ahead = Vec::new();
        for (id, size, note) in stored {
            match stored_checkpoint(*id, *size, note) {
                Ok((size, note)) => ahead.push(Way { size, note, outside: None }),
                Err(what) => self.report.find(None, Verdict::Invalid, format!("checkpoint {id}: {what}")),
            }
        }
        for Outside { from, note, key } in outside {
            match Checkpoint::parse(note.text()) {
                Ok(checkpoint) => ahead.push(Way {
                    size: checkpoint.head.size,
                    note: note.clone(),
                    outside: Some((from.clone(), key.clone())),
                }),
                Err(what) => self.report.find(None, Verdict::Unreadable, format!("{from}: {what}")),
            }
        }
        ahead.sort_by_key(|way| std::cmp::Reverse(way.size));
        self.ahead = ahead;
    }

    /// The entries of the segment that begins with `first` come next.
    pub(super) fn segment(&mut self, first: u64) {
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
        let what = format!("a segment begins with {first}, and the one before it goes further");
        self.fail(first, Verdict::Invalid, what);
    }

    /// Number of entries that were followed.
    pub(super) fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// Whether the chain has no more to say.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Checks the entry stored under `seq`, and hands back the tiles that it fills; `body` is what is there of the
    /// payload, and is asked for where [`Walk::follows`] its words.
    ///
    /// Behind the first break nothing more is compared: the chain has no more to say.
    pub(super) fn entry(&mut self, seq: u64, looked: &Looked, body: Option<&[u8]>) -> Vec<Tile> {
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
        let (header, hash) = match &looked.header {
            Ok(header) => (header, looked.leaf),
            Err(what) => {
                self.blame_torn(false);
                self.fail(seq, Verdict::Invalid, what);
                return Vec::new();
            }
        };
        if self.is_sealed != (seq == self.segment && seq > 0) && self.report.entries > 0 {
            let what = match self.is_sealed {
                true => "it stands in the same file as the seal before it",
                false => "a segment begins with it, and the one before has no seal",
            };
            return self.refuse(seq, what);
        }
        self.link(seq, header, hash);
        if self.broken {
            return Vec::new();
        }
        // Next to a break an entry's own words prove nothing: the one behind it tells which was changed.
        if self.torn.is_none()
            && let Err(what) = self.identity(seq, header)
        {
            self.fail(seq, Verdict::Invalid, what);
            return Vec::new();
        }
        self.payload(seq, header, looked.payload);
        if self.torn.is_none() {
            self.keys(seq, header, body.unwrap_or_default());
            self.anchor(seq, header, body);
            self.rotation(seq, header, body.unwrap_or_default());
        }
        self.is_sealed = header.kind.is(Kind::SegmentSeal);
        let (last, before) = self.last.get_or_insert_with(|| (hash, Frontier::default()));
        *last = hash;
        before.set(&self.frontier);
        let filled = self.edge.push_beside(&mut self.frontier, hash);
        self.report.entries += 1;
        self.at_mark();
        self.at_checkpoint();
        filled
    }

    /// Whether the walk reads the payload of such an entry.
    pub(super) fn follows(kind: &Word) -> bool {
        let Word::Known(kind) = kind else { return false };
        let followed = [Kind::Genesis, Kind::KeyEpoch, Kind::Anchor, Kind::SegmentSeal, Kind::PayloadDrop];
        followed.contains(kind)
    }

    /// Ends the walk.
    pub(super) fn finish(mut self) -> (Report, Frontier) {
        self.blame_last_torn();
        // A new segment may be empty, but not in front of the seal that it comes behind.
        let (first, there) = (self.segment, self.frontier.size());
        if !self.broken && first == there && self.report.segments > 1 && !self.is_sealed {
            self.fail(first, Verdict::Invalid, "a segment begins with it, and the one before has no seal");
        }
        if !self.broken {
            std::mem::take(&mut self.gone).compare(self.segment, &mut self.report);
        }
        // Where nothing was added, the root has met a checkpoint: that was checked.
        let is_met = self.report.anchored.is_some();
        if self.report.entries == 0 && !is_met && self.report.findings.is_empty() {
            self.report.find(None, Verdict::Incomplete, "there is no entry: nothing was checked");
        }
        if !self.broken {
            self.beyond();
        }
        if let Some(Mark { head }) = self.mark
            && head.size == 0
            && head.root != Frontier::default().root()
        {
            let what = "the high-water mark is of no entry, and of another root than nothing has";
            self.report.find(None, Verdict::Invalid, what);
        }
        if let Some(Mark { head }) = self.mark
            && !self.broken
            && head.size > self.frontier.size()
        {
            let what = format!(
                "{} entries are there, and the high-water mark says {}",
                self.frontier.size(),
                head.size
            );
            self.report.find(Some(self.frontier.size()), Verdict::Incomplete, what);
        }
        self.report.root = self.frontier.root().hex();
        (self.report, self.frontier)
    }

    /// Follows the chain: this entry must name the leaf before it.
    fn link(&mut self, seq: u64, header: &Facts, hash: Digest) {
        let before = self.last.as_ref().map(|(leaf, _)| *leaf);
        if self.torn.is_some() {
            // The entry behind a break tells on which side of it the change is.
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
            _ => self.fail(seq, Verdict::Invalid, "`prev` is there or missing where it must not be"),
        }
    }

    /// Decides a break: where the later entry is vouched for by its successor, the earlier was changed.
    fn blame_torn(&mut self, later_holds: bool) {
        let Some(torn) = self.torn.take() else { return };
        if later_holds {
            let what = format!("leaf hash {}…, expected {}…", torn.found.short(), torn.expected.short());
            self.fail(torn.seq - 1, Verdict::Invalid, what);
        } else {
            let what = format!(
                "`prev` is {}…, and the leaf before is {}…",
                torn.expected.short(),
                torn.found.short()
            );
            self.fail(torn.seq, Verdict::Invalid, what);
        }
    }

    /// A break between the last two entries: the mark's root tells which side was changed.
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

    fn identity(&mut self, seq: u64, header: &Facts) -> Result<(), String> {
        if header.seq != seq {
            return Err(format!("the header says seq {}", header.seq));
        }
        if (seq == 0) != header.kind.is(Kind::Genesis) {
            return Err(format!("kind `{}` is in the wrong place", header.kind.as_str()));
        }
        let log = self.log.get_or_insert_with(|| header.log.clone());
        if *log != header.log {
            return Err(format!("the header says log {}, and the first entry says {log}", header.log));
        }
        Ok(())
    }

    fn payload(&mut self, seq: u64, header: &Facts, payload: Payload) {
        if header.kind.is(Kind::Redaction) {
            match header.answers.filter(|target| *target < seq) {
                Some(target) => self.gone.redact(target, seq),
                None => {
                    self.report.find(Some(seq), Verdict::Invalid, "the redaction names no entry before it")
                }
            }
        }
        match payload {
            Payload::Sound => self.report.payloads += 1,
            Payload::Wrong(what) => self.report.find(Some(seq), Verdict::Invalid, what),
            Payload::Erased => {
                self.gone.lack(seq);
                if let Word::Known(kind) = &header.kind
                    && !kind.may_be_erased()
                {
                    let what = format!("the payload of a `{}` is gone, which is never erased", kind.as_str());
                    self.report.find(Some(seq), Verdict::Invalid, what);
                }
            }
        }
    }

    /// A seal tells of the segment that it ends; payloads go by whole segments.
    fn rotation(&mut self, seq: u64, header: &Facts, body: &[u8]) {
        if header.kind.is(Kind::SegmentSeal) && sealed(body) != Some((self.segment, seq + 1)) {
            self.report.find(Some(seq), Verdict::Invalid, "the seal is of another segment");
        }
        if header.kind.is(Kind::PayloadDrop) {
            match dropped(body).filter(|range| range.end <= self.segment) {
                Some(range) => self.gone.drop_by_age(range),
                None => {
                    let what = "it says that payloads were dropped that are in no sealed segment";
                    self.report.find(Some(seq), Verdict::Invalid, what);
                }
            }
        }
    }

    /// Follows the keys: the first entry pins two, and each `key.epoch` names the next.
    fn keys(&mut self, seq: u64, header: &Facts, body: &[u8]) {
        if header.kind.is(Kind::Genesis) {
            match Epochs::of_genesis(&header.log, body) {
                Ok(epochs) => self.epochs = Some(epochs),
                Err(what) => self.leave(seq, what),
            }
        }
        if header.kind.is(Kind::KeyEpoch) && !self.left {
            let sealed = self.epochs.as_mut().ok_or("there is no epoch before it".to_owned());
            let root = self.frontier.root();
            match sealed.and_then(|epochs| epochs.follow(seq, body)) {
                Ok(seal) if seal.head.root == root => {}
                Ok(_) => {
                    let what =
                        "its seal is of another root: an entry before it was changed, or all were rewritten";
                    self.leave(seq, what.to_owned());
                }
                Err(what) => self.leave(seq, what),
            }
        }
        self.report.epochs = self.epochs.as_ref().map_or(0, Epochs::number);
    }

    /// Notes what an anchor says of the tree; its root is compared when the tiles have been.
    fn anchor(&mut self, seq: u64, header: &Facts, body: Option<&[u8]>) {
        // What was changed or erased says nothing any more.
        let Some(body) = body.filter(|_| header.kind.is(Kind::Anchor) && self.report.findings.is_empty())
        else {
            return;
        };
        match anchored::read(seq, body, self.epochs.as_ref()) {
            Ok(head) => self.anchors.push((seq, head)),
            Err(what) => self.report.find(Some(seq), Verdict::Invalid, what),
        }
    }

    /// From here on no checkpoint has anything to say.
    fn leave(&mut self, seq: u64, what: String) {
        self.left = true;
        self.report.find(Some(seq), Verdict::Invalid, what);
    }

    /// Checks the checkpoints of this size.
    pub(super) fn at_checkpoint(&mut self) {
        let size = self.frontier.size();
        while let Some(way) = self.ahead.pop_if(|way| way.size <= size) {
            // A break behind the last entry is decided first; a root that is left stays so.
            if self.torn.is_some() || self.left {
                continue;
            }
            // Reckoned where there is something to compare it with: few entries have a checkpoint.
            let head = Head { size, root: self.frontier.root() };
            match (self.checkpoint(&way, head), way.outside) {
                (Ok(()), None) => {
                    self.report.checkpoints += 1;
                    self.report.signed = head.size;
                    self.report.newest = Some(way.note);
                }
                (Ok(()), Some(_)) => self.report.anchored = Some(head.size),
                (Err((_, what)), None) => self.leave(head.size - 1, what),
                (Err((verdict, what)), Some((from, _))) => {
                    self.report.find(None, verdict, format!("{from}: {what}"));
                }
            }
        }
        let unsigned = size - self.report.signed;
        if unsigned > limits::UNSIGNED_ENTRIES_MAX && !self.left && self.torn.is_none() {
            self.left = true;
            let what = format!("{unsigned} entries in a row are not signed: checkpoints are missing");
            self.report.find(Some(size - 1), Verdict::Incomplete, what);
        }
    }

    fn checkpoint(&self, way: &Way, head: Head) -> Result<(), (Verdict, String)> {
        let invalid = |what| (Verdict::Invalid, what);
        let epochs = self.epochs.as_ref();
        let epochs =
            epochs.ok_or_else(|| invalid("the genesis entry pins no keys to check it with".to_owned()))?;
        if let Some((_, key)) = &way.outside {
            // Its own key decides whether it counts; the ledger's keys, whether it is of this ledger.
            let key = key.as_ref().unwrap_or(epochs.log());
            if !way.note.is_signed_by(key) {
                return Err((Verdict::Diverged, format!("`{}` did not sign this checkpoint", key.name())));
            }
        }
        let of_ledger = epochs.check(&way.note);
        let signed = of_ledger.map_err(|what| match way.outside {
            Some(_) => (Verdict::Diverged, what),
            None => invalid(what),
        })?;
        if signed.head == head {
            return Ok(());
        }
        let (here, there) = (head.root.short(), signed.head.root.short());
        Err(match way.outside {
            Some(_) => (
                Verdict::Diverged,
                format!("the root over {} entries was {there}…, and is {here}…", head.size),
            ),
            None => invalid(format!(
                "root {here}…, and a signed checkpoint says {there}…: an entry up to this one was changed, or all \
                 were rewritten"
            )),
        })
    }

    /// Checkpoints of more entries than there are, and entries that none covers.
    fn beyond(&mut self) {
        let there = self.frontier.size();
        for way in std::mem::take(&mut self.ahead) {
            if let (Some((from, _)), Some(what)) = (&way.outside, self.foreign(&way)) {
                self.report.find(None, Verdict::Diverged, format!("{from}: {what}"));
                continue;
            }
            let who = way.outside.map_or_else(|| "a signed checkpoint".to_owned(), |(from, _)| from);
            let what = format!("{there} entries are there, and {who} says {}", way.size);
            self.report.find(Some(there), Verdict::Incomplete, what);
        }
        let signed = self.report.signed;
        if signed == there || self.left || self.torn.is_some() {
            return;
        }
        if signed == 0 {
            return self.report.find(
                None,
                Verdict::Incomplete,
                "no entry is signed: the checkpoints are missing",
            );
        }
        // Each commit is signed with its entries: not even a crash leaves some behind the newest checkpoint.
        let what = format!(
            "no checkpoint covers the entries {signed} to {}: the newest is missing, and they can be made anew without a \
             key",
            there - 1
        );
        self.report.find(Some(signed), Verdict::Incomplete, what);
    }

    /// Why a checkpoint of more entries than there are is none of this log. Which epoch signs there nobody
    /// here can know: the log key says whose it is.
    fn foreign(&self, way: &Way) -> Option<String> {
        let own = self.epochs.as_ref()?.log();
        let known = way.outside.as_ref().and_then(|(_, key)| key.as_ref());
        let mut keys = known.into_iter().chain([own]);
        let other = keys.find(|key| !way.note.is_signed_by(key))?;
        Some(format!("`{}` did not sign this checkpoint", other.name()))
    }

    fn at_mark(&mut self) {
        let Some(Mark { head }) = self.mark.filter(|mark| mark.head.size == self.frontier.size()) else {
            return;
        };
        self.report.high_water = Some(head.size);
        // A break behind the last entry is decided in `finish`, with this same root.
        if self.frontier.root() == head.root {
            self.vouched = head.size;
        } else if self.torn.is_none() {
            let what = format!(
                "root {}…, and the high-water mark says {}…: this entry was changed, or all were rewritten",
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

/// A row of the table of checkpoints: it stands under its span, and under its size.
fn stored_checkpoint(id: i64, size: i64, note: &[u8]) -> Result<(u64, Note), String> {
    let text = std::str::from_utf8(note).map_err(|_| "it is no text".to_owned())?;
    let note = Note::parse(text)?;
    let checkpoint = Checkpoint::parse(note.text())?;
    let rows = (u64::try_from(id), u64::try_from(size));
    if rows != (Ok(checkpoint.head.size / limits::CHECKPOINT_ENTRIES), Ok(checkpoint.head.size)) {
        return Err(format!("it is of {} entries, and stands elsewhere", checkpoint.head.size));
    }
    if !checkpoint.extensions.is_empty() || note.signers().count() != 2 {
        return Err("it has other lines than size, root and two signatures".to_owned());
    }
    Ok((checkpoint.head.size, note))
}

/// The hashes in a stored tile; a length that is no multiple of 32 loses its rest, and the comparison
/// of the whole tile finds it.
pub(super) fn tile_hashes(bytes: &[u8]) -> Vec<Digest> {
    bytes.chunks_exact(32).filter_map(|chunk| chunk.try_into().ok().map(Digest)).collect()
}
