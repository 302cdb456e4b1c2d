//! Processes that die at the worst moment, and an orderly stop: nothing is run twice, and nothing
//! is left behind.

mod refused;

use crate::support::{Server, TestHome, is_alive, signal, text, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::OpenOptionsExt as _;

/// The one setting that the shipped manifests need.
pub(crate) const LOGS: &str = "[paths]\nlogs = \"/var/log\"\n";

/// A home with a tool that sleeps for `seconds`.
pub(crate) fn home_with_nap(seconds: u32) -> (TestHome, String) {
    let home = TestHome::init();
    let manifest = format!(
        r#"name = "nap"
summary = "Sleep."
class = "exec"
risk = "low"
command = ["/usr/bin/sleep", "{seconds}"]
runtime = "dynamic"
untrusted_output = true
[resource]
type = "Host"
is = "localhost"
[sandbox]
[limits]
wall_ms_max = 60000
output_bytes_max = 1024
memory_bytes_max = 134217728
processes_max = 4
[input]
type = "object"
additionalProperties = false
"#
    );
    home.add("tools.d/nap.toml", &manifest);
    home.add(
        "policies/50-nap.cedar",
        r#"@id("may-nap")
permit (principal in PAR::Role::"operator", action == PAR::Action::"nap", resource == PAR::Host::"localhost");
"#,
    );
    let key = home.key("crash", "operator");
    (home, key)
}

/// Starts a nap, and waits until its decision is on the ledger and its program runs.
fn start_nap(
    home: &TestHome,
    server: &Server,
    key: &str,
) -> std::thread::JoinHandle<Option<crate::support::Answer>> {
    let before = home.entries(&["kind:call.decision"]).len();
    let running = server.run_aside(key, "nap()");
    until("the decision is on the ledger", || home.entries(&["kind:call.decision"]).len() > before);
    until("the program runs", || server.descendants().into_iter().any(is_sleep));
    running
}

pub(crate) fn is_sleep(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
}

fn end(pid: u32) {
    signal(pid, Signal::SIGKILL);
}

/// The supervisor's own child with threads is the front; the other is the launcher's first stage.
fn front_and_launcher(server: &Server) -> (u32, u32) {
    let pid = server.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    let children: Vec<u32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    let threads = |pid: &u32| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let (front, launcher): (Vec<u32>, Vec<u32>) = children.into_iter().partition(|pid| threads(pid) > 1);
    assert_eq!((front.len(), launcher.len()), (1, 1), "one front and one launcher");
    (front[0], launcher[0])
}

/// Once the server reports that it listens it may be stopped: from then on a stop is orderly,
/// however early.
#[test]
fn a_signal_right_behind_ready_is_a_stop_in_order() {
    use std::io::{Read as _, Write as _};
    let home = TestHome::init();
    let (told, errors) = (home.beside("notify"), home.beside("errors"));
    let notify = std::os::unix::net::UnixDatagram::bind(&told).expect("notify socket");
    notify.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("time-out");
    nix::unistd::mkfifo(&errors, nix::sys::stat::Mode::S_IRWXU).expect("FIFO");
    let open = |flags| {
        let mut options = std::fs::File::options();
        options.read(true).write(true).custom_flags(flags).open(&errors).expect("opened")
    };
    let mut fill = open(libc::O_NONBLOCK);
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &told);
    command.stderr(open(0));
    let mut child = command.spawn().expect("par starts");
    // Its start is logged; then nothing that it writes gets through, so it blocks where it reports
    // that it listens.
    let mut log = Vec::new();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    // Without a pause: it reports that it listens a few milliseconds later.
    while !text(&log).contains("front and launcher are up") {
        assert!(std::time::Instant::now() < end, "it does not start: {}", text(&log));
        let _more = fill.read_to_end(&mut log);
    }
    while fill.write(&[b'.'; 512]).is_ok() {}
    while fill.write(b".").is_ok() {}
    let mut word = [0; 64];
    let read = notify.recv(&mut word).expect("told");
    assert!(text(&word[..read]).starts_with("READY=1"), "{}", text(&word[..read]));
    let front = crate::support::descendants(child.id());
    let front = front
        .into_iter()
        .find(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) > 1);
    signal(front.expect("a front"), Signal::SIGTERM);
    until("it ends", || {
        let _ended = fill.read_to_end(&mut log);
        child.try_wait().expect("child").is_some()
    });
    let said = text(&log).replace('.', "");
    assert_eq!(child.wait().expect("ended").code(), Some(0), "{said}");
    assert_eq!(count(&home, "stop"), 1);
    home.expect(0, &["audit", "verify"]);
}

