//! Calls that wait for a person, through the real server: who may answer, what an answer permits,
//! and that a run then continues by itself, once.

mod changed;
mod restart;
mod runbook;
mod several;
mod terminal;

use crate::support::{Answer, Server, TestHome, signal, text};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const POLICY: &str = r#"
@id("release-list")
@advice("ask a member of the release group")
@require_approval("release")
forbid (principal, action == PAR::Action::"list_dir", resource in PAR::Path::"@workspace")
unless { context.call.approved == "approved" };

@id("confirm-read")
@require_confirm("")
forbid (principal, action == PAR::Action::"read_file", resource in PAR::Path::"@workspace")
unless { context.call.approved == "confirmed" || context.call.approved == "approved" };
"#;

/// A home with the two policies, the group `release`, and keys of several people.
pub(crate) struct People {
    pub(crate) home: TestHome,
    /// Runs; user `ana`.
    pub(crate) asker: String,
    /// Approves; user `ben`, of the group.
    pub(crate) ben: String,
    /// Reads every run.
    pub(crate) viewer: String,
}

impl People {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    pub(crate) fn with(more: &str) -> Self {
        let home = TestHome::init();
        home.add("policies/50-people.cedar", POLICY);
        let os = os_user();
        let groups = format!(
            "[paths]\nlogs = \"/var/log\"\n[groups]\nrelease = [\"ana\", \"ben\", \"carl\", \"{os}\"]\n{more}"
        );
        home.configure(&groups);
        std::fs::write(home.path("workspace/notes"), "the notes\n").expect("file");
        std::fs::create_dir(home.path("workspace/box")).expect("folder");
        std::fs::write(home.path("workspace/box/ticket"), "").expect("file");
        let (asker, ben) = (key(&home, "asker", "operator", "ana"), key(&home, "ben", "approver", "ben"));
        let viewer = home.key("viewer", "viewer");
        Self { home, asker, ben, viewer }
    }

    pub(crate) fn list(&self) -> String {
        format!("list_dir(path=\"{}\")", self.home.path("workspace/box").display())
    }

    pub(crate) fn read(&self) -> String {
        format!("read_file(path=\"{}\")", self.home.path("workspace/notes").display())
    }

    /// Starts a run, and returns its reply and its one approval request.
    pub(crate) fn ask(&self, server: &Server, message: &str) -> (Value, Value) {
        let answer = server.run(&self.asker, message);
        assert_eq!(answer.status, 202, "{}", text(&answer.body));
        let reply = answer.json();
        assert_eq!(reply["status"], "waiting", "{reply}");
        let id = reply["steps"][0]["result"]["approval"].as_str().expect("approval").to_owned();
        let approval = server.get(&self.ben, &format!("/approvals/{id}"));
        assert_eq!(approval.status, 200, "{}", text(&approval.body));
        (reply.clone(), approval.json())
    }

    /// The run once it neither waits nor runs.
    pub(crate) fn ended(&self, server: &Server, run: &Value) -> Value {
        let path = format!("/runs/{}", run["run"].as_str().expect("run"));
        let mut last = Value::Null;
        until("the run ends", || {
            last = server.get(&self.viewer, &path).json();
            !["waiting", "running"].contains(&last["status"].as_str().expect("status"))
        });
        last
    }

