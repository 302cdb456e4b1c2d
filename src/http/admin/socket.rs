//! The server of the admin socket: authentication, one request, one response.

use super::actions::{Failure, Room, act};
use super::client::socket_path;
use super::words::FailureCode;
use crate::auth::{AdminDoor, Principal};
use crate::types::json::parse_strict;
use crate::types::limits;
use serde_json::{Map, Value, json};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// The socket of a running server. Its file is removed when the server stops.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    door: AdminDoor,
    path: PathBuf,
}

impl Socket {
    /// Creates the socket (mode 0600) and the token in `data`, replacing those of an earlier start.
    /// The caller holds the ledger's lock, so no other server uses them.
    pub fn open(data: &Path) -> io::Result<Self> {
        let door = AdminDoor::open(data)?;
        let (path, fresh) = (socket_path(data), data.join("admin.sock.new"));
        match std::fs::remove_file(&fresh) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(&fresh)?;
        // It gets its name only once no other user can connect to it.
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&fresh, &path)?;
        Ok(Self { listener, door, path })
    }

    /// Serves until `shutdown` is ready, then removes the socket.
    pub async fn serve(self, room: Room, shutdown: impl Future<Output = ()>) {
        let Self { listener, door, path } = self;
        tokio::select! {
            () = shutdown => {}
            () = accept(listener, Arc::new(door), room) => {}
        }
        if let Err(e) = std::fs::remove_file(&path) {
            tracing::warn!(error = %e, "the admin socket was not removed");
        }
    }
}

async fn accept(listener: UnixListener, door: Arc<AdminDoor>, room: Room) {
    let places = Arc::new(Semaphore::new(limits::ADMIN_CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (door, room) = (door.clone(), room.clone());
                tokio::spawn(async move {
                    converse(stream, &door, &room).await;
                    drop(place);
                });
            }
            Err(e) => {
                tracing::warn!(error = %e, "a connection to the admin socket was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Handles one request. The operation is completed even if the client does not wait for the
/// response.
async fn converse(mut stream: UnixStream, door: &AdminDoor, room: &Room) {
    let bound = Duration::from_millis(limits::ADMIN_READ_MS_MAX);
    let line = tokio::time::timeout(bound, read_line(&mut stream)).await;
    let Ok(Ok(line)) = line else { return };
    let outcome = match admit(&stream, door, &line) {
        Ok((principal, asked)) => act(room, &principal, &asked).await,
        Err(failure) => Err(failure),
    };
    let answer = match outcome {
        Ok(result) => json!({ "ok": result }),
        Err(Failure { code, detail }) => json!({ "error": { "code": code.as_str(), "detail": detail } }),
    };
    // It may contain a new key.
    let answer = Zeroizing::new(format!("{answer}\n"));
    if let Ok(Err(e)) = tokio::time::timeout(bound, stream.write_all(answer.as_bytes())).await {
        tracing::warn!(error = %e, "a response on the admin socket was not read");
    }
}

async fn read_line(stream: &mut UnixStream) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::new());
    BufReader::new(stream.take(limits::ADMIN_BYTES_MAX as u64)).read_until(b'\n', &mut line).await?;
    Ok(line)
}

/// Authenticates the request and removes the token from it. `actions` checks the power of each
/// request.
fn admit(
    stream: &UnixStream,
    door: &AdminDoor,
    line: &[u8],
) -> Result<(Principal, Map<String, Value>), Failure> {
    let asked = parse_strict(line, 4).map_err(|e| Failure::new(FailureCode::Malformed, e.to_string()))?;
    let Value::Object(mut asked) = asked else {
        return Err(Failure::new(FailureCode::Malformed, "a request must be one JSON object on one line"));
    };
    let token = asked.remove("token");
    let token = token.as_ref().and_then(Value::as_str).unwrap_or_default();
    let refused =
        |_| Failure::new(FailureCode::Refused, "this user or this token may not use the admin socket");
    let principal = door.enter(stream, token).map_err(refused)?;
    Ok((principal, asked))
}