fn count(home: &TestHome, kind: &str) -> usize {
    home.entries(&[&format!("kind:{kind}")]).len()
}

#[test]
fn after_kill_of_all_the_next_start_records_interrupted_and_runs_nothing_again() {
    let (home, key) = home_with_nap(50);
    let server = home.serve();
    let running = start_nap(&home, &server, &key);
    let all = server.descendants();
    assert!(all.len() >= 4, "front, two stages of the launcher, and the tool: {all:?}");
    let _all = server.kill();
    assert!(running.join().expect("thread").is_none(), "no answer was sent");
    until("nothing is left", || !all.iter().copied().any(is_alive));
    assert_eq!((count(&home, "call.decision"), count(&home, "call.result")), (1, 0));
    home.expect(0, &["audit", "verify"]);

    let server = home.serve();
    let decision = &home.entries(&["kind:call.decision"])[0];
    let result = &home.entries(&["kind:call.result"])[0];
    assert_eq!((&result["status"], &result["ref"]), (&json!("interrupted"), &decision["seq"]));
    let reply = &home.entries(&["kind:run.reply"])[0];
    assert_eq!((&reply["status"], &reply["run"]), (&json!("interrupted"), &decision["run"]));
    assert_eq!(count(&home, "recovery"), 1);
    assert!(server.log().contains("interrupted"), "{}", server.log());
    let told = server.get(&key, &format!("/runs/{}", reply["run"].as_str().expect("run"))).json();
    assert_eq!(
        (&told["status"], &told["steps"][0]["status"]),
        (&json!("interrupted"), &json!("interrupted"))
    );
    assert!(!server.descendants().into_iter().any(is_sleep), "the tool does not run again");
    assert_eq!(server.stop(), Some(0));

    // A second start finds nothing to recover.
    let server = home.serve();
    let counts = ["call.decision", "call.result", "run.reply", "recovery"].map(|kind| count(&home, kind));
    assert_eq!(counts, [1, 1, 1, 1]);
    assert_eq!(server.run(&key, "health_check()").json()["status"], "done");
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn state_db_that_is_lost_in_a_crash_is_made_again() {
    let (home, key) = home_with_nap(50);
    let server = home.serve();
    let running = start_nap(&home, &server, &key);
    let all = server.kill();
    assert!(running.join().expect("thread").is_none());
    until("nothing is left", || !all.iter().copied().any(is_alive));
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _absent = std::fs::remove_file(home.path("data").join(name));
    }
    let server = home.serve();
    assert_eq!(home.entries(&["kind:call.result"])[0]["status"], "interrupted");
    assert_eq!(server.run(&key, "health_check()").json()["status"], "done");
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_launcher_that_dies_ends_its_calls_and_is_replaced() {
    let (home, key) = home_with_nap(50);
    let server = home.serve();
    for stage in ["first", "second"] {
        let running = start_nap(&home, &server, &key);
        let (_, first) = front_and_launcher(&server);
        let below =
            std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).expect("children");
        let second: u32 = below.trim().parse().expect("one second stage");
        end(if stage == "first" { first } else { second });
        let reply = running.join().expect("thread").expect("an answer").json();
        assert_eq!(reply["steps"][0]["status"], "killed", "{stage}: {reply}");
        until("the program is gone", || !server.descendants().into_iter().any(is_sleep));
        let next = server.run(&key, "health_check()").json();
        assert_eq!(next["steps"][0]["status"], "ok", "after the {stage} stage was killed: {next}");
    }
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

/// It is reported while no launcher answers, without a service manager that asks; what hung is
/// ended with everything it had.
#[test]
fn a_launcher_that_hangs_ends_its_calls_and_is_replaced() {
    let (home, key) = home_with_nap(50);
    let server = home.serve();
    let ready = || {
        let answer = server.send("GET", "/readyz", "", b"");
        (answer.status, text(&answer.body))
    };
    let is_ready = || matches!(ready(), (200, body) if body.starts_with("ready\n"));
    assert!(is_ready());
    let running = start_nap(&home, &server, &key);
    let (_, first) = front_and_launcher(&server);
    let below = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).expect("children");
    let second: u32 = below.trim().parse().expect("one second stage");
    signal(second, Signal::SIGSTOP);
    until("it is told", || ready() == (503, "launcher\n".to_owned()));
    let health = server.get(&key, "/health").json();
    assert_eq!((&health["status"], &health["why"]), (&json!("degraded"), &json!("launcher")), "{health}");
    assert!(health["reason"].is_string(), "{health}");
    until("there is another launcher", is_ready);
    let reply = running.join().expect("thread").expect("an answer").json();
    assert_eq!(reply["steps"][0]["status"], "killed", "{reply}");
    until("what hung is gone", || !is_alive(first) && !is_alive(second));
    assert!(!server.descendants().into_iter().any(is_sleep), "and what it had started");
    let next = server.run(&key, "health_check()").json();
    assert_eq!(next["steps"][0]["status"], "ok", "{next}");
    let metrics = text(&server.get(&key, "/metrics").body);
    assert!(metrics.contains("\npar_launcher_restarts_total 1\n"), "{metrics}");
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_front_that_dies_ends_all_and_the_next_start_works() {
    let (home, key) = home_with_nap(50);
    let mut server = home.serve();
    let running = start_nap(&home, &server, &key);
    let all = server.descendants();
    let (front, _) = front_and_launcher(&server);
    end(front);
    let ended = server.child.wait().expect("ends");
    assert!(!ended.success(), "{ended}");
    assert!(running.join().expect("thread").is_none());
    until("nothing is left", || !all.iter().copied().any(is_alive));
    let server = home.serve();
    assert_eq!(server.run(&key, "health_check()").json()["status"], "done");
    assert_eq!(home.entries(&["kind:call.result"])[0]["status"], "interrupted");
    home.expect(0, &["audit", "verify"]);
}

/// The ledger goes away while a tool runs: its result cannot be recorded, and so is not reported.
#[test]
fn a_result_that_cannot_be_recorded_is_not_reported() {
    let (home, key) = home_with_nap(2);
    let mut server = home.serve();
    let running = start_nap(&home, &server, &key);
    let (ledger, aside) = (home.path("data/ledger.db"), home.path("data/aside.db"));
    std::fs::rename(&ledger, &aside).expect("renamed");
    let answer = running.join().expect("thread").expect("an answer");
    assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("ledger")), "{}", text(&answer.body));
    for word in ["steps", "exit", "layers"] {
        assert!(!text(&answer.body).contains(word), "{}", text(&answer.body));
    }
    assert_eq!(server.child.wait().expect("ends").code(), Some(1), "it does not go on");
    assert!(server.log().contains("the ledger accepts no more entries until a restart"), "{}", server.log());
    std::fs::rename(&aside, &ledger).expect("back");
    let server = home.serve();
    assert_eq!(home.entries(&["kind:call.result"])[0]["status"], "interrupted", "the outcome is not known");
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}

