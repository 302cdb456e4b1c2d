//! The ledger's handle: who holds one may append to the ledger, ask it and wait for it.

use super::entry::{Draft, Header};
use super::files::{Files, HighWater, Lock};
use super::projection::Projection;
use super::read::Reader;
use super::tree::Head;
use super::write::{AppendError, Hour, OpenError, Opened, Queue, Receipt, Shared, Tally, open};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};

/// The writing side of the ledger, shared by all who append.
#[derive(Clone, Debug)]
pub struct Ledger {
    queue: Queue,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    state: Arc<Mutex<Connection>>,
    files: Arc<Files>,
    log: Arc<str>,
    /// Held as long as any clone lives, and by the writer's thread.
    lock: Arc<Lock>,
}

impl Ledger {
    /// Opens the ledger for writing under `lock`, brings state.db up to date, and writes the genesis
    /// entry where there is none: it names the log that was set aside last. Starts the writer's thread.
    ///
    /// A ledger that is shorter than its high-water mark or than what state.db saw is refused.
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

    /// Begins a log behind the one that was set aside last. There must be none in `files`.
    pub fn succeed(files: Files, lock: Lock, projections: &'static [Projection]) -> Result<Self, OpenError> {
        let at = |e| OpenError::File(files.data.clone(), e);
        if !files.segments().map_err(at)?.is_empty() || HighWater::read(&files.high_water()).is_some() {
            return Err(OpenError::Incomplete("there is a log already".to_owned()));
        }
        Self::open(files, lock, projections)
    }

    /// Tells other processes through the lock file where this server listens.
    pub fn tell_url(&self, url: &str) -> std::io::Result<()> {
        self.lock.tell(Some(url))
    }

    /// Appends entries in one commit, all or none, and returns after the sync with their receipts in
    /// order. Appends of others may share the commit.
    ///
    /// Waits for a place in the queue ([`crate::types::limits::QUEUE_ENTRIES_MAX`]). Cancel-safe only in that the
    /// entries may be written although nobody waits any more.
    pub async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.queue.append(drafts, false).await
    }

    /// As [`Ledger::append`], of what has happened already: on a full disk it is not refused, but written
    /// with the space of the reserve, or waits in memory until there is space. A full disk is an error here
    /// only where the process ends before.
    pub async fn append_owed(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.queue.append(drafts, true).await
    }

    /// As [`Ledger::append`], from a thread outside any async runtime.
    pub fn append_blocking(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.queue.append_blocking(drafts)
    }

    /// Whether the writer answers and may write. Nothing is appended.
    pub async fn ping(&self) -> Result<(), AppendError> {
        self.append(Vec::new()).await.map(drop)
    }

    /// As [`Ledger::append`], for one entry.
    pub async fn append_one(&self, draft: Draft) -> Result<Receipt, AppendError> {
        self.append(vec![draft]).await?.pop().ok_or(AppendError::Closed)
    }

    /// As [`Ledger::append`], without waiting and without an answer: for what is recorded from a drop.
    /// Where the queue is full nothing is written, and the next start's recovery does it.
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

    /// What was committed since this process opened the ledger, counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.shared.tally()
    }

    /// What the runs of `principal` have put on the ledger in the hour up to `now_us`, on the wall clock.
    #[must_use]
    pub fn hour(&self, principal: &str, now_us: u64) -> Hour {
        self.shared.spent().hour(principal, now_us)
    }

    /// Seconds until the runs of `principal` are below `bound` again; `None` where they are.
    #[must_use]
    pub fn hour_over_s(&self, principal: &str, bound: Hour, now_us: u64) -> Option<u64> {
        self.shared.spent().wait_s(principal, bound, now_us)
    }

    /// Counts an entry from before this process opened the ledger; each is to be given once, in any order.
    pub fn count_earlier(&self, header: &Header) {
        if header.seq < self.shared.opened() {
            self.shared.spent().count(header);
        }
    }

    /// What keeps entries from being written, if anything: the last fault, or too little free space.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.shared.fault_text().or_else(|| {
            let free = self.files.free_bytes()?;
            (free < self.files.free_bytes_min).then(|| {
                format!("{free} bytes are free under the ledger, fewer than {}", self.files.free_bytes_min)
            })
        })
    }

    /// Comes back once nothing can be appended any more until a restart, with what happened.
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

    /// The files.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Asks the projection, once it has followed every entry that is durable: the writer moves it right
    /// behind the commit, and nobody but who asks waits for that. On a full disk the last commit may
    /// lack, until the next one.
    pub fn state<T>(
        &self,
        ask: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        self.shared.wait_until_followed();
        ask(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The way to the writer, for what is not a plain append.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// What the writer tells everyone.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The reading side, to be kept by what outlives a call.
    pub(super) fn shared_reader(&self) -> Arc<Reader> {
        self.reader.clone()
    }
}
