//! The admin socket.

use crate::agent::Agent;
use crate::auth::fixture::Fixture;
use crate::auth::{LoginLinks, OsUsers, Role};
use crate::config::{Config, Home};
use crate::http::admin::{AdminError, FailureCode, Room, Socket, call, socket_path};
use crate::rules::Reloader;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Served {
    home: Fixture,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

pub(super) fn room(home: &Fixture) -> Room {
    let agent = Agent::without_sandbox(home.ledger.clone());
    let folder = home.data.path();
    let file = folder.join("etc/par.toml");
    std::fs::create_dir_all(file.parent().expect("folder")).expect("made");
    std::fs::write(&file, "").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let place = Home::locate(Some(folder), None).expect("home");
    let config = Config::load(place).expect("defaults");
    Room {
        authority: home.authority.clone(),
        links: LoginLinks::empty().expect("links"),
        index: None,
        reloader: Reloader::new(
            agent.gate().clone(),
            agent.launcher().clone(),
            crate::config::ModelKeys::default(),
            &config,
        ),
        agent,
    }
}

impl Served {
    async fn start() -> Self {
        let home = Fixture::open().await;
        let socket =
            Socket::open(home.data.path(), OsUsers::owner_only(Role::Operator), Vec::new()).expect("socket");
        let (stop, stopped) = oneshot::channel::<()>();
        let room = room(&home);
        let served = tokio::spawn(async move { socket.serve(room, async { drop(stopped.await) }).await });
        Self { home, stop, served }
    }

    fn data(&self) -> PathBuf {
        self.home.data.path().to_owned()
    }

    async fn call(&self, request: Value) -> Result<Value, AdminError> {
        let data = self.data();
        tokio::task::spawn_blocking(move || call(&data, &request)).await.expect("client")
    }

    async fn line(&self, line: impl Into<Vec<u8>>) -> String {
        let (data, line) = (self.data(), line.into());
        tokio::task::spawn_blocking(move || raw(&data, &line)).await.expect("client")
    }
}

fn raw(data: &Path, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket_path(data)).expect("connected");
    // A server that has read enough may close the connection.
    let _sent = stream.write_all(line);
    let mut answer = String::new();
    let _end = stream.read_to_string(&mut answer);
    answer
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked_while_the_server_runs() {
    let server = Served::start().await;
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let asked = json!({"op": "key.create", "name": "ci", "role": "operator", "user": "ops@example"});
    let made = server.call(asked.clone()).await.expect("made");
    let key = made["key"].as_str().expect("key");
    let principal = server.home.authority.authenticate(key, here).await.expect("taken");
    assert_eq!(principal.user(), Some("ops@example"));
    assert!(matches!(server.call(asked).await, Err(AdminError::Failed(FailureCode::Taken, _))));
    let list = server.call(json!({"op": "key.list"})).await.expect("list");
    assert_eq!(list["items"], json!([made["view"]]));
    let gone = server.call(json!({"op": "key.revoke", "key": "ci"})).await.expect("revoked");
    assert_eq!(gone["view"]["state"], "revoked");
    assert!(server.home.authority.authenticate(key, here).await.is_err());
    let by = server.home.entries("kind:key.create principal:os:*");
    assert_eq!(by.len(), 1, "the creator is recorded");
    let data = server.data();
    server.stop.send(()).expect("running");
    server.served.await.expect("served");
    assert!(!socket_path(&data).exists());
    assert!(matches!(call(&data, &json!({"op": "key.list"})), Err(AdminError::NotRunning)));
}

#[tokio::test]
async fn invalid_requests_are_refused_by_code() {
    let server = Served::start().await;
    for (asked, code) in [
        (json!({}), "unfit"),
        (json!({"op": "run"}), "unfit"),
        (json!({"op": "key.create", "name": "x"}), "unfit"),
        (json!({"op": "key.create", "name": "x", "role": "root"}), "unfit"),
        (json!({"op": "key.create", "name": "a b", "role": "viewer"}), "unfit"),
        (json!({"op": "key.create", "name": "x", "role": "viewer", "expires_us": 1}), "unfit"),
        (json!({"op": "key.create", "name": "x", "role": "viewer", "extra": 1}), "unfit"),
        (json!({"op": "key.revoke", "key": "missing"}), "unknown"),
        (json!({"op": "approval.list", "state": "lost"}), "unfit"),
        (json!({"op": "approval.show", "id": "apr_1"}), "not_found"),
        (json!({"op": "approval.show", "id": "apr_01JD0000000000000000000000"}), "not_found"),
        (json!({"op": "approval.answer", "id": "apr_01JD0000000000000000000000"}), "unfit"),
        (
            json!({"op": "approval.answer", "id": "apr_01JD0000000000000000000000", "grant": true, "call_hash": ""}),
            "not_found",
        ),
    ] {
        let outcome = server.call(asked.clone()).await;
        assert!(
            matches!(&outcome, Err(AdminError::Failed(is, _)) if is.as_str() == code),
            "{asked}: {outcome:?}"
        );
    }
    for bad in [b"hello\n".to_vec(), b"[]\n".to_vec(), b"{\"a\":1,\"a\":2}\n".to_vec(), vec![b'x'; 100_000]] {
        let answer = server.line(bad).await;
        assert!(answer.is_empty() || answer.contains(r#""code":"malformed""#), "{answer}");
    }
}

#[tokio::test]
async fn a_wrong_token_is_refused() {
    let server = Served::start().await;
    let token = std::fs::read_to_string(server.data().join("admin.token")).expect("token");
    assert_eq!(token.len(), 64);
    for file in ["admin.token", "admin.sock"] {
        let mode = std::fs::metadata(server.data().join(file)).expect(file).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let first = token.chars().next().expect("token");
    let wrong = token.replacen(first, if first == '0' { "1" } else { "0" }, 1);
    for token in [json!(""), json!(1), json!(null), json!(wrong)] {
        let answer = server.line(format!("{}\n", json!({"op": "key.list", "token": token}))).await;
        assert!(answer.contains(r#""code":"refused""#), "{answer}");
    }
    let answer = server.line("{\"op\":\"key.list\"}\n").await;
    assert!(answer.contains(r#""code":"refused""#), "{answer}");
    // The token of an earlier start is not valid any more.
    let second = Socket::open(server.home.data.path(), OsUsers::owner_only(Role::Operator), Vec::new())
        .expect("socket");
    assert_ne!(std::fs::read_to_string(server.data().join("admin.token")).expect("token"), token);
    drop(second);
}

/// Another user of the host is refused even with the right token and an open socket file. Needs
/// root to become another user; skipped otherwise.
#[tokio::test]
async fn another_user_is_refused() {
    use rustix::fs::Uid;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let server = Served::start().await;
    let data = server.data();
    let token = std::fs::read_to_string(data.join("admin.token")).expect("token");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o711)).expect("mode");
    let line = format!("{}\n", json!({"op": "key.list", "token": token}));
    let try_as_stranger = move |mode: u32| {
        std::fs::set_permissions(socket_path(&data), std::fs::Permissions::from_mode(mode)).expect("mode");
        let (data, line) = (data.clone(), line.clone());
        // The kernel keeps credentials by thread: this one becomes the user `nobody` and ends as
        // it.
        let stranger = std::thread::spawn(move || {
            let uid = Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("another user");
            std::panic::catch_unwind(|| raw(&data, line.as_bytes())).ok()
        });
        stranger.join().expect("thread")
    };
    let (open, closed) =
        tokio::task::spawn_blocking(move || (try_as_stranger(0o666), try_as_stranger(0o600)))
            .await
            .expect("client");
    assert!(open.expect("connected").contains(r#""code":"refused""#));
    assert_eq!(closed, None, "the file's mode keeps others out already");
}