/// The ledger goes away while the model thinks: its answer cannot be recorded, and so is not
/// reported.
#[test]
fn an_answer_that_cannot_be_recorded_is_not_reported() {
    use std::io::{Read as _, Write as _};
    let home = TestHome::init();
    let key = home.key("script", "operator");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("address");
    home.configure(&format!(
        "[llm]\nprovider = \"openai\"\nbase_url = \"http://{address}\"\nmodel = \"m\"\n{LOGS}"
    ));
    let server = home.serve();
    let running = server.run_aside(&key, "hello");
    let (mut asked, _) = listener.accept().expect("the model is asked");
    let mut some = [0; 1_024];
    assert!(asked.read(&mut some).expect("a request") > 0);
    std::fs::rename(home.path("data/ledger.db"), home.path("data/aside.db")).expect("renamed");
    let body = json!({ "choices": [{ "message": { "role": "assistant", "content": "forty-two" }, "finish_reason": "stop" }] });
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    asked.write_all((head + &body).as_bytes()).expect("answered");
    let answer = running.join().expect("thread").expect("an answer");
    assert_eq!((answer.status, &answer.json()["code"]), (503, &json!("ledger")), "{}", text(&answer.body));
    assert!(!text(&answer.body).contains("forty-two"), "{}", text(&answer.body));
    let _all = server.kill();
}