    /// Adds a tool that takes any text, and whose calls need approval.
    pub(crate) fn add_note(&self) {
        let manifest = "name = \"note\"\nsummary = \"n\"\nclass = \"exec\"\nrisk = \"high\"\n\
             interpreter = \"/bin/sh\"\nscript = \"jobs.d/note.sh\"\nargs = [\"{words}\"]\nuntrusted_output = true\n\
             [resource]\ntype = \"Host\"\nis = \"localhost\"\n[sandbox]\n[limits]\nwall_ms_max = 5000\n\
             output_bytes_max = 65536\nmemory_bytes_max = 268435456\nprocesses_max = 8\n[input]\n\
             type = \"object\"\nadditionalProperties = false\nrequired = [\"words\"]\n\
             [input.properties.words]\ntype = \"string\"\nminLength = 1\nmaxLength = 2000000\n";
        let policy = "@id(\"note\")\npermit (principal, action == PAR::Action::\"note\", resource);\n\
             @id(\"note-release\")\n@require_approval(\"release\")\n\
             forbid (principal, action == PAR::Action::\"note\", resource)\n\
             unless { context.call.approved == \"approved\" };\n";
        self.home.add("jobs.d/note.sh", "printf '%s' \"$1\"\n");
        self.home.add("tools.d/note.toml", manifest);
        self.home.add("policies/60-note.cedar", policy);
    }

    /// The one approval request that is open instead of `before`, which is void.
    fn asked_again(&self, server: &Server, before: &Value) -> Value {
        let mut asked = Value::Null;
        until("approval is requested again", || {
            let open = server.get(&self.ben, "/approvals?state=pending").json();
            asked = open["items"][0].clone();
            open["items"].as_array().map(Vec::len) == Some(1) && asked["id"] != before["id"]
        });
        assert_eq!(self.state(server, before), "void");
        assert_ne!(asked["call_hash"], before["call_hash"]);
        asked
    }

    /// The state of an approval request.
    pub(crate) fn state(&self, server: &Server, approval: &Value) -> Value {
        let path = format!("/approvals/{}", approval["id"].as_str().expect("id"));
        server.get(&self.ben, &path).json()["state"].clone()
    }

    /// Stops the launcher's process, so that no call can be prepared.
    pub(crate) fn stop_tools(&self, server: &Server) {
        let lock = std::fs::read_to_string(self.home.path("data/lock")).expect("lock");
        let front: u32 = lock.lines().find_map(|line| line.strip_prefix("pid=")?.parse().ok()).expect("pid");
        for pid in server.descendants().into_iter().filter(|pid| *pid != front) {
            signal(pid, Signal::SIGSTOP);
        }
    }

    pub(crate) fn verify(&self) {
        self.home.expect(0, &["audit", "verify"]);
    }

    /// Kinds, decisions and statuses of the run's entries, in order.
    fn told(&self, run: &Value) -> Vec<String> {
        let query = format!("run:{}", run["run"].as_str().expect("run"));
        let word = |entry: &Value, name: &str| entry[name].as_str().map(|word| format!(" {word}"));
        let line = |entry: &Value| {
            let more = word(entry, "decision").or_else(|| word(entry, "status")).unwrap_or_default();
            format!("{}{more}", entry["kind"].as_str().expect("kind"))
        };
        self.home.entries(&[&query]).iter().map(line).collect()
    }
}

pub(crate) fn key(home: &TestHome, name: &str, role: &str, user: &str) -> String {
    home.expect(0, &["key", "create", name, "--role", role, "--user", user]).trim().to_owned()
}

pub(crate) fn os_user() -> String {
    let uid = nix::unistd::geteuid();
    let name = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    format!("os:{}", name.unwrap_or_else(|| uid.to_string()))
}

/// Waits at most half a minute for a condition.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn post(server: &Server, key: &str, approval: &Value, body: &Value) -> Answer {
    let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
    let path = format!("/approvals/{}", approval["id"].as_str().expect("id"));
    server.send("POST", &path, &headers, body.to_string().as_bytes())
}

/// Like [`grant`], at a server that may have ended.
pub(crate) fn try_grant(server: &Server, key: &str, approval: &Value) -> Option<Answer> {
    let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
    let path = format!("/approvals/{}", approval["id"].as_str().expect("id"));
    let body = json!({ "answer": "grant", "call_hash": approval["call_hash"] }).to_string();
    server.try_send("POST", &path, &headers, body.as_bytes())
}

pub(crate) fn grant(server: &Server, key: &str, approval: &Value) -> Answer {
    let body = json!({ "answer": "grant", "card": approval["card"], "call_hash": approval["call_hash"] });
    post(server, key, approval, &body)
}

