//! The sockets of the service, which a service manager passes: users of the host ask through one
//! and answer through the other, as the uid that the kernel reports.

use super::halves::attend_at;
use super::{Place, open_up, succeed};
use crate::support::{is_root, text, until};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Users without an account, so that their names are their numbers.
const ANA: u32 = 61_011;
const BEN: u32 = 61_012;
const STRANGER: u32 = 61_019;

const CONFIG: &str = "
[auth.os_users]
\"61011\" = { user = \"ana\", role = \"operator\" }
\"61012\" = { user = \"ben\", role = \"operator\" }

[groups]
release = [\"ana\", \"ben\"]
";

struct PassedSockets {
    folder: PathBuf,
    child: Child,
    place: Place,
}

impl Drop for PassedSockets {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl PassedSockets {
    fn start() -> Option<Self> {
        let place = Place::new()?;
        place.install(&[]);
        let file = place.at("etc/par/par.toml");
        let shipped = std::fs::read_to_string(&file).expect("par.toml").replace("\n[groups]\n", "\n");
        std::fs::write(&file, format!("{shipped}{CONFIG}")).expect("par.toml");
        let folder = place.folder.path().join("run");
        std::fs::create_dir(&folder).expect("folder");
        open_up(&folder);
        let listen = |name: &str| {
            let path = folder.join(name);
            let listener = UnixListener::bind(&path).expect("bound");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("mode");
            OwnedFd::from(listener)
        };
        let (ask, admin) = (listen("par.sock"), listen("admin.sock"));
        let launcher = place.folder.path().join("launcher.sock");
        let command = place.installed("par-launcher", None, &["--front-user", "0"]);
        let _launchers = Box::leak(Box::new(attend_at(&launcher, None, &command, &[])));
        let launcher = launcher.display().to_string();
        let par = place.par(None, &["serve", "--listen", "127.0.0.1:0", "--launcher", &launcher]);
        let log = place.folder.path().join("serve.log");
        let passing = "exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\"";
        let child = Command::new("/bin/sh")
            .args(["-c", passing, "sh"])
            .arg(par.get_program())
            .args(par.get_args())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::from(ask))
            .stdout(Stdio::from(admin))
            .stderr(std::fs::File::create(&log).expect("log"))
            .spawn()
            .expect("par starts");
        let sockets = Self { folder, child, place };
        until("the server listens", || {
            std::fs::read_to_string(&log).unwrap_or_default().contains("par: listening on ")
        });
        Some(sockets)
    }

    /// Sends a request to `par.sock` as a user; returns the status and the body.
    fn ask(&self, uid: u32, method: &str, path: &str, body: &str) -> (u16, Value) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: par.sock\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = say(&self.folder.join("par.sock"), uid, &head);
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn admin(&self, uid: u32, request: &Value) -> Value {
        let answer = say(&self.folder.join("admin.sock"), uid, &format!("{request}\n"));
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"))
    }
}

/// The kernel keeps credentials by thread: this one becomes the user, and ends as it.
fn say(socket: &Path, uid: u32, bytes: &str) -> String {
    let (socket, bytes) = (socket.to_owned(), bytes.to_owned());
    let thread = std::thread::spawn(move || {
        let uid = rustix::fs::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("another user");
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.write_all(bytes.as_bytes()).expect("sent");
        let mut answer = String::new();
        let _end = stream.read_to_string(&mut answer);
        answer
    });
    thread.join().expect("thread")
}

#[test]
fn users_of_the_host_ask_and_answer_without_a_key_and_without_root() {
    if !is_root() {
        return eprintln!("skipped: to become another user needs root");
    }
    let Some(sockets) = PassedSockets::start() else { return };
    let run = json!({"message": "deploy(project=\"demo\", version=\"1.0.0\")"}).to_string();
    let (status, reply) = sockets.ask(ANA, "POST", "/agent/run", &run);
    assert_eq!((status, &reply["status"]), (202, &json!("waiting")), "{reply}");
    let id = reply["steps"][0]["result"]["approval"].as_str().expect("an approval").to_owned();
    assert_eq!(sockets.ask(STRANGER, "POST", "/agent/run", &run).0, 403);
    let (_, runs) = sockets.ask(BEN, "GET", "/runs", "");
    assert_eq!(runs["items"], json!([]), "the runs of others are not there");
    // Only members of the group see the question; the one who asked may not answer it.
    let show = json!({"op": "approval.show", "id": id});
    assert_eq!(sockets.admin(STRANGER, &show)["error"]["code"], "refused");
    let shown = sockets.admin(BEN, &show);
    let hash = shown["ok"]["approval"]["call_hash"].as_str().expect("shown").to_owned();
    let answer = json!({"op": "approval.answer", "id": id, "grant": true, "call_hash": hash});
    assert_eq!(sockets.admin(ANA, &answer)["error"]["code"], "own_request");
    for op in ["key.list", "key.create", "reload", "audit.redact", "audit.export", "login.create"] {
        let refused = sockets.admin(BEN, &json!({"op": op}));
        assert_eq!(refused["error"]["code"], "refused", "{op}: {refused}");
    }
    let granted = sockets.admin(BEN, &answer);
    assert_eq!(granted["ok"]["approval"]["answer"]["principal"], format!("os:{BEN}"), "{granted}");
    let path = format!("/runs/{}", reply["run"].as_str().expect("run"));
    until("the run ends", || {
        let (_, run) = sockets.ask(ANA, "GET", &path, "");
        !["waiting", "running"].contains(&run["status"].as_str().unwrap_or_default())
    });
    let (_, ended) = sockets.ask(ANA, "GET", &path, "");
    assert_eq!(ended["status"], "done", "the requester was recalled: {ended}");
    let listed = succeed(&mut sockets.place.par(None, &["audit", "show", "--json", "kind:approval.grant"]));
    assert!(listed.contains(&format!("os:{BEN}")), "{listed}");
    let log = std::fs::read_to_string(sockets.place.folder.path().join("serve.log")).expect("log");
    assert!(!log.contains("ERROR"), "{}", text(log.as_bytes()));
}
