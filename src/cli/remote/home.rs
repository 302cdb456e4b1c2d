//! The server of a home: found by the lock on its ledger and its `par.sock`.

use super::known;
use super::server::{SOCKET_URL, Server};
use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::{Home, client_key, closed_to_others, socket_folders};
use crate::egress::Client;
use crate::http::ask_socket_path;
use crate::ledger::{Files, Lock, LockError};
use crate::types::limits;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Returns the URL of the server that holds the ledger's lock, if one does.
pub(in crate::cli) fn url(files: &Files) -> Option<String> {
    Lock::holder(files).as_deref().and_then(url_of)
}

/// What serves the home of this process.
pub(in crate::cli) enum HomeServer {
    /// A server that this user may ask through its `par.sock`.
    Asking(Box<Server>),
    /// A server at this URL, whose `par.sock` does not let this user in.
    AtUrl(String),
    /// None.
    Absent,
}

/// What `par.sock` of a home does with a connection of this user.
enum AskPath {
    /// It takes the connection.
    Open(PathBuf),
    /// This user may not connect.
    Closed,
    /// It is not there, or no server listens.
    Missing,
}

/// The URL that the holder of a ledger's lock wrote, once it serves.
fn url_of(holder: &str) -> Option<String> {
    holder.lines().find_map(|line| line.strip_prefix("url=")).map(str::to_owned)
}

impl AskPath {
    fn of(home: &Home) -> Self {
        let mut found = Self::Missing;
        for socket in socket_folders(&home.data).into_iter().map(|folder| ask_socket_path(&folder)) {
            match UnixStream::connect(&socket) {
                Ok(_) => return Self::Open(socket),
                Err(e) if e.kind() == ErrorKind::PermissionDenied => found = Self::Closed,
                Err(_) => {}
            }
        }
        found
    }

    /// Whether this user can neither ask a server of the home nor look whether one runs.
    fn is_closed_in(&self, home: &Home) -> bool {
        let is_denied = |e: &std::io::Error| e.kind() == ErrorKind::PermissionDenied;
        matches!(self, Self::Closed) && std::fs::read_dir(&home.data).is_err_and(|e| is_denied(&e))
    }
}

impl HomeServer {
    /// Finds the server of a home. One that is just starting, and whose socket is not there yet, is
    /// waited for, and so is a command that holds the ledger.
    pub(in crate::cli) fn find(home: &Home) -> Result<Self, Fail> {
        let (files, since) = (Files::below(&home.data), Instant::now());
        let is_over = |wait_ms: u64| since.elapsed() >= Duration::from_millis(wait_ms);
        let mut is_told = false;
        loop {
            let path = AskPath::of(home);
            if let AskPath::Open(socket) = path {
                return Ok(Self::Asking(Box::new(Server::on_socket(socket, home)?)));
            }
            let Some(holder) = Lock::holder(&files) else {
                return if path.is_closed_in(home) { Err(no_entry(home)) } else { Ok(Self::Absent) };
            };
            match url_of(&holder) {
                Some(url) if matches!(path, AskPath::Closed) || is_over(limits::ASK_WAIT_MS_MAX) => {
                    return Ok(Self::AtUrl(url));
                }
                Some(_) => {}
                None if is_over(limits::LOCK_WAIT_MS_MAX) => return Err(held(holder)),
                None if !is_told && is_over(limits::LOCK_QUIET_MS) => {
                    let wait_s = limits::LOCK_WAIT_MS_MAX / 1_000;
                    let held = LockError::Held(holder);
                    show::note(&format!("par: {held}; waiting up to {wait_s} s for it to serve or to end"));
                    is_told = true;
                }
                None => {}
            }
            std::thread::sleep(Duration::from_millis(limits::LOCK_STEP_MS));
        }
    }
}

/// The error for a user who cannot enter `data/` and whom no socket elsewhere lets in.
fn no_entry(home: &Home) -> Fail {
    let why = closed_to_others(&home.data)
        .unwrap_or_else(|| "no server answers in the runtime folder: start the service".to_owned());
    Fail::new(exit::UNAUTHENTICATED, format!("this user may not use the home {}: {why}", home.root.display()))
}

/// The error if the holder of the ledger neither serves nor ends.
fn held(holder: String) -> Fail {
    let held = LockError::Held(holder);
    Fail::failed(format!(
        "{held}: it neither serves nor ends. Wait for it and try again: a command that runs without a server holds \
         the ledger until it ends"
    ))
}

impl Server {
    /// The server of a home, for asking: over the network with the caller's key if there is one,
    /// else through `par.sock`; `None` if no server runs. Its log is known under the home.
    pub(in crate::cli) fn of_home(home: &Home) -> Result<Option<Self>, Fail> {
        let has_key = client_key().map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?.is_some();
        let url = url(&Files::below(&home.data));
        if let Some(url) = url.filter(|_| has_key) {
            return Self::with_home_key(&url, home).map(Some);
        }
        match HomeServer::find(home)? {
            HomeServer::Asking(server) => Ok(Some(*server)),
            HomeServer::AtUrl(url) => Self::with_home_key(&url, home).map(Some),
            HomeServer::Absent => Ok(None),
        }
    }

    /// Whether it is reached through `par.sock`, which has no approvals and no entries.
    pub(in crate::cli) fn is_ask_socket(&self) -> bool {
        self.key.is_none()
    }

    /// The server behind `par.sock`.
    fn on_socket(socket: PathBuf, home: &Home) -> Result<Self, Fail> {
        Ok(Self {
            url: SOCKET_URL.to_owned(),
            key: None,
            address: known::address(home),
            client: Client::on_socket(socket),
            runtime: compose::runtime()?,
        })
    }

    /// The server of a home. Its log is known under the home, wherever the server listens.
    fn with_home_key(url: &str, home: &Home) -> Result<Self, Fail> {
        Ok(Self { address: known::address(home), ..Self::at(url)? })
    }
}
