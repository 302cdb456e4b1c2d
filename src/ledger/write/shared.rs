//! The state that the writer publishes, and the events that others wait for.

use super::counters::Tally;
use super::error::AppendError;
use super::spending::Spent;
use crate::ledger::entry::Header;
use crate::ledger::files::RawFiles;
use crate::ledger::payload::LedgerDamagePayload;
use crate::ledger::tree::Head;
use crate::ledger::verify::ChainState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The state that the writer publishes.
#[derive(Debug)]
pub(in crate::ledger) struct Shared {
    now: Mutex<Now>,
    followed: Condvar,
    tally: Mutex<Tally>,
    spent: Mutex<Spent>,
    /// Number of entries when this process opened the ledger. Later ones are counted as they are
    /// committed.
    opened: u64,
    raw: RawFiles,
    is_poisoned: watch::Sender<bool>,
    /// The state of the verification. Once it is broken, it stays so.
    chain: Mutex<ChainState>,
    /// First entry of the newest segment.
    segment: AtomicU64,
    /// Held while write-ahead logs are copied into their files: SQLite allows one copy at a time,
    /// and no thread should wait in SQLite for it.
    copying: Mutex<()>,
}

#[derive(Debug)]
struct Now {
    head: Head,
    /// The newest signed checkpoint.
    checkpoint: Option<Arc<str>>,
    /// Number of entries that state.db has applied.
    applied: u64,
    /// Whether state.db could not apply the last commit.
    lags: bool,
    fault: Option<AppendError>,
}

impl Shared {
    pub(super) fn at(head: Head, checkpoint: Option<Arc<str>>, segment: u64, chain: ChainState) -> Self {
        Self {
            now: Mutex::new(Now { head, checkpoint, applied: head.size, lags: false, fault: None }),
            followed: Condvar::new(),
            tally: Mutex::default(),
            spent: Mutex::default(),
            opened: head.size,
            raw: RawFiles::default(),
            is_poisoned: watch::Sender::new(false),
            chain: Mutex::new(chain),
            segment: AtomicU64::new(segment),
            copying: Mutex::default(),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest durable state.
    pub(in crate::ledger) fn head(&self) -> Head {
        self.now().head
    }

    /// Counts since this process opened the ledger.
    pub(in crate::ledger) fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of entries when this process opened the ledger.
    pub(in crate::ledger) fn opened(&self) -> u64 {
        self.opened
    }

    /// The database files, for searches of their bytes.
    pub(in crate::ledger) fn raw(&self) -> &RawFiles {
        &self.raw
    }

    /// First entry of the newest segment.
    pub(in crate::ledger) fn segment(&self) -> u64 {
        self.segment.load(Ordering::Acquire)
    }

    pub(super) fn set_segment(&self, first: u64) {
        self.segment.store(first, Ordering::Release);
    }

    /// Taken while write-ahead logs are copied. Waits for another copy.
    pub(super) fn copying(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Shared::copying`], without waiting; `None` while another thread copies.
    pub(super) fn try_copying(&self) -> Option<MutexGuard<'_, ()>> {
        self.copying.try_lock().ok()
    }

    /// The fault that keeps entries from being written, as text.
    pub(in crate::ledger) fn fault_text(&self) -> Option<String> {
        self.now().fault.as_ref().map(ToString::to_string)
    }

    /// Resolves once no append can succeed any more.
    pub(in crate::ledger) async fn poisoned(&self) {
        let mut is_poisoned = self.is_poisoned.subscribe();
        // The sender lives as long as `self`.
        drop(is_poisoned.wait_for(|is| *is).await);
    }

    /// The state of the verification.
    pub(in crate::ledger) fn chain(&self) -> ChainState {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes a new state, unless damage was found before.
    pub(in crate::ledger) fn set_chain(&self, state: ChainState) {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        if chain.damage().is_none() {
            *chain = state;
        }
    }

    /// The damage that keeps the ledger from taking new work, if there is any.
    pub(in crate::ledger) fn damage(&self) -> Option<LedgerDamagePayload> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner).damage().cloned()
    }

    /// A commit succeeded.
    pub(super) fn advance(&self, head: Head) {
        self.now().head = head;
    }

    /// The full disk has space again.
    pub(super) fn ease(&self) {
        self.now().fault = None;
    }

    pub(super) fn signed(&self, note: Arc<str>) {
        self.now().checkpoint = Some(note);
    }

    pub(in crate::ledger) fn checkpoint(&self) -> Option<Arc<str>> {
        self.now().checkpoint.clone()
    }

    pub(super) fn applied(&self, size: u64) {
        let mut now = self.now();
        (now.applied, now.lags) = (size, false);
        drop(now);
        self.followed.notify_all();
    }

    /// Counts committed entries, each with the name of the model that it is about.
    pub(super) fn count<'a>(&self, entries: impl Iterator<Item = (&'a Header, Option<&'a str>)>) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spent = self.spent();
        entries.for_each(|(header, model)| {
            tally.count(header, model);
            spent.count(header);
        });
    }

    pub(in crate::ledger) fn spent(&self) -> MutexGuard<'_, Spent> {
        // A panic elsewhere leaves the numbers consistent: each change is one entry.
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fail(&self, error: &AppendError) {
        self.now().fault = Some(error.clone());
        self.followed.notify_all();
        self.is_poisoned.send_if_modified(|is| {
            let is_first = !*is && matches!(error, AppendError::Poisoned(_));
            *is |= is_first;
            is_first
        });
    }

    /// As [`Shared::fail`], and state.db could not follow.
    pub(super) fn lag(&self, error: &AppendError) {
        self.now().lags = true;
        self.fail(error);
    }

    pub(super) fn is_full(&self) -> bool {
        self.now().fault == Some(AppendError::Full)
    }

    pub(super) fn is_well(&self) -> bool {
        self.now().fault.is_none()
    }

    /// The fault that makes every append fail. A full disk is not one: it is tried again each time.
    pub(super) fn fault(&self) -> Option<AppendError> {
        self.now().fault.clone().filter(|error| matches!(error, AppendError::Poisoned(_)))
    }

    /// Waits until state.db has applied every durable entry, or cannot any more.
    pub(in crate::ledger) fn wait_until_followed(&self) {
        let follows = |now: &mut Now| {
            now.applied < now.head.size && !now.lags && !matches!(now.fault, Some(AppendError::Poisoned(_)))
        };
        drop(self.followed.wait_while(self.now(), follows).unwrap_or_else(PoisonError::into_inner));
    }
}