fn check(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)), "{}", text(&answer.body));
}

/// The last entry of this kind in a run.
fn last(home: &TestHome, run: &Value, kind: &str) -> Value {
    let query = format!("run:{}", run["run"].as_str().expect("run"));
    home.entries(&[&query, &format!("kind:{kind}")]).pop().expect(kind)
}

#[test]
fn another_member_of_the_group_approves_and_the_run_resumes_by_itself() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!((&approval["state"], &approval["tool"]), (&json!("pending"), &json!("list_dir")));
    assert_eq!(approval["arguments"], json!({ "path": people.home.path("workspace/box") }));
    assert_eq!(approval["groups"], json!(["release"]));
    assert_eq!(approval["requester"]["user"], "ana");
    let why = &approval["why"][0];
    assert_eq!(
        (&why["policy"], &why["advice"]),
        (&json!("release-list"), &json!("ask a member of the release group"))
    );
    assert_eq!(why["origin"], "policies/50-people.cedar:2");
    let listed = server.get(&people.ben, "/approvals?state=pending").json();
    assert_eq!(listed["items"], json!([approval]));
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran yet");

    check(&grant(&server, &people.asker, &approval), 403, "forbidden");
    let granted = post(
        &server,
        &people.ben,
        &approval,
        &json!({ "answer": "grant", "call_hash": approval["call_hash"], "reason": "looks right" }),
    );
    assert_eq!(granted.status, 200, "{}", text(&granted.body));
    assert_eq!(granted.json()["answer"]["reason"], "looks right");
    let ended = people.ended(&server, &run);
    assert_eq!(ended["status"], "done", "{ended}");
    let step = &ended["steps"][0];
    assert_eq!((&step["decision"], &step["status"]), (&json!("allow"), &json!("ok")), "{ended}");
    assert_eq!(step["result"]["entries"][0]["name"], "ticket", "{ended}");
    assert_eq!(
        people.told(&run),
        [
            "run.request",
            "model.reply",
            "call.decision needs_approval",
            "approval.request",
            "run.reply waiting",
            "approval.grant",
            "call.decision allow",
            "call.result ok",
            "model.reply",
            "run.reply done",
        ]
    );
    let (asked, yes) =
        (last(&people.home, &run, "approval.request"), last(&people.home, &run, "approval.grant"));
    let decision = last(&people.home, &run, "call.decision");
    assert_eq!((&yes["ref"], &decision["ref"]), (&asked["seq"], &yes["seq"]));
    let context = people.home.entry(decision["seq"].as_u64().expect("seq"));
    let call = &context["payload"]["request"]["context"]["call"];
    assert_eq!((&call["approved"], &call["approver"]["__entity"]["id"]), (&json!("approved"), &json!("ben")));
    let shown =
        server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
    assert_eq!(shown["state"], "spent");
    check(&grant(&server, &people.ben, &approval), 409, "answered");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Every answer that does not count: by the wrong person, for the wrong call, or in the wrong form.
