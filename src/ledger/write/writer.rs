//! The one writer: a thread that owns the one writing connection.
//!
//! It drains its queue into one transaction (group commit), and answers only after the commit. Chain
//! state advances after the commit, never before it. It also signs: each transaction holds a checkpoint over all
//! entries up to its last one, so that no moment leaves an entry on the disk that somebody could change without a key.

use super::error::{AppendError, OpenError};
use super::follow::catch_up;
use super::queue::{Append, Scrub, Task};
use super::receipt::{Committed, Uncommitted};
use super::reserve::Reserve;
use super::sealed;
use super::segment::{Segment, SegmentFile};
use super::shared::Shared;
use super::wal::LogLengths;
use crate::ledger::checkpoint::Signer;
use crate::ledger::entry::{Draft, DraftError, Header, Kind, SealedEntry, Stamp, Written, seal};
use crate::ledger::files::{Files, HighWater};
use crate::ledger::projection::Projector;
use crate::ledger::read::{ReadError, Reader};
use crate::ledger::tree::{Frontier, Head, Tile, TileEdge, leaf};
use crate::store;
use crate::types::{Digest, clock, limits};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The end of the chain as of the last commit, where the next entry is joined on.
#[derive(Clone, Debug, Default)]
pub(super) struct Tip {
    pub(super) prev: Option<Digest>,
    pub(super) frontier: Frontier,
    pub(super) edge: TileEdge,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) files: Files,
    /// The segment that is written, and its file.
    pub(super) segment: Segment,
    pub(super) file: SegmentFile,
    pub(super) log: String,
    pub(super) chain: Tip,
    pub(super) high_water: HighWater,
    pub(super) projector: Projector,
    pub(super) reader: Arc<Reader>,
    /// A full disk kept state.db from following the last commit.
    pub(super) lags: bool,
    /// Space to be freed on a full disk.
    pub(super) reserve: Reserve,
    /// Owed appends that found no room.
    pub(super) waiting: Vec<Append>,
    pub(super) shared: Arc<Shared>,
    pub(super) signer: Signer,
    /// The write-ahead log may hold what was erased since.
    pub(super) owes: bool,
    pub(super) moves: std::sync::mpsc::SyncSender<()>,
    /// How long the write-ahead logs are.
    pub(super) logs: LogLengths,
}

/// An append on its way through one transaction.
struct Staged {
    append: Append,
    /// Of each entry.
    sealed: Vec<SealedEntry>,
}

impl Staged {
    fn entries(&self) -> impl Iterator<Item = (&SealedEntry, &Written)> {
        self.sealed.iter().zip(&self.append.entries)
    }

    fn headers(&self) -> impl Iterator<Item = &Header> {
        self.sealed.iter().map(|sealed| &sealed.header)
    }
}

