//! The writer's queue: how entries come to the one thread that appends, and their receipts back.

use super::error::AppendError;
use super::receipt::Receipt;
use crate::ledger::entry::{Draft, Written};
use crate::types::limits;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, oneshot};

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Task {
    Append(Append),
    Scrub(Scrub),
    /// Time has passed: change the epoch if it is over, and try again what could not be done.
    Tick,
    /// The write-ahead logs are long, and nearly all of them stands in the files: cut them.
    Cut,
}

/// Entries that are to be committed together.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) entries: Vec<Written>,
    pub(super) reply: Option<oneshot::Sender<Answer>>,
    /// Entries whose payloads are erased in the same transaction.
    pub(super) erases: Vec<u64>,
    /// It is of what has happened already: a full disk makes it wait, and does not refuse it.
    pub(super) is_owed: bool,
    /// Holds the entries' places in the bounded queue; the writer's own have none.
    pub(super) places: Option<OwnedSemaphorePermit>,
}

/// What comes of an append.
pub(super) type Answer = Result<Vec<Receipt>, AppendError>;

impl Append {
    /// Has `drafts` appended, whose payloads are written down here; and where the answer comes.
    pub(super) fn new(drafts: Vec<Draft>) -> Result<(Self, oneshot::Receiver<Answer>), AppendError> {
        let entries: Result<_, _> = drafts.into_iter().map(Written::from_draft).collect();
        let (reply, answer) = oneshot::channel();
        let (entries, reply) = (entries.map_err(AppendError::Draft)?, Some(reply));
        Ok((Self { entries, reply, erases: Vec::new(), is_owed: false, places: None }, answer))
    }

    /// Tells who asked, and frees the places. A caller that is gone needs no answer: what it appended stands.
    pub(super) fn answer(&mut self, outcome: Answer) {
        self.places = None;
        if let Some(reply) = self.reply.take() {
            drop(reply.send(outcome));
        }
    }
}

/// The write-ahead log is to be emptied, so that nothing erased stands in it any more.
#[derive(Debug)]
pub(super) struct Scrub {
    /// Write the whole file anew before.
    pub(super) rewrite: bool,
    /// Whether the log is empty; false where somebody reads.
    pub(super) reply: oneshot::Sender<Result<bool, rusqlite::Error>>,
}

/// Why the write-ahead log was not emptied.
#[derive(Debug, thiserror::Error)]
pub(in crate::ledger) enum ScrubError {
    #[error(transparent)]
    Closed(AppendError),
    #[error(transparent)]
    Sqlite(rusqlite::Error),
}

/// The way to the writer, bounded in entries ([`limits::QUEUE_ENTRIES_MAX`]). The writer ends with the last
/// of its clones.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct Queue {
    tasks: mpsc::Sender<Task>,
    places: Arc<Semaphore>,
}

impl Queue {
    /// A queue, and where its tasks come out.
    pub(super) fn new() -> (Self, mpsc::Receiver<Task>) {
        let (tasks, out) = mpsc::channel(limits::QUEUE_ENTRIES_MAX);
        (Self { tasks, places: Arc::new(Semaphore::new(limits::QUEUE_ENTRIES_MAX)) }, out)
    }

    /// The same way for those whose end the writer does not wait for.
    pub(super) fn downgrade(&self) -> WeakQueue {
        WeakQueue(self.tasks.downgrade())
    }

    /// Appends in one commit, and returns after the sync. With `is_owed` a full disk is no reason to refuse.
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

    /// As [`Queue::append_blocking`], with the payloads of `erases` erased in the same commit. Takes no
    /// places: it may not be kept out.
    pub(in crate::ledger) fn append_erasing(&self, drafts: Vec<Draft>, erases: Vec<u64>) -> Answer {
        let (append, answer) = Append::new(drafts)?;
        let append = Append { erases, ..append };
        self.tasks.blocking_send(Task::Append(append)).map_err(|_| AppendError::Closed)?;
        answer.blocking_recv().map_err(|_| AppendError::Closed)?
    }

    /// Appends what is owed without waiting and without an answer. Where the queue is full nothing is
    /// written.
    pub(in crate::ledger) fn append_detached(&self, drafts: Vec<Draft>) {
        let places = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
        let Ok(permit) = self.places.clone().try_acquire_many_owned(places) else {
            return tracing::error!("the ledger's queue is full: a dropped call is left to recovery");
        };
        let append = match Append::new(drafts) {
            Ok((append, _nobody_waits)) => Append { is_owed: true, places: Some(permit), ..append },
            Err(e) => return tracing::error!(error = %e, "a dropped call is left to recovery"),
        };
        if let Err(e) = self.tasks.try_send(Task::Append(append)) {
            tracing::error!(error = %e, "a dropped call is left to recovery");
        }
    }

    /// Has the writer empty the write-ahead log, with `rewrite` after it wrote the file anew. False where
    /// somebody reads.
    pub(in crate::ledger) fn scrub(&self, rewrite: bool) -> Result<bool, ScrubError> {
        let closed = || ScrubError::Closed(AppendError::Closed);
        let (reply, answer) = oneshot::channel();
        self.tasks.blocking_send(Task::Scrub(Scrub { rewrite, reply })).map_err(|_| closed())?;
        answer.blocking_recv().map_err(|_| closed())?.map_err(ScrubError::Sqlite)
    }
}

/// A [`Queue`] that does not keep the writer from its end.
#[derive(Clone, Debug)]
pub(super) struct WeakQueue(mpsc::WeakSender<Task>);

impl WeakQueue {
    /// Whether the writer still serves.
    pub(super) fn is_open(&self) -> bool {
        self.0.upgrade().is_some()
    }

    /// Appends entries of the ledger's own, which take no places. Blocking.
    pub(super) fn append(&self, drafts: Vec<Draft>) -> Answer {
        let tasks = self.0.upgrade().ok_or(AppendError::Closed)?;
        let (append, answer) = Append::new(drafts)?;
        tasks.blocking_send(Task::Append(append)).map_err(|_| AppendError::Closed)?;
        drop(tasks);
        answer.blocking_recv().map_err(|_| AppendError::Closed)?
    }

    /// Asks for something unless the queue is full; false where the writer has ended.
    pub(super) fn signal(&self, task: Task) -> bool {
        let tasks = self.0.upgrade();
        tasks.map(|tasks| drop(tasks.try_send(task))).is_some()
    }
}
