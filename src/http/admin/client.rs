//! The client of the admin socket, for commands next to a running server.

use super::words::FailureCode;
use crate::auth::AdminDoor;
use crate::config::{closed_to_others, socket_folders};
use crate::types::json::parse_strict;
use crate::types::limits;
use serde_json::{Value, json};
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// Why the server did not perform an operation of the admin socket.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// No server runs on this `data`.
    #[error("no server is running on this home: start one with `par serve`")]
    NotRunning,
    /// This user or its token may not use the socket.
    #[error("{0}")]
    Refused(String),
    /// The operation failed: code and reason.
    #[error("{1}")]
    Failed(FailureCode, String),
    /// The connection broke, or the response cannot be read.
    #[error("the admin socket: {0}")]
    Io(#[source] io::Error),
}

/// Returns the path of the socket.
#[must_use]
pub fn socket_path(data: &Path) -> PathBuf {
    data.join("admin.sock")
}

/// Sends `request` with the token to the server that runs on `data`, and returns the member `ok` of
/// its response. Blocking for at most [`limits::ADMIN_ANSWER_MS_MAX`].
pub fn call(data: &Path, request: &Value) -> Result<Value, AdminError> {
    let mut stream = connect(data)?;
    let mut request = request.clone();
    // Only those who manage can read the token, and only they need it.
    match std::fs::read_to_string(AdminDoor::token_path(data)).map(Zeroizing::new) {
        Ok(token) => {
            if let Some(members) = request.as_object_mut() {
                members.insert("token".to_owned(), json!(token.as_str()));
            }
        }
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
        Err(e) => return Err(AdminError::Refused(format!("the token cannot be read: {e}"))),
    }
    let answer = exchange(&mut stream, &Zeroizing::new(format!("{request}\n"))).map_err(AdminError::Io)?;
    let mut answer = parse_strict(&answer, limits::JSON_DEPTH_MAX)
        .map_err(|e| AdminError::Io(io::Error::new(io::ErrorKind::InvalidData, e)))?;
    if let Some(result) = answer.get_mut("ok") {
        return Ok(result.take());
    }
    let word =
        |name: &str| answer.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or("none");
    let detail = word("detail").to_owned();
    Err(match FailureCode::parse(word("code")) {
        FailureCode::Refused | FailureCode::Forbidden => AdminError::Refused(detail),
        code => AdminError::Failed(code, detail),
    })
}

/// Connects to the first socket that can be reached.
fn connect(data: &Path) -> Result<UnixStream, AdminError> {
    let mut failed = None;
    for folder in socket_folders(data) {
        match UnixStream::connect(socket_path(&folder)) {
            Ok(stream) => return Ok(stream),
            Err(e) if failed.is_none() => failed = Some(e),
            Err(_) => {}
        }
    }
    Err(match failed {
        None => AdminError::NotRunning,
        Some(e) => match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AdminError::NotRunning,
            io::ErrorKind::PermissionDenied => {
                let why = closed_to_others(data).map_or_else(String::new, |why| format!(": {why}"));
                AdminError::Refused(format!("this user may not use the admin socket{why}"))
            }
            _ => AdminError::Io(e),
        },
    })
}

fn exchange(stream: &mut UnixStream, line: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    stream.set_read_timeout(Some(Duration::from_millis(limits::ADMIN_ANSWER_MS_MAX)))?;
    stream.set_write_timeout(Some(Duration::from_millis(limits::ADMIN_READ_MS_MAX)))?;
    stream.write_all(line.as_bytes())?;
    let mut answer = Zeroizing::new(Vec::new());
    io::BufReader::new(stream.take(limits::REQUEST_BYTES_MAX as u64)).read_until(b'\n', &mut answer)?;
    Ok(answer)
}
