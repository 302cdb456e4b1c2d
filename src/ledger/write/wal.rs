//! Periodic work while the writer appends: copies write-ahead logs into their files, and signals
//! the writer. It signals each second that passes, and a long log that is almost fully copied, so
//! that truncating it delays no append.

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

/// Lengths of the write-ahead logs.
#[derive(Debug, Default)]
pub(super) struct LogLengths {
    /// Commits since the last signal to copy them.
    pub(super) commits: u32,
    /// Bytes of both logs at that signal.
    pub(super) moved: u64,
    /// Length of the log of state.db, in bytes, from which truncating it is tried again.
    pub(super) state: u64,
    /// The segment's log has its maximum length and a reader holds it, so the segment must end.
    pub(super) is_held: bool,
}

/// Maximum number of copies in one round. Each copies what was added during the one before.
const ROUNDS_MAX: usize = 4;
/// Pages of 4 KiB that may be left for the truncation to copy.
const REST_PAGES: i64 = 512;

/// The thread's state, with its own connections.
struct Moves {
    files: Files,
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    first: u64,
    /// Sealed segments that readers still have open with their write-ahead log.
    unsettled: Vec<u64>,
    ledger: Connection,
    state: Connection,
}

/// Starts a thread that copies the write-ahead logs of both databases into their files at each
/// signal, so that no append waits for it, and that signals the writer each second. The channel
/// holds one signal; more would ask for the same. The thread ends with the sender.
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
                tracing::warn!(error = %e, "the new segment's write-ahead log is not copied yet");
            }
            let unsettled = std::mem::take(&mut self.unsettled);
            self.settle(unsettled);
            match signal {
                Ok(()) => {
                    self.move_logs();
                    // If the queue is full, the writer is working and checks the limit itself.
                    if self.is_long() {
                        queue.signal(Task::Cut);
                    }
                }
                // If the queue is full, the writer is working, and the next tick comes soon enough.
                Err(RecvTimeoutError::Timeout) if queue.signal(Task::Tick) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Copies the logs into their files until little is left: truncating a log copies the rest
    /// while no append can run.
    fn move_logs(&self) {
        let _copying = self.shared.copying();
        for (name, db) in [("the ledger", &self.ledger), ("state.db", &self.state)] {
            for _ in 0..ROUNDS_MAX {
                match store::checkpoint(db) {
                    Ok(left) if left < REST_PAGES => break,
                    Ok(_) => {}
                    Err(e) => {
                        tracing::warn!(error = %e, "cannot copy the write-ahead log of {name}");
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

    /// Switches to the newest segment. The previous one needs no write-ahead log any more.
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

    /// Removes the write-ahead logs of sealed segments. If a reader still uses one, the next tick
    /// or start does it.
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
