//! The server of the admin socket: authentication, one request, one response.

use super::actions::act;
use super::client::socket_path;
use super::failure::Failure;
use super::room::Room;
use super::words::FailureCode;
use crate::auth::{AdminDoor, Admitted, OsUsers};
use crate::http::host_socket::UserSocket;
use crate::types::json::parse_strict;
use crate::types::{Share, Shares, limits};
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use zeroize::Zeroizing;

/// The socket of a running server. Its file is removed when the server stops.
#[derive(Debug)]
pub struct Socket {
    socket: UserSocket,
    door: AdminDoor,
}

impl Socket {
    /// Creates the socket and the token in `data`, replacing those of an earlier start, and takes
    /// over `passed`. The caller holds the ledger's lock, so no other server uses them.
    pub fn open(
        data: &Path,
        users: OsUsers,
        passed: Vec<std::os::unix::net::UnixListener>,
    ) -> io::Result<Self> {
        let door = AdminDoor::open(data, users)?;
        Ok(Self { socket: UserSocket::open(socket_path(data), passed)?, door })
    }

    /// Serves until `shutdown` is ready, then removes the socket.
    pub async fn serve(self, room: Room, shutdown: impl Future<Output = ()>) {
        let Self { socket, door } = self;
        tokio::select! {
            () = shutdown => {}
            () = accept(&socket, Arc::new(door), room) => {}
        }
        socket.remove();
    }
}

async fn accept(socket: &UserSocket, door: Arc<AdminDoor>, room: Room) {
    let places = Arc::new(AdminSlots::default());
    loop {
        match socket.accept().await {
            Ok(stream) => {
                let (door, room, places) = (door.clone(), room.clone(), places.clone());
                tokio::spawn(async move {
                    let Some(share) = places.take(&door, &stream).await else { return };
                    converse(stream, &door, &room).await;
                    drop(share);
                });
            }
            Err(e) => {
                tracing::warn!(error = %e, "a connection to the admin socket was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Connection slots. Users who only answer have slots of their own, so that they cannot lock out
/// those who manage; and so have unknown users, who are refused.
struct AdminSlots {
    managers: Shares,
    others: Shares,
    unknown: Shares,
}

impl Default for AdminSlots {
    fn default() -> Self {
        let (max, user_max) = (limits::ADMIN_CONNECTIONS_MAX, limits::USER_ADMIN_CONNECTIONS_MAX);
        Self {
            managers: Shares::new(max, max),
            others: Shares::new(max, user_max),
            unknown: Shares::new(max, user_max),
        }
    }
}

impl AdminSlots {
    /// Takes a slot. Those who manage wait for one; the connection of another user is closed if
    /// none is free.
    async fn take(&self, door: &AdminDoor, stream: &UnixStream) -> Option<Share> {
        match door.knows(stream)? {
            (uid, Some(true)) => Some(self.managers.take(&uid.to_string()).await),
            (uid, Some(false)) => self.others.try_take(&uid.to_string()).ok(),
            (uid, None) => self.unknown.try_take(&uid.to_string()).ok(),
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
        Ok((peer, asked)) => act(room, &peer, &asked).await,
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
) -> Result<(Admitted, Map<String, Value>), Failure> {
    let asked = parse_strict(line, 4).map_err(|e| Failure::new(FailureCode::Malformed, e.to_string()))?;
    let Value::Object(mut asked) = asked else {
        return Err(Failure::new(FailureCode::Malformed, "a request must be one JSON object on one line"));
    };
    let token = asked.remove("token");
    let token = token.as_ref().and_then(Value::as_str).unwrap_or_default();
    let refused =
        |_| Failure::new(FailureCode::Refused, "this user or this token may not use the admin socket");
    Ok((door.enter(stream, token).map_err(refused)?, asked))
}
