//! The one writer: a thread that owns the one writing connection.
//!
//! It drains its queue into one transaction (group commit), and replies only after the commit.
//! Chain state advances after the commit, never before it. The writer also signs: each transaction
//! holds a checkpoint over all entries up to its last one, so that at no moment the disk holds an
//! entry that could be changed without a key.

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
use crate::ledger::entry::{Draft, DraftError, Kind, SealedEntry, Stamp, Written, seal};
use crate::ledger::files::{Files, HighWater};
use crate::ledger::projection::Projector;
use crate::ledger::read::{ReadError, Reader};
use crate::ledger::tree::{Frontier, Head, Tile, TileEdge, leaf};
use crate::store;
use crate::types::{Digest, clock, limits};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The end of the chain after the last commit, where the next entry is added.
#[derive(Clone, Debug, Default)]
pub(super) struct Tip {
    pub(super) prev: Option<Digest>,
    pub(super) frontier: Frontier,
    pub(super) edge: TileEdge,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) files: Files,
    /// The newest segment, and its file.
    pub(super) segment: Segment,
    pub(super) file: SegmentFile,
    pub(super) log: String,
    pub(super) chain: Tip,
    pub(super) high_water: HighWater,
    pub(super) projector: Projector,
    pub(super) reader: Arc<Reader>,
    /// A full disk kept state.db from following the last commit.
    pub(super) lags: bool,
    /// Space to free on a full disk.
    pub(super) reserve: Reserve,
    /// Owed appends that found no space.
    pub(super) waiting: Vec<Append>,
    pub(super) shared: Arc<Shared>,
    pub(super) signer: Signer,
    /// The write-ahead log may hold payloads that were erased since.
    pub(super) owes: bool,
    pub(super) moves: std::sync::mpsc::SyncSender<()>,
    /// Lengths of the write-ahead logs.
    pub(super) logs: LogLengths,
}

/// An append in the current transaction.
struct Staged {
    append: Append,
    /// One for each entry of the append.
    sealed: Vec<SealedEntry>,
}

impl Staged {
    fn entries(&self) -> impl Iterator<Item = (&SealedEntry, &Written)> {
        self.sealed.iter().zip(&self.append.entries)
    }
}

