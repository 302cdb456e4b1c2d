//! The writer's queue: takes entries to the one thread that appends, and brings their receipts
//! back.

use super::error::AppendError;
use super::receipt::Receipt;
use crate::ledger::entry::{Draft, Written};
use crate::types::limits;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, oneshot};

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Task {
    Append(Append),
    Scrub(Scrub),
    /// Time has passed: change the epoch if it is over, and retry what failed.
    Tick,
    /// The write-ahead logs are long and almost fully copied into the files: truncate them.
    Cut,
}

/// Entries that are committed together.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) entries: Vec<Written>,
    pub(super) reply: Option<oneshot::Sender<Answer>>,
    /// Entries whose payloads are erased in the same transaction.
    pub(super) erases: Vec<u64>,
    /// The entries record what has already happened. On a full disk they wait and are not refused.
    pub(super) is_owed: bool,
    /// Holds the entries' slots in the bounded queue. The writer's own entries have none.
    pub(super) places: Option<OwnedSemaphorePermit>,
}

/// The result of an append.
pub(super) type Answer = Result<Vec<Receipt>, AppendError>;

impl Append {
    /// Makes an append of `drafts`, with their payloads as bytes, and the receiver of its result.
    pub(super) fn new(drafts: Vec<Draft>) -> Result<(Self, oneshot::Receiver<Answer>), AppendError> {
        let entries: Result<_, _> = drafts.into_iter().map(Written::from_draft).collect();
        let (reply, answer) = oneshot::channel();
        let (entries, reply) = (entries.map_err(AppendError::Draft)?, Some(reply));
        Ok((Self { entries, reply, erases: Vec::new(), is_owed: false, places: None }, answer))
    }

    /// Sends the result and frees the slots. If the caller is gone, the entries are still appended.
    pub(super) fn answer(&mut self, outcome: Answer) {
        self.places = None;
        if let Some(reply) = self.reply.take() {
            drop(reply.send(outcome));
        }
    }
}

/// Truncates the write-ahead log, so that it holds no erased content any more.
#[derive(Debug)]
pub(super) struct Scrub {
    /// Rewrite the whole file before.
    pub(super) rewrite: bool,
    /// Whether the log is empty; false if a reader prevented it.
    pub(super) reply: oneshot::Sender<Result<bool, rusqlite::Error>>,
}

/// Why the write-ahead log was not truncated.
#[derive(Debug, thiserror::Error)]
pub(in crate::ledger) enum ScrubError {
    #[error(transparent)]
    Closed(AppendError),
    #[error(transparent)]
    Sqlite(rusqlite::Error),
}

/// The sending side of the queue, bounded in entries ([`limits::QUEUE_ENTRIES_MAX`]). The writer
/// ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct Queue {
    tasks: mpsc::Sender<Task>,
    places: Arc<Semaphore>,
}

impl Queue {
    /// A queue, and the receiver of its tasks.
    pub(super) fn new() -> (Self, mpsc::Receiver<Task>) {
        let (tasks, out) = mpsc::channel(limits::QUEUE_ENTRIES_MAX);
        (Self { tasks, places: Arc::new(Semaphore::new(limits::QUEUE_ENTRIES_MAX)) }, out)
    }

    /// The same queue, for threads that must not keep the writer running.
    pub(super) fn downgrade(&self) -> WeakQueue {
        WeakQueue(self.tasks.downgrade())
    }

    /// Appends in one commit, and returns after the sync. With `is_owed` a full disk does not
    /// refuse the entries.
    pub(in crate::ledger) async fn append(&self, drafts: Vec<Draft>, is_owed: bool) -> Answer {
        let places = u32::try_from(drafts.len().min(limits::QUEUE_ENTRIES_MAX)).unwrap_or(u32::MAX);
        let permit = self.places.clone().acquire_many_owned(places).await.map_err(|_| AppendError::Closed)?;
        let (append, answer) = Append::new(drafts)?;
        let append = Append { is_owed, places: Some(permit), ..append };
        self.tasks.send(Task::Append(append)).await.map_err(|_| AppendError::Closed)?;
        answer.await.map_err(|_| AppendError::Closed)?
    }

