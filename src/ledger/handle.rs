//! The handle of the ledger: its holder can append entries, query state.db and wait for events.

use super::entry::{Draft, Header};
use super::files::{Files, HighWater, Lock};
use super::payload::LedgerDamagePayload;
use super::projection::Projection;
use super::read::Reader;
use super::tree::Head;
use super::verify::ChainState;
use super::write::{AppendError, Hour, OpenError, Opened, Queue, Receipt, Shared, Tally, open};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};

/// The writing side of the ledger. All callers that append share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    queue: Queue,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    state: Arc<Mutex<Connection>>,
    files: Arc<Files>,
    log: Arc<str>,
    /// Held until the last clone is dropped and the writer's thread has ended.
    lock: Arc<Lock>,
}

impl Ledger {
    /// Opens the ledger for writing under `lock` and brings state.db up to date. If the ledger is
    /// empty, appends the genesis entry, which names the log that was set aside last. Starts the
    /// writer's thread.
    ///
    /// Refuses a ledger that is shorter than its high-water mark or than the size that state.db has
    /// applied.
    pub fn open(files: Files, lock: Lock, projections: &'static [Projection]) -> Result<Self, OpenError> {
        let Opened { queue, shared, reader, state, files, log, lock, genesis } =
            open(files, lock, projections)?;
        let (state, files, log) = (Arc::new(Mutex::new(state)), Arc::new(files), log.into());
        let ledger = Self { queue, shared, reader, state, files, log, lock };
        if let Some(payload) = genesis {
            let first = ledger.append_blocking(vec![Draft::new(payload)]);
            let _receipts = first.map_err(OpenError::Append)?;
        }
        Ok(ledger)
    }

    /// Begins the log that follows the one set aside last. Fails if `files` already holds a log.
    pub fn succeed(files: Files, lock: Lock, projections: &'static [Projection]) -> Result<Self, OpenError> {
        let at = |e| OpenError::File(files.data.clone(), e);
        if !files.segments().map_err(at)?.is_empty() || HighWater::read(&files.high_water()).is_some() {
            return Err(OpenError::Incomplete("a log already exists".to_owned()));
        }
        Self::open(files, lock, projections)
    }

    /// Writes the server's URL into the lock file, for other processes to read.
    pub fn publish_url(&self, url: &str) -> std::io::Result<()> {
        self.lock.tell(Some(url))
    }

    /// Appends entries in one commit, all or none, and returns their receipts in order after the
    /// sync. Other callers' entries may share the commit.
    ///
    /// Waits for space in the queue ([`crate::types::limits::QUEUE_ENTRIES_MAX`]). A caller may
    /// cancel, but the entries may be written all the same.
    pub async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.queue.append(drafts, false).await
    }

    /// As [`Ledger::append`], for records of what has already happened. On a full disk they are not
    /// refused: they are written with the space of the reserve, or wait in memory for space. A full
    /// disk is an error here only if the process ends first.
    pub async fn append_owed(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.queue.append(drafts, true).await
    }

    /// As [`Ledger::append`], from a thread outside any async runtime.
    pub fn append_blocking(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.queue.append_blocking(drafts)
    }

    /// Checks that the writer responds and may write, without appending anything.
    pub async fn ping(&self) -> Result<(), AppendError> {
        self.append(Vec::new()).await.map(drop)
    }

    /// As [`Ledger::append`], for one entry.
    pub async fn append_one(&self, draft: Draft) -> Result<Receipt, AppendError> {
        self.append(vec![draft]).await?.pop().ok_or(AppendError::Closed)
    }

    /// As [`Ledger::append`], without waiting and without a result: for records made in a `Drop`.
    /// If the queue is full, nothing is written, and the recovery at the next start does it.
    pub fn append_detached(&self, drafts: Vec<Draft>) {
        self.queue.append_detached(drafts);
    }

    /// The newest durable state.
    #[must_use]
    pub fn head(&self) -> Head {
        self.shared.head()
    }

    /// The signed checkpoint of the newest commit, a C2SP signed note.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Arc<str>> {
        self.shared.checkpoint()
    }

    /// Counts of what was committed since this process opened the ledger.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.shared.tally()
    }

    /// What the runs of `principal` used, by the ledger, in the hour up to `now_us` (wall clock).
    #[must_use]
    pub fn hour(&self, principal: &str, now_us: u64) -> Hour {
        self.shared.spent().hour(principal, now_us)
    }

    /// Seconds until the runs of `principal` are below `bound` again; `None` if they already are.
    #[must_use]
    pub fn hour_over_s(&self, principal: &str, bound: Hour, now_us: u64) -> Option<u64> {
        self.shared.spent().wait_s(principal, bound, now_us)
    }

    /// Counts an entry from before this process opened the ledger. Callers pass each entry once, in
    /// any order.
    pub fn count_earlier(&self, header: &Header) {
        if header.seq < self.shared.opened() {
            self.shared.spent().count(header);
        }
    }

    /// What keeps entries from being written, if anything: the last fault, or too little free
    /// space.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.shared.fault_text().or_else(|| {
            let free = self.files.free_bytes()?;
            (free < self.files.free_bytes_min).then(|| {
                format!("{free} bytes are free under the ledger, fewer than {}", self.files.free_bytes_min)
            })
        })
    }

    /// The state of the ledger's verification.
    #[must_use]
    pub fn chain(&self) -> ChainState {
        self.shared.chain()
    }

    /// The damage that keeps the ledger from taking new work, if there is any.
    #[must_use]
    pub fn damage(&self) -> Option<LedgerDamagePayload> {
        self.shared.damage()
    }

    /// Refuses new work from now on, and records why. The refusal holds even if the entry cannot be
    /// written.
    pub(super) fn declare(&self, damage: LedgerDamagePayload) -> Result<(), AppendError> {
        self.shared.set_chain(ChainState::Broken(damage.clone()));
        self.append_blocking(vec![Draft::new(damage)]).map(drop)
    }

    /// Resolves with the reason once the ledger is poisoned: no append succeeds until a restart.
    pub async fn poisoned(&self) -> String {
        self.shared.poisoned().await;
        self.shared.fault_text().unwrap_or_default()
    }

    /// The reading side.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The log's identifier.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The paths of the ledger's files.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Queries state.db after it has applied every durable entry. The writer applies entries right
    /// after their commit, and only the caller of this function waits for that. On a full disk the
    /// last commit may be missing until the next one.
    pub fn state<T>(
        &self,
        ask: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        self.shared.wait_until_followed();
        ask(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The queue to the writer, for tasks other than appends.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The state that the writer publishes.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The reading side, for tasks that outlive the call.
    pub(super) fn shared_reader(&self) -> Arc<Reader> {
        self.reader.clone()
    }
}