impl Writer {
    /// Serves until every sender is dropped.
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
                // If the caller is gone, a tick does it.
                drop(reply.send(self.scrub(rewrite)));
            }
            if is_tick {
                self.tick();
                self.rotate();
            }
        }
        self.mend();
    }

    /// Changes an epoch that is over, and retries what a full disk or a reader prevented.
    fn tick(&mut self) {
        self.mend();
        let (now, head) = (clock::Wall::now().0, self.head());
        // Without a genesis entry, no log exists to sign for.
        if head.size > 0 && self.signer.is_due(now) && self.shared.is_well() && self.shared.damage().is_none()
        {
            match self.signer.next(head, now) {
                Ok((next, payload)) => {
                    self.serve_own(Draft::new(payload), Some(next));
                }
                Err(what) => tracing::error!("the epoch key was not changed: {what}"),
            }
        }
        // After a crash, or after a reader that held the log for long.
        if self.owes
            && let Err(e) = self.scrub(false)
        {
            tracing::warn!(error = %e, "cannot truncate the write-ahead log, which may hold erased text");
        }
    }

    /// Truncates the write-ahead log; with `rewrite`, after rewriting the file. Returns false if a
    /// reader prevents it.
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

    /// Appends one of the writer's own entries; for `next`, see [`Writer::serve`].
    pub(super) fn serve_own(&mut self, draft: Draft, next: Option<Signer>) {
        match Append::new(vec![draft]) {
            Ok((append, _unused)) => self.serve(vec![append], next),
            Err(error) => tracing::error!(error = %error, "cannot append an entry of the ledger's own"),
        }
    }

    /// Commits the appends together, after those that wait. If `next` is given, the epoch changes
    /// and `next` signs afterwards. Nothing waits then, and its seal covers what came before.
    pub(super) fn serve(&mut self, appends: Vec<Append>, next: Option<Signer>) {
        // Only owed appends may use the space that the reserve freed.
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
        // Removing this checkpoint means removing the entries since the previous one too: they are
        // not valid without it.
        let note: Arc<str> = next.as_ref().unwrap_or(&self.signer).checkpoint(head).into();
        let is_ready = self.follow().and_then(|()| self.turn());
        // Which payloads are in other files is known only once the newest segment is current.
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
            tracing::error!(error = %e, "a payload in a sealed segment is not erased yet; the next start erases it");
        }
        self.measure(&staged);
        self.shared.advance(head);
        self.ease();
        if let Some(next) = next {
            if let Err(what) = next.install() {
                tracing::error!("cannot erase the key of the previous epoch: {what}");
            }
            self.signer = next;
        }
        self.shared.signed(note);
        let entries = staged.iter().flat_map(Staged::entries);
        self.shared.count(entries.map(|(sealed, written)| (&sealed.header, written.model.as_deref())));
        // Before the receipts: the holder of a receipt can rely on the loss of its entry being
        // detected, also if this process ends right after its reply.
        self.high_water.write(head);
        for Staged { append, sealed } in &mut staged {
            append.answer(Ok(committed.receipts(sealed.len())));
        }
        // No append waits for this; queries of state.db wait for it to follow.
        match self.project(&staged, head.size) {
            Ok(()) => self.shared.applied(head.size),
            Err(error) => {
                self.lags = true;
                self.shared.lag(&error);
            }
        }
    }

    /// Stages the appends that can be written onto `chain`. The others get their error.
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
            // An append without entries only checks that the writer runs; the disk does not matter.
            if append.entries.is_empty() {
                append.answer(Ok(Vec::new()));
                continue;
            }
            if let Some(damage) = self.shared.damage()
                && !append.entries.iter().all(|entry| entry.kind().is_written_on_damage())
            {
                append.answer(Err(AppendError::Damaged(Box::new(damage))));
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

    /// Before an entry records an erasure in another file, a mark makes sure that a start would
    /// finish it.
    fn promise(&self) -> Result<(), AppendError> {
        let begun = sealed::begin(&self.files, self.chain.frontier.size());
        begun.map_err(|e| AppendError::Poisoned(format!("an erasure cannot be marked: {e}")))
    }

    /// Updates the size and age of the segment.
    fn measure(&mut self, staged: &[Staged]) {
        for (SealedEntry { bytes, header }, written) in staged.iter().flat_map(Staged::entries) {
            self.segment.bytes += (bytes.len() + written.body.len()) as u64;
            self.segment.began_us = self.segment.began_us.or(header.u64("wall_us"));
            self.segment.is_sealed = header.is(Kind::SegmentSeal);
        }
    }

    /// Checks that each payload still exists and that no other append of this commit erases it.
    fn may_erase(&self, seqs: &[u64], taken: &mut BTreeSet<u64>) -> Result<(), AppendError> {
        for seq in seqs {
            let is_there = match self.reader.entry(*seq) {
                Ok(stored) => stored.is_some_and(|stored| stored.body.is_some()),
                Err(e) => return Err(AppendError::Draft(DraftError(e.to_string()))),
            };
            if !is_there || taken.contains(seq) {
                return Err(AppendError::Draft(DraftError(format!(
                    "the payload of entry {seq} was already erased"
                ))));
            }
        }
        taken.extend(seqs);
        Ok(())
    }

    /// Seals the entries of one append onto `chain`. On an error `chain` is unchanged.
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
            tiles.extend(chain.edge.push_with_frontier(&mut chain.frontier, hash));
            chain.prev = Some(hash);
        }
        Ok(entries)
    }

    /// Writes one transaction, with `note` as the checkpoint over `head`, the ledger after it.
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

    /// Brings a state.db that lags up to date, with the function that does so at opening. On a full
    /// disk nothing else is written until it has followed.
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