#[test]
fn a_run_that_crashes_while_the_model_is_asked_is_closed() {
    let home = TestHome::init();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("address");
    home.configure(&format!(
        "[llm]\nprovider = \"openai\"\nbase_url = \"http://{address}\"\nmodel = \"m\"\n{LOGS}"
    ));
    let mut run = home.command(&["run", "hello"]).spawn().expect("par starts");
    listener.set_nonblocking(true).expect("listener");
    let mut asked = None;
    until("the model is asked", || {
        asked = listener.accept().ok();
        asked.is_some()
    });
    run.kill().expect("kill");
    let _killed = run.wait().expect("ends");
    drop(asked);
    home.configure(LOGS);
    home.expect(0, &["run", "health_check()"]);
    let replies = home.entries(&["kind:run.reply"]);
    let statuses: Vec<&Value> = replies.iter().map(|reply| &reply["status"]).collect();
    assert_eq!(statuses, ["interrupted", "done"]);
    assert_eq!(count(&home, "recovery"), 1);
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn sigterm_lets_open_runs_end_and_stops_cleanly() {
    let (home, key) = home_with_nap(2);
    let mut server = home.serve();
    let all = server.descendants();
    let running = start_nap(&home, &server, &key);
    server.signal(Signal::SIGTERM);
    let reply = running.join().expect("thread").expect("an answer").json();
    assert_eq!((&reply["status"], &reply["steps"][0]["status"]), (&json!("done"), &json!("ok")));
    assert_eq!(server.child.wait().expect("ends").code(), Some(0));
    until("nothing is left", || !all.iter().copied().any(is_alive));
    let last = home.entries(&[]).pop().expect("an entry");
    assert_eq!(last["kind"], "stop");
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_second_server_waits_and_then_names_the_first() {
    let home = TestHome::init();
    let server = home.serve();
    let second = home.par(&["serve", "--listen", "127.0.0.1:0"]);
    let said = text(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&server.address) || said.contains("pid="), "{said}");
    assert_eq!(server.send("GET", "/livez", "", b"").status, 200);
}

#[test]
fn run_uses_the_server_that_runs_with_the_callers_own_key() {
    let (home, key) = home_with_nap(1);
    let viewer = home.key("viewer", "viewer");
    let server = home.serve();
    let run = |key: Option<&str>| {
        let mut command = home.command(&["run", "--json", "health_check()"]);
        let output = command.envs(key.map(|key| ("PAR_KEY", key))).output().expect("par starts");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = run(Some(&key));
    assert_eq!(code, Some(0), "{stderr}");
    let reply: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(reply["steps"][0]["status"], "ok");
    assert!(!stderr.contains(&key) && !stdout.contains(&key));
    // Without a key, as a user of the host; a key that is given is not replaced by that.
    assert_eq!(run(None).0, Some(0), "{}", run(None).2);
    for (key, expect) in [("par_wrong", 6), (viewer.as_str(), 3)] {
        let (code, stdout, stderr) = run(Some(key));
        assert_eq!((code, stdout.as_str()), (Some(expect), ""), "{stderr}");
    }
    assert_eq!(count(&home, "start"), 1, "no second front was started");
    assert_eq!(server.stop(), Some(0));
}
