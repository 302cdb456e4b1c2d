//! Listening sockets that the service manager passed (sd_listen_fds(3)).

use crate::cli::exit::Fail;
use crate::config::passed_sockets;
use crate::launcher::sys;
use std::os::unix::net::UnixListener;

/// The sockets for users who cannot enter `data/`, by the name of their file.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// `par.sock`.
    pub(super) ask: Vec<UnixListener>,
    /// `admin.sock`.
    pub(super) admin: Vec<UnixListener>,
}

impl Passed {
    /// Takes over the sockets that were passed to this process. To be called once.
    pub(super) fn take() -> Result<Self, Fail> {
        let mut passed = Self::default();
        for fd in passed_sockets() {
            let wrong = |what: &str| Fail::usage(format!("the socket passed as descriptor {fd}: {what}"));
            let listener = UnixListener::from(sys::adopt(fd).map_err(|e| wrong(&e.to_string()))?);
            let address = listener.local_addr().map_err(|e| wrong(&e.to_string()))?;
            match address.as_pathname().and_then(|path| path.file_name()).and_then(|name| name.to_str()) {
                Some("par.sock") => passed.ask.push(listener),
                Some("admin.sock") => passed.admin.push(listener),
                _ => return Err(wrong("expected a socket whose file is `par.sock` or `admin.sock`")),
            }
        }
        Ok(passed)
    }
}
