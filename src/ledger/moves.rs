//! What time asks for beside the appends: write-ahead logs go into their files, and the writer is told that a second
//! is over.

use super::writer::Task;
use super::{Files, OpenError, Reader, Shared};
use crate::store::{self, Kind, StoreError};
use crate::types::limits;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// A thread with connections of its own.
struct Moves {
    files: Files,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    first: u64,
    ledger: Connection,
    state: Connection,
}

/// Starts a thread that moves the write-ahead logs of both databases into their files at each signal, so that no
/// append waits for it, and that tells the writer when time has passed. One signal may stand in the channel: more
/// would ask for the same. It ends with the sender.
pub(super) fn start(
    files: &Files,
    shared: &Arc<Shared>,
    reader: &Arc<Reader>,
    queue: mpsc::WeakSender<Task>,
) -> Result<(SyncSender<()>, JoinHandle<()>), OpenError> {
    let (sender, signals) = sync_channel(1);
    let first = shared.segment.load(Ordering::Acquire);
    let open = |path, kind| store::open_writer(path, kind).map_err(OpenError::Store);
    let (ledger, state) = (open(&files.segment(first), Kind::Ledger)?, open(&files.state(), Kind::State)?);
    let (files, shared, reader) = (files.clone(), shared.clone(), reader.clone());
    let at = files.data.clone();
    let mut moves = Moves { files, shared, reader, first, ledger, state };
    let run = move || moves.run(&signals, &queue);
    let thread = std::thread::Builder::new().name("ledger-moves".to_owned()).spawn(run);
    Ok((sender, thread.map_err(|e| OpenError::File(at, e))?))
}

impl Moves {
    fn run(&mut self, signals: &Receiver<()>, queue: &mpsc::WeakSender<Task>) {
        let sealed: Vec<u64> =
            self.reader.shelf().firsts().iter().copied().filter(|first| *first < self.first).collect();
        sealed.into_iter().for_each(|first| self.settle(first));
        loop {
            let signal = signals.recv_timeout(Duration::from_millis(limits::CHECKPOINT_MS));
            if let Err(e) = self.follow() {
                tracing::warn!(error = %e, "the new segment's write-ahead log is not moved yet");
            }
            match signal {
                Ok(()) => {
                    for (name, db) in [("the ledger", &self.ledger), ("state.db", &self.state)] {
                        if let Err(e) = store::checkpoint(db) {
                            tracing::warn!(error = %e, "the write-ahead log was not moved into {name}");
                        }
                    }
                }
                // A queue that is full has its writer at work: the next tick is as good.
                Err(RecvTimeoutError::Timeout) => match queue.upgrade() {
                    Some(queue) => drop(queue.try_send(Task::Tick)),
                    None => return,
                },
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Goes over to the segment that is written now; the one before needs no write-ahead log any more.
    fn follow(&mut self) -> Result<(), StoreError> {
        let first = self.shared.segment.load(Ordering::Acquire);
        if first == self.first {
            return Ok(());
        }
        let next = store::open_writer(&self.files.segment(first), Kind::Ledger)?;
        let sealed = std::mem::replace(&mut self.ledger, next);
        drop(sealed);
        self.settle(self.first);
        self.first = first;
        Ok(())
    }

    /// Where somebody still reads the segment, the next start does it.
    fn settle(&self, first: u64) {
        if let Err(e) = self.reader.settle(first) {
            tracing::warn!(error = %e, "the segment from entry {first} on keeps its write-ahead log for now");
        }
    }
}
