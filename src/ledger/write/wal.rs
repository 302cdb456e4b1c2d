//! What time asks for beside the appends: write-ahead logs go into their files, and the writer is told that a second
//! is over, or that a log is long and nearly all of it stands in its file, so that cutting it holds no append up.

use crate::ledger::handle::Shared;
use crate::ledger::read::Reader;
use super::open::{Files, OpenError};
use super::writer::Task;
use crate::store::{self, Kind, StoreError};
use crate::types::limits;
use rusqlite::Connection;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// Times that a log is copied in one go, each time what came during the copy before.
const ROUNDS_MAX: usize = 4;
/// Pages of 4 KiB that may be left to whoever cuts the log.
const REST_PAGES: i64 = 512;

/// A thread with connections of its own.
struct Moves {
    files: Files,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    first: u64,
    /// Sealed segments that somebody reads by their write-ahead log.
    unsettled: Vec<u64>,
    ledger: Connection,
    state: Connection,
}

/// Starts a thread that moves the write-ahead logs of both databases into their files at each signal, so that no
/// append waits for it, and that tells the writer when time has passed. One signal may stand in the channel: more
/// would ask for the same. It ends with the sender.
pub(in crate::ledger) fn start(
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
    let mut moves = Moves { files, shared, reader, first, unsettled: Vec::new(), ledger, state };
    let run = move || moves.run(&signals, &queue);
    let thread = std::thread::Builder::new().name("ledger-moves".to_owned()).spawn(run);
    Ok((sender, thread.map_err(|e| OpenError::File(at, e))?))
}

impl Moves {
    fn run(&mut self, signals: &Receiver<()>, queue: &mpsc::WeakSender<Task>) {
        let sealed: Vec<u64> =
            self.reader.shelf().firsts().iter().copied().filter(|first| *first < self.first).collect();
        self.settle(sealed);
        loop {
            let signal = signals.recv_timeout(Duration::from_millis(limits::LEDGER_TICK_MS));
            if let Err(e) = self.follow() {
                tracing::warn!(error = %e, "the new segment's write-ahead log is not moved yet");
            }
            let unsettled = std::mem::take(&mut self.unsettled);
            self.settle(unsettled);
            match signal {
                Ok(()) => {
                    self.move_logs();
                    // A queue that is full has its writer at work, which looks at the bound itself.
                    if self.is_long()
                        && let Some(queue) = queue.upgrade()
                    {
                        drop(queue.try_send(Task::Cut));
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

    /// Copies the logs into their files, until what came meanwhile is little: cutting a log copies the rest of it while
    /// no append can pass.
    fn move_logs(&self) {
        let _copying = self.shared.copying.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, db) in [("the ledger", &self.ledger), ("state.db", &self.state)] {
            for _ in 0..ROUNDS_MAX {
                match store::checkpoint(db) {
                    Ok(left) if left < REST_PAGES => break,
                    Ok(_) => {}
                    Err(e) => {
                        tracing::warn!(error = %e, "the write-ahead log was not moved into {name}");
                        break;
                    }
                }
            }
        }
    }

    fn is_long(&self) -> bool {
        let cut = self.files.wal_bytes_max / 2;
        [self.files.segment(self.first), self.files.state()].iter().any(|path| store::log_bytes(path) >= cut)
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
        self.settle(vec![self.first]);
        self.first = first;
        Ok(())
    }

    /// Ends the write-ahead logs of sealed segments. Where somebody still reads one by its log, the next tick or start
    /// does it.
    fn settle(&mut self, firsts: Vec<u64>) {
        for first in firsts {
            match self.reader.settle(first) {
                Ok(true) => {}
                Ok(false) => self.unsettled.push(first),
                Err(e) => {
                    tracing::warn!(error = %e, "the segment from entry {first} on keeps its write-ahead log for now");
                }
            }
        }
    }
}
