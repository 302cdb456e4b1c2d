//! The law of the doors: what each way in lets each identity do. No door lets one identity both ask
//! and answer, and a key that can run never answers.

use super::TestApp;
use super::admin::room;
use super::ui::{OWN, cookie, token};
use crate::auth::{OsUsers, Role};
use crate::config::OsUser;
use crate::http::admin::{Room, Socket, socket_path};
use crate::http::{AskSocket, ask_socket_path};
use rustix::fs::Uid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// No approval has this id: a caller who may answer is told that, and any other caller is refused
/// before.
const NO_APPROVAL: &str = "apr_01JD0000000000000000000000";
const PROOF: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
/// Users of this host, by uid: none has an account, so their names are their numbers.
const OPERATOR: u32 = 61_001;
const APPROVER: u32 = 61_002;
const STRANGER: u32 = 61_009;

/// Door and identity, then whether it lets that identity ask, answer and manage.
const GOLDEN: &str = "\
http key viewer                ask -  answer -  manage -
http key operator              ask ✓  answer -  manage -
http key approver              ask -  answer ✓  manage -
http key admin                 ask ✓  answer -  manage -
page key viewer                ask -  answer -  manage -
page key operator              ask -  answer -  manage -
page key approver              ask -  answer ✓  manage -
page key admin                 ask -  answer -  manage -
page link of root              ask -  answer ✓  manage -
par.sock root                  ask ✓  answer -  manage -
par.sock os user operator      ask ✓  answer -  manage -
par.sock os user approver      ask -  answer -  manage -
par.sock os user unnamed       ask -  answer -  manage -
admin.sock root                ask -  answer ✓  manage ✓
admin.sock os user operator    ask -  answer ✓  manage -
admin.sock os user approver    ask -  answer ✓  manage -
admin.sock os user unnamed     ask -  answer -  manage -
";

fn users() -> OsUsers {
    let entry =
        |uid: u32, role: &str| (uid.to_string(), OsUser { user: role.to_owned(), role: role.to_owned() });
    let named = BTreeMap::from([entry(OPERATOR, "operator"), entry(APPROVER, "approver")]);
    OsUsers::resolve("operator", &named).expect("roles")
}

/// A server with both sockets, which every user of the host can reach.
struct Doors {
    app: TestApp,
    data: PathBuf,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Doors {
    async fn open() -> Self {
        let app = TestApp::start().await;
        let data = app.home.data.path().to_owned();
        let ask = AskSocket::open(&data, users(), Vec::new()).expect("par.sock");
        let admin = Socket::open(&data, users(), Vec::new()).expect("admin.sock");
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
        };
        mode(&data, 0o711);
        mode(&ask_socket_path(&data), 0o666);
        mode(&socket_path(&data), 0o666);
        let room = Room { links: app.app.links.clone(), ..room(&app.home) };
        let asked = app.app.clone();
        let tasks = vec![
            tokio::spawn(async move { ask.serve(asked, std::future::pending()).await }),
            tokio::spawn(async move { admin.serve(room, std::future::pending()).await }),
        ];
        Self { app, data, tasks }
    }

    /// Sends bytes to a socket as a user of the host and reads the answer to its end.
    async fn say(&self, socket: PathBuf, uid: u32, bytes: String) -> String {
        let said = tokio::task::spawn_blocking(move || {
            // The kernel keeps credentials by thread: this one becomes the user and ends as it.
            let thread = std::thread::spawn(move || {
                if uid != 0 {
                    let uid = Uid::from_raw(uid);
                    rustix::thread::set_thread_res_uid(uid, uid, uid).expect("another user");
                }
                let mut stream = UnixStream::connect(socket).expect("connected");
                let _sent = stream.write_all(bytes.as_bytes());
                let mut answer = String::new();
                let _end = stream.read_to_string(&mut answer);
                answer
            });
            thread.join().expect("thread")
        });
        said.await.expect("said")
    }

    async fn ask(&self, uid: u32, method: &str, path: &str, body: &str) -> String {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: par.sock\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.say(ask_socket_path(&self.data), uid, head).await
    }

    async fn admin(&self, uid: u32, request: Value) -> Value {
        let mut request = request;
        let token = std::fs::read_to_string(self.data.join("admin.token")).expect("token");
        if uid == 0 {
            request["token"] = token.into();
        }
        let answer = self.say(socket_path(&self.data), uid, format!("{request}\n")).await;
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"))
    }

    /// The row of a key over the network.
    async fn by_http(&self, key: &str) -> [bool; 3] {
        let run = self.app.run(key, b"{\"message\": 1}").await;
        let more = format!("{}Content-Type: application/json\r\n", super::bearer(key));
        let body = br#"{"answer": "grant", "call_hash": "00"}"#;
        let answer = self.app.send("POST", &format!("/approvals/{NO_APPROVAL}"), &more, body).await;
        let keys = self.app.send("POST", "/keys", &more, b"{}").await;
        assert!(matches!(run.status, 422 | 403), "{run:?}");
        [run.status == 422, may_answer(answer.status, &answer.body), keys.status != 404]
    }

    /// The row of a login on the pages, which `code` opens: a key, or the code of a link.
    async fn by_page(&self, code: &str) -> [bool; 3] {
        let login = self.app.form("/ui/login", OWN, &format!("key={code}&proof={PROOF}")).await;
        assert_eq!(login.status, 303, "{login:?}");
        let (login, path) = (cookie(&login), format!("/ui/approvals/{NO_APPROVAL}"));
        let page = self.app.page("/ui/tools", &login).await;
        // Any page of this login carries its token; one that it may not see carries none.
        let token = match page.status {
            200 => token(&page),
            _ => token(&self.app.page("/ui/approvals", &login).await),
        };
        let fields = format!("answer=grant&call_hash=00&token={token}&proof={PROOF}");
        let answer = self.app.form(&path, &format!("{login}{OWN}"), &fields).await;
        let more = format!("{login}Content-Type: application/json\r\n");
        let run = self.app.send("POST", "/agent/run", &more, b"{\"message\": 1}").await;
        let keys = self.app.form("/ui/keys", &format!("{login}{OWN}"), &fields).await;
        [run.status == 422, may_answer(answer.status, &answer.body), keys.status != 404]
    }

