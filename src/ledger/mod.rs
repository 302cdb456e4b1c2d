//! The ledger: a hash-chained, Merkle-rooted record in SQLite, appended by one writer.
//!
//! Architecture invariants: nothing but [`Ledger::append`] makes a [`Receipt`], and it does so only
//! after the commit; `entry`, `merkle` and `verify` are pure.
//!
//! A receipt cannot be made elsewhere:
//! ```compile_fail,E0451
//! fn forge(receipt: par::ledger::Receipt) -> par::ledger::Receipt {
//!     par::ledger::Receipt { ..receipt }
//! }
//! ```
//! nor copied:
//! ```compile_fail,E0599
//! fn twice(receipt: par::ledger::Receipt) -> (par::ledger::Receipt, par::ledger::Receipt) {
//!     (receipt.clone(), receipt)
//! }
//! ```

mod anchor;
mod anchored;
mod audit;
mod brief;
mod cosignature;
mod cut;
mod entry;
mod epoch;
mod erase;
pub mod evidence;
mod expire;
mod export;
pub mod exported;
mod follow;
mod forget;
mod gone;
mod index;
pub mod key;
mod line;
mod look;
mod merkle;
mod moves;
mod note;
mod open;
mod pages;
pub mod payload;
mod project;
pub mod proof;
pub mod query;
mod read;
mod redact;
mod rotate;
mod search;
mod shelf;
mod since;
mod space;
mod spent;
mod succeed;
mod tally;
mod traces;
mod verify;
mod words;
mod writer;

pub use anchor::{Anchor, Standing, warning as anchor_warning};
pub use audit::{audit, audit_telling};
pub use cosignature::WitnessKey;
pub use entry::{Body, Draft, DraftError, Header, Kind, Payload, Ref};
pub use epoch::Epochs;
pub use export::{Export, ExportError, Format};
pub use follow::Follower;
pub use index::{Coverage, Index, IndexError};
pub use note::{Checkpoint, Note, VerifierKey};
pub use open::{Files, HighWater, Lock, LockError, OpenError, Rotation};
pub use payload::{Aside, Before};
pub use project::{Projection, Row};
pub use query::Filter;
pub use read::{Order, ReadError, Reader, Stored};
pub use redact::{Erasure, RedactError, Redacted, Targets};
pub use search::Found;
pub use since::audit_from;
pub use spent::{Hour, Spent};
pub use succeed::{copy, digest_of, set_aside};
pub use tally::{CallOutcome, Tally};
pub use verify::{Finding, Outside, Report, Verdict};

use crate::types::{Digest, limits};
use rusqlite::Connection;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, mpsc, watch};
use writer::Append;

/// Proof that an entry is durable: it was committed and synced before this was made.
#[derive(Debug)]
#[must_use = "a receipt is what lets the next step happen"]
pub struct Receipt {
    seq: u64,
    behind: Arc<Behind>,
}

/// The ledger behind a commit.
#[derive(Debug)]
struct Behind {
    head: Head,
    checkpoint: Option<Arc<str>>,
}

impl Receipt {
    /// The entry's number.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The ledger behind the commit that held the entry.
    #[must_use]
    pub fn head(&self) -> Head {
        self.behind.head
    }

    /// The signed checkpoint of that commit, over all entries up to its last one.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&str> {
        self.behind.checkpoint.as_deref()
    }
}

/// A state of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of entries.
    pub size: u64,
    /// Merkle root over them.
    pub root: Digest,
}

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// A draft cannot become an entry; the ledger is fine.
    Draft(DraftError),
    /// The disk is full: nothing was written, and appends may succeed again once there is space.
    Full,
    /// What is on the disk is not known, or the file is not the one that was opened: nothing is
    /// accepted until a restart.
    Poisoned(String),
    /// The writer has ended.
    Closed,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draft(e) => write!(f, "the entry cannot be written: {e}"),
            Self::Full => f.write_str("the disk under the ledger is full"),
            Self::Poisoned(what) => write!(f, "the ledger is not written any more: {what}"),
            Self::Closed => f.write_str("the ledger is closed"),
        }
    }
}

impl std::error::Error for AppendError {}

/// The writing side of the ledger, shared by all who append.
#[derive(Clone, Debug)]
pub struct Ledger {
    queue: mpsc::Sender<writer::Task>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    state: Arc<Mutex<Connection>>,
    files: Arc<Files>,
    log: Arc<str>,
    /// Held as long as any clone lives, and by the writer's thread.
    _lock: Arc<Lock>,
}

/// What the writer tells everyone.
#[derive(Debug)]
struct Shared {
    now: Mutex<Now>,
    followed: Condvar,
    tally: Mutex<Tally>,
    spent: Mutex<Spent>,
    /// Entries that were there when this process opened the ledger: they are counted from it.
    opened: u64,
    raw: traces::Raw,
    is_poisoned: watch::Sender<bool>,
    /// First entry of the segment that is written.
    segment: AtomicU64,
    /// Held while write-ahead logs are copied into their files: SQLite lets one do so at a time, and nobody wait for it.
    copying: Mutex<()>,
}

#[derive(Debug)]
struct Now {
    head: Head,
    /// The newest signed checkpoint.
    checkpoint: Option<Arc<str>>,
    /// Entries that state.db has followed.
    applied: u64,
    /// It could not follow the last commit.
    lags: bool,
    fault: Option<AppendError>,
}