    /// As [`Queue::append`], from a thread outside any async runtime.
    pub(in crate::ledger) fn append_blocking(&self, drafts: Vec<Draft>) -> Answer {
        let places = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
        let permit = loop {
            match self.places.clone().try_acquire_many_owned(places) {
                Ok(permit) => break permit,
                Err(TryAcquireError::NoPermits) => std::thread::yield_now(),
                Err(TryAcquireError::Closed) => return Err(AppendError::Closed),
            }
        };
        let (append, answer) = Append::new(drafts)?;
        let append = Append { places: Some(permit), ..append };
        self.tasks.blocking_send(Task::Append(append)).map_err(|_| AppendError::Closed)?;
        answer.blocking_recv().map_err(|_| AppendError::Closed)?
    }

    /// As [`Queue::append_blocking`], erasing the payloads of `erases` in the same commit. Takes no
    /// slots, so that a full queue cannot keep it out.
    pub(in crate::ledger) fn append_erasing(&self, drafts: Vec<Draft>, erases: Vec<u64>) -> Answer {
        let (append, answer) = Append::new(drafts)?;
        let append = Append { erases, ..append };
        self.tasks.blocking_send(Task::Append(append)).map_err(|_| AppendError::Closed)?;
        answer.blocking_recv().map_err(|_| AppendError::Closed)?
    }

    /// Appends owed entries without waiting and without a result. If the queue is full, nothing is
    /// written.
    pub(in crate::ledger) fn append_detached(&self, drafts: Vec<Draft>) {
        let places = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
        let Ok(permit) = self.places.clone().try_acquire_many_owned(places) else {
            return tracing::error!(
                "the ledger's queue is full: the recovery at the next start records a dropped call"
            );
        };
        let append = match Append::new(drafts) {
            Ok((append, _unused)) => Append { is_owed: true, places: Some(permit), ..append },
            Err(e) => {
                return tracing::error!(error = %e, "the recovery at the next start records a dropped call");
            }
        };
        if let Err(e) = self.tasks.try_send(Task::Append(append)) {
            tracing::error!(error = %e, "the recovery at the next start records a dropped call");
        }
    }

    /// Makes the writer truncate the write-ahead log; with `rewrite`, after rewriting the whole
    /// file. Returns false if a reader prevents it.
    pub(in crate::ledger) fn scrub(&self, rewrite: bool) -> Result<bool, ScrubError> {
        let closed = || ScrubError::Closed(AppendError::Closed);
        let (reply, answer) = oneshot::channel();
        self.tasks.blocking_send(Task::Scrub(Scrub { rewrite, reply })).map_err(|_| closed())?;
        answer.blocking_recv().map_err(|_| closed())?.map_err(ScrubError::Sqlite)
    }
}

/// A [`Queue`] that does not keep the writer running.
#[derive(Clone, Debug)]
pub(super) struct WeakQueue(mpsc::WeakSender<Task>);

impl WeakQueue {
    /// Whether the writer is still running.
    pub(super) fn is_open(&self) -> bool {
        self.0.upgrade().is_some()
    }

    /// Appends the ledger's own entries, which take no slots. Blocking.
    pub(super) fn append(&self, drafts: Vec<Draft>) -> Answer {
        let tasks = self.0.upgrade().ok_or(AppendError::Closed)?;
        let (append, answer) = Append::new(drafts)?;
        tasks.blocking_send(Task::Append(append)).map_err(|_| AppendError::Closed)?;
        drop(tasks);
        answer.blocking_recv().map_err(|_| AppendError::Closed)?
    }

    /// Sends a task unless the queue is full. Returns false if the writer has ended.
    pub(super) fn signal(&self, task: Task) -> bool {
        let tasks = self.0.upgrade();
        tasks.map(|tasks| drop(tasks.try_send(task))).is_some()
    }
}
