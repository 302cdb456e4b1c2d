//! The thread that keeps the index up to date. Only searches ever wait for it.

use super::index::Index;
use crate::types::limits;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running thread. It ends when this is stopped or dropped.
#[derive(Debug)]
pub struct Follower {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Starts the thread.
    pub fn start(index: Arc<Index>) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("index".to_owned()).spawn(move || {
            let mut is_failing = false;
            loop {
                let pause_ms = match index.follow() {
                    Ok(0) => limits::TAIL_MS,
                    Ok(_) => 0,
                    Err(error) => {
                        if !is_failing {
                            tracing::warn!(%error, "the index cannot be updated; queries read the ledger instead");
                        }
                        is_failing = true;
                        limits::INDEX_PAUSE_MS
                    }
                };
                is_failing &= pause_ms == limits::INDEX_PAUSE_MS;
                match stopped.recv_timeout(Duration::from_millis(pause_ms)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread, after its current transaction.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the index thread panicked");
        }
    }
}