    async fn by_par_sock(&self, uid: u32) -> [bool; 3] {
        let run = self.ask(uid, "POST", "/agent/run", "{\"message\": 1}").await;
        let body = r#"{"answer": "grant", "call_hash": "00"}"#;
        let answer = self.ask(uid, "POST", &format!("/approvals/{NO_APPROVAL}"), body).await;
        let keys = self.ask(uid, "POST", "/keys", "{}").await;
        [run.contains(" 422 "), answer.contains("no such approval"), keys.contains(" 200 ")]
    }

    async fn by_admin_sock(&self, uid: u32) -> [bool; 3] {
        let run = self.admin(uid, json!({"op": "run", "message": "hello"})).await;
        let answer = json!({"op": "approval.answer", "id": NO_APPROVAL, "grant": true, "call_hash": "00"});
        let answer = self.admin(uid, answer).await;
        let keys = self.admin(uid, json!({"op": "key.list"})).await;
        [run.get("ok").is_some(), answer["error"]["code"] == "not_found", keys.get("ok").is_some()]
    }
}

fn may_answer(status: u16, body: &str) -> bool {
    assert!(matches!(status, 403 | 404), "{status}: {body}");
    status == 404
}

#[tokio::test]
async fn no_door_lets_one_identity_ask_and_answer() {
    if !rustix::process::geteuid().is_root() {
        // To become another user needs root.
        return;
    }
    let doors = Doors::open().await;
    let mut rows: Vec<(String, [bool; 3])> = Vec::new();
    let mut keys = Vec::new();
    for role in Role::ALL {
        keys.push((role, doors.app.key(role).await));
    }
    for (role, key) in &keys {
        rows.push((format!("http key {}", role.as_str()), doors.by_http(key).await));
    }
    for (role, key) in &keys {
        rows.push((format!("page key {}", role.as_str()), doors.by_page(key).await));
    }
    let link = doors.admin(0, json!({"op": "login.create"})).await;
    let code = link["ok"]["code"].as_str().expect("a code");
    rows.push(("page link of root".to_owned(), doors.by_page(code).await));
    let hosts = [(0, "root"), (OPERATOR, "os user operator"), (APPROVER, "os user approver")];
    let hosts = hosts.into_iter().chain([(STRANGER, "os user unnamed")]);
    for (uid, who) in hosts.clone() {
        rows.push((format!("par.sock {who}"), doors.by_par_sock(uid).await));
    }
    for (uid, who) in hosts {
        rows.push((format!("admin.sock {who}"), doors.by_admin_sock(uid).await));
    }
    let mark = |is_so: bool| if is_so { "✓" } else { "-" };
    let table: String = rows
        .iter()
        .map(|(who, [ask, answer, manage])| {
            format!("{who:<30} ask {}  answer {}  manage {}\n", mark(*ask), mark(*answer), mark(*manage))
        })
        .collect();
    assert_eq!(table, GOLDEN);
    for (who, [ask, answer, _]) in &rows {
        assert!(!(*ask && *answer), "{who} asks and answers");
    }
    doors.tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A code opens one login, and neither it nor the id of the login is on the ledger.
#[tokio::test]
async fn a_login_link_works_once_and_leaves_no_trace() {
    let doors = Doors::open().await;
    let link = doors.admin(0, json!({"op": "login.create"})).await;
    let code = link["ok"]["code"].as_str().expect("a code").to_owned();
    assert_eq!(link["ok"]["seconds"], 60);
    let first = doors.app.form("/ui/login", OWN, &format!("key={code}&proof={PROOF}")).await;
    assert_eq!((first.status, first.header("location")), (303, Some("/ui/approvals")), "{first:?}");
    let set = first.header("set-cookie").expect("a cookie");
    assert!(set.starts_with("par_answer=") && set.contains("Max-Age=900"), "{set}");
    let login = cookie(&first);
    assert_eq!(doors.app.page("/ui/approvals", &login).await.status, 200);
    // What a link opens answers, and manages nothing.
    assert_eq!(doors.app.page("/ui/health", &login).await.status, 403);
    let again = doors.app.form("/ui/login", OWN, &format!("key={code}")).await;
    assert_eq!((again.status, again.header("set-cookie")), (401, None));
    let id = login.trim_start_matches("Cookie: par_answer=").trim().to_owned();
    for name in ["ledger.db", "ledger.db-wal", "state.db", "state.db-wal"] {
        let bytes = std::fs::read(doors.data.join(name)).unwrap_or_default();
        let holds = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        assert!(!holds(&code) && !holds(&id), "{name}");
    }
    doors.tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A key that is sent over `par.sock` is refused: two identities in one request are a mistake.
#[tokio::test]
async fn par_sock_takes_no_key() {
    let doors = Doors::open().await;
    let key = doors.app.key(Role::Admin).await;
    let head =
        format!("GET /tools HTTP/1.1\r\nHost: par.sock\r\nConnection: close\r\nX-API-Key: {key}\r\n\r\n");
    let answer = doors.say(ask_socket_path(&doors.data), 0, head).await;
    assert!(answer.contains(" 400 ") && answer.contains("takes no key"), "{answer}");
    doors.tasks.iter().for_each(tokio::task::JoinHandle::abort);
}