#[test]
fn an_answer_of_the_wrong_person_or_to_another_call_does_not_count() {
    let people = People::new();
    let second = key(&people.home, "ana-approves", "approver", "ana");
    let stranger = key(&people.home, "dora", "approver", "dora");
    let (outsider, admin) = (people.home.key("outsider", "approver"), people.home.key("admin", "admin"));
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    for (who, code) in [
        (&people.viewer, "forbidden"),
        (&people.asker, "forbidden"),
        (&admin, "forbidden"),
        (&second, "own_request"),
        (&stranger, "not_in_group"),
        (&outsider, "not_in_group"),
    ] {
        check(&grant(&server, who, &approval), 403, code);
    }
    for path in ["/approvals", "/approvals/apr_01JD0000000000000000000000"] {
        check(&server.get(&people.viewer, path), 403, "forbidden");
    }
    let other = |id: &str| json!({ "id": id, "call_hash": approval["call_hash"] });
    for id in ["apr_01JD0000000000000000000000", "apr_1", "..%2f..", "run_01JD0000000000000000000000"] {
        check(&grant(&server, &people.ben, &other(id)), 404, "not_found");
    }
    for hash in [String::new(), "0".repeat(64), approval["call_hash"].as_str().expect("hash")[1..].to_owned()]
    {
        let body = json!({ "answer": "grant", "call_hash": hash });
        check(&post(&server, &people.ben, &approval, &body), 409, "wrong_call");
    }
    let hash = &approval["call_hash"];
    for body in [
        json!([]),
        json!({ "answer": "grant" }),
        json!({ "call_hash": hash }),
        json!({ "answer": "yes", "call_hash": hash }),
        json!({ "answer": true, "call_hash": hash }),
        json!({ "answer": "grant", "call_hash": 1 }),
        json!({ "answer": "grant", "call_hash": hash, "approved": true }),
        json!({ "answer": "grant", "call_hash": hash, "reason": "x".repeat(501) }),
    ] {
        check(&post(&server, &people.ben, &approval, &body), 422, "unfit");
    }
    for query in ["state=open", "after=x", "limit=0", "colour=red"] {
        check(&server.get(&people.ben, &format!("/approvals?{query}")), 422, "unfit");
    }
    check(
        &server.send("DELETE", "/approvals", &format!("Authorization: Bearer {}\r\n", people.ben), b""),
        405,
        "wrong_method",
    );
    let shown =
        server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
    assert_eq!(shown["state"], "pending", "none of them counted");
    assert!(people.home.entries(&["kind:approval.grant"]).is_empty());
    let found = server.get(&people.viewer, &format!("/runs/{}", run["run"].as_str().expect("run"))).json();
    assert_eq!(found["status"], "waiting");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

#[test]
fn only_one_of_two_simultaneous_answers_counts() {
    let people = People::new();
    let carl = key(&people.home, "carl", "approver", "carl");
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let keys = [&people.ben, &carl, &people.ben, &carl];
        let tries: Vec<_> =
            keys.map(|who| scope.spawn(|| grant(&server, who, &approval).status)).into_iter().collect();
        tries.into_iter().map(|one| one.join().expect("thread")).collect()
    });
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 409).count(), 3, "{answers:?}");
    assert_eq!(people.ended(&server, &run)["status"], "done");
    let told = people.told(&run);
    for (once, times) in [("approval.grant", 1), ("call.decision allow", 1), ("call.result ok", 1)] {
        assert_eq!(told.iter().filter(|line| *line == once).count(), times, "{told:?}");
    }
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A3: a run in which a person refused a call is not `done`.
#[test]
fn a_refusal_and_a_timeout_are_reported_to_the_model_and_the_run_ends() {
    let people = People::with("[approvals]\nexpire_s = 2\n");
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let body = json!({ "answer": "refuse", "call_hash": approval["call_hash"], "reason": "not on a Friday" });
    let refused = post(&server, &people.ben, &approval, &body);
    assert_eq!((refused.status, &refused.json()["state"]), (200, &json!("refused")));
    let ended = people.ended(&server, &run);
    let step = &ended["steps"][0];
    assert_eq!(
        (&step["decision"], &step["status"]),
        (&json!("needs_approval"), &json!("refused")),
        "{ended}"
    );
    assert_eq!(step["result"]["error"], "a person refused it: not on a Friday", "{ended}");
    assert_eq!(ended["status"], "refused", "whatever the model says of it: {ended}");
    assert_eq!(step["class"], "person");
    assert_eq!(step["refused"], json!({ "by": "ben", "reason": "not on a Friday" }));
    check(&grant(&server, &people.ben, &approval), 409, "answered");
    // NEXT 19: a query by class finds the refusal, and the run.
    let found = people.home.entries(&["status:person"]);
    assert_eq!((found.len(), &found[0]["kind"]), (1, &json!("approval.refuse")), "{found:?}");
    let path = "/runs?q=status:person";
    until("the index has the run", || {
        server.get(&people.viewer, path).json()["items"][0]["run"] == ended["run"]
    });
    assert!(people.home.expect(0, &["audit", "show", "status:person"]).contains("refused"));

    let (run, approval) = people.ask(&server, &people.read());
    let ended = people.ended(&server, &run);
    assert_eq!(ended["steps"][0]["result"]["error"], "it was not approved in time", "{ended}");
    assert_eq!((&ended["status"], &ended["steps"][0]["class"]), (&json!("refused"), &json!("person")));
    let told = text(&server.get(&people.viewer, "/metrics").body);
    for line in ["par_runs_total{status=\"refused\"} 2", "par_refusals_total{class=\"person\"} 2"] {
        assert!(told.lines().any(|is| is == line), "{line}\n{told}");
    }
    check(&grant(&server, &people.ben, &approval), 409, "expired");
    let told = people.told(&run);
    assert!(told.contains(&"approval.refuse expired".to_owned()), "{told:?}");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// The object is swapped between the request and its approval: what runs is what was shown, or
/// nothing.
#[test]
fn another_object_under_the_same_name_needs_another_approval() {
    let people = People::new();
    let server = people.home.serve();
    let folder = people.home.path("workspace/inner");
    std::fs::create_dir(&folder).expect("folder");
    let (run, approval) = people.ask(&server, &format!("list_dir(path=\"{}\")", folder.display()));
    std::fs::rename(&folder, people.home.path("workspace/moved")).expect("moved");
    std::fs::create_dir(&folder).expect("folder");
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let mut asked = Vec::new();
    until("approval is requested again", || {
        asked = server.get(&people.ben, "/approvals?state=pending").json()["items"]
            .as_array()
            .expect("items")
            .clone();
        asked.len() == 1 && asked[0]["id"] != approval["id"]
    });
    let old = server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
    assert_eq!(old["state"], "void", "the yes was to another folder");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    assert_eq!(grant(&server, &people.ben, &asked[0]).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A reader sees one state or the next while a request is answered, used and run, and never an
/// inconsistency.
#[test]
fn a_question_that_is_looked_at_while_it_moves_is_not_damaged() {
    let people = People::new();
    let server = people.home.serve();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || {
            let mut seen = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let answer = server.get(&people.ben, "/approvals");
                assert_eq!(answer.status, 200, "{}", text(&answer.body));
                seen += 1;
            }
            seen
        };
        let lookers = [scope.spawn(look), scope.spawn(look), scope.spawn(look)];
        for _ in 0..12 {
            let (run, approval) = people.ask(&server, &people.list());
            assert_eq!(grant(&server, &people.ben, &approval).status, 200);
            assert_eq!(people.ended(&server, &run)["status"], "done");
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let seen: u32 = lookers.map(|looker| looker.join().expect("a looker")).iter().sum();
        assert!(seen > 100, "{seen}");
    });
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// The shipped deployment: requested by one person, approved by another, executed and recorded.
#[test]
fn a_deployment_waits_for_the_release_group_and_is_then_live() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, "deploy(project=\"demo\", version=\"1.0.1\")");
    assert_eq!(approval["resource"]["id"], "demo");
    let current = people.home.path("workspace/demo/current");
    assert!(!current.exists(), "nothing is live yet");
    check(&grant(&server, &people.asker, &approval), 403, "forbidden");
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!(ended["status"], "done", "{ended}");
    if ended["steps"][0]["status"] == "refused" {
        eprintln!("skipped: programs cannot run here: {ended}");
        return;
    }
    assert_eq!(ended["steps"][0]["status"], "ok", "{ended}");
    let live = std::fs::read_to_string(current.join("VERSION")).expect("live");
    assert_eq!(live.trim(), "1.0.1");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}