impl Writer {
    /// Serves until every sender is gone.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Task>) {
        self.tick();
        while let Some(first) = queue.blocking_recv() {
            let (mut appends, mut scrubs, mut entries) = (Vec::new(), Vec::new(), 0);
            let (mut is_tick, mut is_cut) = (false, false);
            let mut next = Some(first);
            while let Some(task) = next {
                match task {
                    Task::Append(append) => {
                        entries += append.entries.len();
                        appends.push(append);
                    }
                    Task::Scrub(scrub) => scrubs.push(scrub),
                    Task::Tick => is_tick = true,
                    Task::Cut => is_cut = true,
                }
                next = if entries < limits::QUEUE_ENTRIES_MAX { queue.try_recv().ok() } else { None };
            }
            self.serve(appends, None);
            self.bound_logs(is_cut);
            self.rotate();
            for Scrub { rewrite, reply } in scrubs {
                // Who asked may be gone: then a tick does it.
                drop(reply.send(self.scrub(rewrite)));
            }
            if is_tick {
                self.tick();
                self.rotate();
            }
        }
        self.mend();
    }

    /// Changes an epoch that is over, and tries again what a full disk or a reader was in the way of.
    fn tick(&mut self) {
        self.mend();
        let (now, head) = (clock::Wall::now().0, self.head());
        // Without its genesis entry there is no log to sign for.
        if head.size > 0 && self.signer.is_due(now) && self.shared.is_well() {
            match self.signer.next(head, now) {
                Ok((next, payload)) => {
                    self.serve_own(Draft::new(payload), Some(next));
                }
                Err(what) => tracing::error!("the epoch key was not changed: {what}"),
            }
        }
        // After a crash, or a reader that was long in the way.
        if self.owes
            && let Err(e) = self.scrub(false)
        {
            tracing::warn!(error = %e, "the write-ahead log, which may hold erased text, was not emptied");
        }
    }

    /// Empties the write-ahead log; with `rewrite` writes the file anew before. False where somebody reads.
    fn scrub(&mut self, rewrite: bool) -> Result<bool, rusqlite::Error> {
        if rewrite {
            self.owes = true;
            store::rewrite(self.file.db())?;
        }
        let is_empty = store::empty_log(self.file.db())?;
        self.owes &= !is_empty;
        Ok(is_empty)
    }

    fn head(&self) -> Head {
        Head { size: self.chain.frontier.size(), root: self.chain.frontier.root() }
    }

    /// An entry of the writer's own; with `next` as [`Writer::serve`].
    pub(super) fn serve_own(&mut self, draft: Draft, next: Option<Signer>) {
        match Append::new(vec![draft]) {
            Ok((append, _nobody_waits)) => self.serve(vec![append], next),
            Err(error) => tracing::error!(error = %error, "an entry of the ledger's own"),
        }
    }

    /// Commits the appends together, behind those that wait; with `next`, which signs behind them, the epoch
    /// changes, and nothing waits: its seal is of what was there before.
    pub(super) fn serve(&mut self, appends: Vec<Append>, next: Option<Signer>) {
        // What is owed alone is to use the space that the reserve gave.
        let is_short = appends.iter().any(|append| !append.is_owed) && self.is_short();
        let mut all = std::mem::take(&mut self.waiting);
        all.extend(appends);
        let mut chain = self.chain.clone();
        let mut tiles = Vec::new();
        let mut staged = self.admit(all, is_short, &mut chain, &mut tiles);
        if staged.is_empty() {
            return;
        }
        let head = Head { size: chain.frontier.size(), root: chain.frontier.root() };
        // Whoever takes it away takes the entries behind the one before it along: they cannot stand without it.
        let note: Arc<str> = next.as_ref().unwrap_or(&self.signer).checkpoint(head).into();
        let is_ready = self.follow().and_then(|()| self.turn());
        // Which payloads stand in other files is known once the segment is the one that is written to.
        let reaches_back = staged.iter().flat_map(|s| &s.append.erases).any(|seq| *seq < self.segment.first);
        let committed = is_ready
            .and_then(|()| if reaches_back { self.promise() } else { Ok(()) })
            .and_then(|()| self.commit(&staged, &tiles, head, &note));
        let mut committed = match committed {
            Ok(committed) => committed,
            Err(error) => return self.refuse(staged.into_iter().map(|one| one.append).collect(), &error),
        };
        // From here on the entries are durable, whatever happens to this process.
        self.chain = chain;
        self.owes |= staged.iter().any(|s| !s.append.erases.is_empty());
        if reaches_back && let Err(e) = sealed::finish(&self.files, &self.reader) {
            tracing::error!(error = %e, "what is to be erased in a sealed segment is still there; the next start does it");
        }
        self.measure(&staged);
        self.shared.advance(head);
        self.ease();
        if let Some(next) = next {
            if let Err(what) = next.install() {
                tracing::error!("the key of the epoch before is not erased: {what}");
            }
            self.signer = next;
        }
        self.shared.signed(note);
        self.shared.count(staged.iter().flat_map(Staged::headers));
        // Before the receipts: whoever was told of an entry can rely on its loss being noticed, also
        // where this process ends with its answer.
        self.high_water.write(head);
        for Staged { append, sealed } in &mut staged {
            append.answer(Ok(committed.receipts(sealed.len())));
        }
        // Nobody waits for this: who asks state.db waits for it to follow.
        match self.project(&staged, head.size) {
            Ok(()) => self.shared.applied(head.size),
            Err(error) => {
                self.lags = true;
                self.shared.lag(&error);
            }
        }
    }

    /// Stages the appends that can be written onto `chain`; the others are answered.
    fn admit(
        &self,
        appends: Vec<Append>,
        is_short: bool,
        chain: &mut Tip,
        tiles: &mut Vec<Tile>,
    ) -> Vec<Staged> {
        let mut staged = Vec::with_capacity(appends.len());
        let mut erases = BTreeSet::new();
        for mut append in appends {
            if let Some(error) = self.shared.fault() {
                append.answer(Err(error));
                continue;
            }
            // A question whether somebody is here says nothing about the disk.
            if append.entries.is_empty() {
                append.answer(Ok(Vec::new()));
                continue;
            }
            if is_short && !append.is_owed {
                append.answer(Err(AppendError::Full));
                continue;
            }
            let sealed = self
                .may_erase(&append.erases, &mut erases)
                .and_then(|()| self.stage(&append.entries, chain, tiles).map_err(AppendError::Draft));
            match sealed {
                Ok(sealed) => staged.push(Staged { append, sealed }),
                Err(error) => append.answer(Err(error)),
            }
        }
        staged
    }

    /// Nothing is said to be erased in another file before it is certain that a start would end it.
    fn promise(&self) -> Result<(), AppendError> {
        let begun = sealed::begin(&self.files, self.chain.frontier.size());
        begun.map_err(|e| AppendError::Poisoned(format!("an erasure cannot be marked: {e}")))
    }

    /// What the segment has grown by.
    fn measure(&mut self, staged: &[Staged]) {
        for (SealedEntry { bytes, header }, written) in staged.iter().flat_map(Staged::entries) {
            self.segment.bytes += (bytes.len() + written.body.len()) as u64;
            self.segment.began_us = self.segment.began_us.or(header.u64("wall_us"));
            self.segment.is_sealed = header.is(Kind::SegmentSeal);
        }
    }

    /// That each payload is still there, and nobody else in this commit erases it.
    fn may_erase(&self, seqs: &[u64], taken: &mut BTreeSet<u64>) -> Result<(), AppendError> {
        for seq in seqs {
            let is_there = match self.reader.entry(*seq) {
                Ok(stored) => stored.is_some_and(|stored| stored.body.is_some()),
                Err(e) => return Err(AppendError::Draft(DraftError(e.to_string()))),
            };
            if !is_there || taken.contains(seq) {
                return Err(AppendError::Draft(DraftError(format!("entry {seq} was erased already"))));
            }
        }
        taken.extend(seqs);
        Ok(())
    }

    /// Seals the entries of one append onto `chain`, which is left as it was on an error.
    fn stage(
        &self,
        written: &[Written],
        chain: &mut Tip,
        tiles: &mut Vec<Tile>,
    ) -> Result<Vec<SealedEntry>, DraftError> {
        let first_seq = chain.frontier.size();
        let mut entries = Vec::with_capacity(written.len());
        let mut leaves = Vec::with_capacity(written.len());
        for (seq, written) in (first_seq..).zip(written) {
            let stamp = Stamp {
                log: &self.log,
                seq,
                prev: leaves.last().copied().or(chain.prev),
                wall_us: clock::Wall::now().0,
                mono_us: clock::mono_us(),
                boot: clock::boot_id(),
                first_seq,
            };
            let sealed = seal(written, &stamp)?;
            leaves.push(leaf(&sealed.bytes));
            entries.push(sealed);
        }
        for hash in leaves {
            tiles.extend(chain.edge.push_beside(&mut chain.frontier, hash));
            chain.prev = Some(hash);
        }
        Ok(entries)
    }

    /// One transaction, with `note` as the checkpoint over `head`, the ledger after it.
    fn commit(
        &self,
        staged: &[Staged],
        tiles: &[Tile],
        head: Head,
        note: &Arc<str>,
    ) -> Result<Committed, AppendError> {
        let mut pending = Uncommitted::begin(&self.file)?;
        let mut fill = || -> Result<(), rusqlite::Error> {
            for (sealed, written) in staged.iter().flat_map(Staged::entries) {
                pending.put(sealed, written)?;
            }
            let erases = staged.iter().flat_map(|s| &s.append.erases);
            for seq in erases.filter(|seq| **seq >= self.segment.first) {
                pending.erase(*seq)?;
            }
            tiles.iter().try_for_each(|tile| pending.store(tile))
        };
        fill().map_err(|e| AppendError::from_sqlite(&e))?;
        pending.commit(head, note)
    }

    fn project(&self, staged: &[Staged], size: u64) -> Result<(), AppendError> {
        let entries = staged.iter().flat_map(Staged::entries);
        let entries = entries.map(|(sealed, written)| (&sealed.header, written.body.as_slice()));
        self.projector.apply(entries, size).map_err(|e| match AppendError::from_sqlite(&e) {
            AppendError::Full => AppendError::Full,
            e => AppendError::Poisoned(format!("the entries are durable, but state.db did not follow: {e}")),
        })
    }

    /// Brings a state.db that stayed behind up to date, by the function that does so at opening: on a
    /// full disk nothing more is written until it has followed.
    pub(super) fn follow(&mut self) -> Result<(), AppendError> {
        if self.lags {
            let size = self.chain.frontier.size();
            catch_up(&self.projector, &self.reader, size).map_err(|e| match e {
                OpenError::Read(ReadError::Sqlite(e)) => AppendError::from_sqlite(&e),
                other => AppendError::Poisoned(other.to_string()),
            })?;
            self.lags = false;
            self.shared.applied(size);
        }
        Ok(())
    }
}