impl Shared {
    fn at(head: Head, checkpoint: Option<Arc<str>>) -> Self {
        Self {
            now: Mutex::new(Now { head, checkpoint, applied: head.size, lags: false, fault: None }),
            followed: Condvar::new(),
            tally: Mutex::default(),
            spent: Mutex::default(),
            opened: head.size,
            raw: traces::Raw::default(),
            is_poisoned: watch::Sender::new(false),
            segment: AtomicU64::default(),
            copying: Mutex::default(),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit passed.
    fn advance(&self, head: Head) {
        self.now().head = head;
    }

    /// A full disk is over.
    fn ease(&self) {
        self.now().fault = None;
    }

    fn signed(&self, note: Arc<str>) {
        self.now().checkpoint = Some(note);
    }

    fn checkpoint(&self) -> Option<Arc<str>> {
        self.now().checkpoint.clone()
    }

    fn applied(&self, size: u64) {
        let mut now = self.now();
        (now.applied, now.lags) = (size, false);
        drop(now);
        self.followed.notify_all();
    }

    fn count<'a>(&self, entries: impl Iterator<Item = &'a Header>) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spent = self.spent();
        entries.for_each(|header| {
            tally.count(header);
            spent.count(header);
        });
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        // A panic elsewhere leaves the numbers whole: each change is one entry.
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &AppendError) {
        self.now().fault = Some(error.clone());
        self.followed.notify_all();
        self.is_poisoned.send_if_modified(|is| {
            let is_first = !*is && matches!(error, AppendError::Poisoned(_));
            *is |= is_first;
            is_first
        });
    }

    /// As [`Shared::fail`], where state.db could not follow.
    fn lag(&self, error: &AppendError) {
        self.now().lags = true;
        self.fail(error);
    }

    fn is_full(&self) -> bool {
        self.now().fault == Some(AppendError::Full)
    }

    fn is_well(&self) -> bool {
        self.now().fault.is_none()
    }

    /// The fault that no append can pass any more; a full disk is tried again each time.
    fn fault(&self) -> Option<AppendError> {
        self.now().fault.clone().filter(|error| matches!(error, AppendError::Poisoned(_)))
    }

    /// Waits until state.db has followed every durable entry, or cannot any more.
    fn wait_until_followed(&self) {
        let follows = |now: &mut Now| {
            now.applied < now.head.size && !now.lags && !matches!(now.fault, Some(AppendError::Poisoned(_)))
        };
        drop(self.followed.wait_while(self.now(), follows).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Ledger {
    /// Appends entries in one commit, all or none, and returns after the sync with their receipts in
    /// order. Appends of others may share the commit.
    ///
    /// Waits for a place in the queue ([`limits::QUEUE_ENTRIES_MAX`]). Cancel-safe only in that the
    /// entries may be written although nobody waits any more.
    pub async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.send(drafts, false).await
    }

    /// As [`Ledger::append`], of what has happened already: on a full disk it is not refused, but written with
    /// the space of the reserve, or waits in memory until there is space. A full disk is an error here only
    /// where the process ends before.
    pub async fn append_owed(&self, drafts: Vec<Draft>) -> Result<Vec<Receipt>, AppendError> {
        self.send(drafts, true).await
    }

    async fn send(&self, drafts: Vec<Draft>, is_owed: bool) -> Result<Vec<Receipt>, AppendError> {
        let places = u32::try_from(drafts.len().min(limits::QUEUE_ENTRIES_MAX)).unwrap_or(u32::MAX);
        let permit = self.places.clone().acquire_many_owned(places).await.map_err(|_| AppendError::Closed)?;
        let (append, answer) = Append::of(drafts)?;
        let append = Append { is_owed, places: Some(permit), ..append };
        self.queue.send(writer::Task::Append(append)).await.map_err(|_| AppendError::Closed)?;
        answer.await.map_err(|_| AppendError::Closed)?
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
        let places = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
        let Ok(permit) = self.places.clone().try_acquire_many_owned(places) else {
            return tracing::error!("the ledger's queue is full: a dropped call is left to recovery");
        };
        let append = match Append::of(drafts) {
            Ok((append, _nobody_waits)) => Append { is_owed: true, places: Some(permit), ..append },
            Err(e) => return tracing::error!(error = %e, "a dropped call is left to recovery"),
        };
        if let Err(e) = self.queue.try_send(writer::Task::Append(append)) {
            tracing::error!(error = %e, "a dropped call is left to recovery");
        }
    }

    /// The newest durable state.
    #[must_use]
    pub fn head(&self) -> Head {
        self.shared.now().head
    }

    /// The signed checkpoint of the newest commit, a C2SP signed note.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Arc<str>> {
        self.shared.checkpoint()
    }

    /// What was committed since this process opened the ledger, counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        if header.seq < self.shared.opened {
            self.shared.spent().count(header);
        }
    }

    /// What keeps entries from being written, if anything: the last fault, or too little free space.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        let fault = self.shared.now().fault.as_ref().map(ToString::to_string);
        fault.or_else(|| {
            let free = self.files.free_bytes()?;
            (free < self.files.free_bytes_min).then(|| {
                format!("{free} bytes are free under the ledger, fewer than {}", self.files.free_bytes_min)
            })
        })
    }

    /// Comes back once nothing can be appended any more until a restart, with what happened.
    pub async fn poisoned(&self) -> String {
        let mut is_poisoned = self.shared.is_poisoned.subscribe();
        // The sender lives as long as this.
        drop(is_poisoned.wait_for(|is| *is).await);
        self.shared.now().fault.as_ref().map(ToString::to_string).unwrap_or_default()
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
}

#[cfg(test)]
mod tests;
