//! The signals that a server handles.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that a server handles. None that arrives after creation is lost.
pub(in crate::cli) struct Signals {
    pub(in crate::cli) end: EndSignals,
    pub(super) hangup: Signal,
}

/// `SIGTERM` and `SIGINT`.
pub(in crate::cli) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn open() -> io::Result<Self> {
        let end = EndSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        Ok(Self { end, hangup: signal(SignalKind::hangup())? })
    }
}

impl EndSignals {
    pub(in crate::cli) async fn heard(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
