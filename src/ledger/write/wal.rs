//! What time asks for beside the appends: write-ahead logs go into their files, and the writer is told that a second
//! is over, or that a log is long and nearly all of it stands in its file, so that cutting it holds no append up.

use super::error::OpenError;
use super::queue::{Task, WeakQueue};
use super::shared::Shared;
use crate::ledger::files::Files;
use crate::ledger::read::Reader;
use crate::store::{self, Database, StoreError};
use crate::types::limits;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the logs were.
#[derive(Debug, Default)]
pub(super) struct LogLengths {
    /// Commits since the last signal to move them.
    pub(super) commits: u32,
    /// Bytes of both at that signal.
    pub(super) moved: u64,
    /// Bytes of the log of state.db from which cutting it is tried again.
    pub(super) state: u64,
    /// The log of the segment is as long as it may be, and somebody reads by it: the segment is to end.
    pub(super) is_held: bool,
}

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
pub(super) fn start(
    files: &Files,
    shared: &Arc<Shared>,
    reader: &Arc<Reader>,
    queue: WeakQueue,
) -> Result<(SyncSender<()>, JoinHandle<()>), OpenError> {
    let (sender, signals) = sync_channel(1);
    let first = shared.segment();
    let open = |path, kind| store::open_writer(path, kind).map_err(OpenError::Store);
    let (ledger, state) =
        (open(&files.segment(first), Database::Ledger)?, open(&files.state(), Database::State)?);
    let (files, shared, reader) = (files.clone(), shared.clone(), reader.clone());
    let at = files.data.clone();
    let mut moves = Moves { files, shared, reader, first, unsettled: Vec::new(), ledger, state };
    let run = move || moves.run(&signals, &queue);
    let thread = std::thread::Builder::new().name("ledger-moves".to_owned()).spawn(run);
    Ok((sender, thread.map_err(|e| OpenError::File(at, e))?))
}

impl Moves {
    fn run(&mut self, signals: &Receiver<()>, queue: &WeakQueue) {
        let sealed: Vec<u64> =
            self.reader.segments().firsts().iter().copied().filter(|first| *first < self.first).collect();
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
                    if self.is_long() {
                        queue.signal(Task::Cut);
                    }
                }
                // A queue that is full has its writer at work: the next tick is as good.
                Err(RecvTimeoutError::Timeout) if queue.signal(Task::Tick) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Copies the logs into their files, until what came meanwhile is little: cutting a log copies the rest of it while
    /// no append can pass.
    fn move_logs(&self) {
        let _copying = self.shared.copying();
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
        let first = self.shared.segment();
        if first == self.first {
            return Ok(());
        }
        let next = store::open_writer(&self.files.segment(first), Database::Ledger)?;
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
