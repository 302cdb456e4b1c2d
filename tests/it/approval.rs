//! Calls that wait for a person, through the real server: who may answer, what an answer is good for, and
//! that a run goes on by itself, once, also after a restart.

use crate::dashboard::log_in;
use crate::support::{Answer, Server, TestHome, signal, text};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const POLICY: &str = r#"
@id("release-list")
@advice("ask somebody of the release group")
@require_approval("release")
forbid (principal, action == PAR::Action::"list_dir", resource in PAR::Path::"@workspace")
unless { context.call.approved == "approved" };

@id("confirm-read")
@require_confirm("")
forbid (principal, action == PAR::Action::"read_file", resource in PAR::Path::"@workspace")
unless { context.call.approved == "confirmed" || context.call.approved == "approved" };
"#;

/// A home with the two policies, the group `release`, and keys of some people.
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

    fn with(more: &str) -> Self {
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

    /// Asks, and returns the run's reply and its one question.
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

    /// The run once it does not wait or run any more.
    pub(crate) fn ended(&self, server: &Server, run: &Value) -> Value {
        let path = format!("/runs/{}", run["run"].as_str().expect("run"));
        let mut last = Value::Null;
        until("the run ends", || {
            last = server.get(&self.viewer, &path).json();
            !["waiting", "running"].contains(&last["status"].as_str().expect("status"))
        });
        last
    }

    /// A tool that takes any words there are, and that somebody is asked about.
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

    /// The one question that is open instead of `before`, which is void.
    fn asked_anew(&self, server: &Server, before: &Value) -> Value {
        let mut asked = Value::Null;
        until("it is asked anew", || {
            let open = server.get(&self.ben, "/approvals?state=pending").json();
            asked = open["items"][0].clone();
            open["items"].as_array().map(Vec::len) == Some(1) && asked["id"] != before["id"]
        });
        assert_eq!(self.state(server, before), "void");
        assert_ne!(asked["call_hash"], before["call_hash"]);
        asked
    }

    /// How a question stands.
    pub(crate) fn state(&self, server: &Server, approval: &Value) -> Value {
        let path = format!("/approvals/{}", approval["id"].as_str().expect("id"));
        server.get(&self.ben, &path).json()["state"].clone()
    }

    /// A launcher that stands still keeps calls from being prepared.
    fn stop_tools(&self, server: &Server) {
        let lock = std::fs::read_to_string(self.home.path("data/lock")).expect("lock");
        let front: u32 = lock.lines().find_map(|line| line.strip_prefix("pid=")?.parse().ok()).expect("pid");
        for pid in server.descendants().into_iter().filter(|pid| *pid != front) {
            signal(pid, Signal::SIGSTOP);
        }
    }

    fn verify(&self) {
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

fn os_user() -> String {
    let uid = nix::unistd::geteuid();
    let name = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    format!("os:{}", name.unwrap_or_else(|| uid.to_string()))
}

/// Waits, for at most half a minute, until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn post(server: &Server, key: &str, approval: &Value, body: &Value) -> Answer {
    let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
    let path = format!("/approvals/{}", approval["id"].as_str().expect("id"));
    server.send("POST", &path, &headers, body.to_string().as_bytes())
}

/// As [`grant`], at a server that may be gone.
pub(crate) fn try_grant(server: &Server, key: &str, approval: &Value) -> Option<Answer> {
    let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
    let path = format!("/approvals/{}", approval["id"].as_str().expect("id"));
    let body = json!({ "answer": "grant", "call_hash": approval["call_hash"] }).to_string();
    server.try_send("POST", &path, &headers, body.as_bytes())
}

pub(crate) fn grant(server: &Server, key: &str, approval: &Value) -> Answer {
    post(server, key, approval, &json!({ "answer": "grant", "call_hash": approval["call_hash"] }))
}

fn check(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)), "{}", text(&answer.body));
}

/// The entry of a run of this kind: the last one.
fn last(home: &TestHome, run: &Value, kind: &str) -> Value {
    let query = format!("run:{}", run["run"].as_str().expect("run"));
    home.entries(&[&query, &format!("kind:{kind}")]).pop().expect(kind)
}

#[test]
fn another_user_of_the_group_approves_and_the_run_goes_on_by_itself() {
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
        (&json!("release-list"), &json!("ask somebody of the release group"))
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

/// Every answer that does not count: by whom, to what, in which form.
#[test]
fn an_answer_of_the_wrong_person_or_to_another_call_does_not_count() {
    let people = People::new();
    let second = key(&people.home, "ana-approves", "approver", "ana");
    let stranger = key(&people.home, "dora", "approver", "dora");
    let (nobody, admin) = (people.home.key("nobody", "approver"), people.home.key("admin", "admin"));
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    for (who, code) in [
        (&people.viewer, "forbidden"),
        (&people.asker, "forbidden"),
        (&admin, "forbidden"),
        (&second, "own_request"),
        (&stranger, "not_in_group"),
        (&nobody, "not_in_group"),
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
fn of_two_answers_at_once_one_counts() {
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

#[test]
fn a_refusal_and_a_time_out_are_told_to_the_model_and_the_run_ends() {
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
    check(&grant(&server, &people.ben, &approval), 409, "answered");

    let (run, approval) = people.ask(&server, &people.read());
    let ended = people.ended(&server, &run);
    assert_eq!(ended["steps"][0]["result"]["error"], "nobody approved it in time", "{ended}");
    check(&grant(&server, &people.ben, &approval), 409, "expired");
    let told = people.told(&run);
    assert!(told.contains(&"approval.refuse expired".to_owned()), "{told:?}");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

#[test]
fn a_question_whose_time_is_over_while_nobody_serves_is_refused_at_the_next_start() {
    let people = People::with("[approvals]\nexpire_s = 1\n");
    let server = people.home.serve();
    let (run, _) = people.ask(&server, &people.list());
    server.kill();
    std::thread::sleep(Duration::from_millis(1_100));
    let server = people.home.serve();
    assert_eq!(people.ended(&server, &run)["steps"][0]["status"], "refused");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

#[test]
fn every_call_of_a_reply_is_answered_before_the_run_goes_on() {
    let people = People::new();
    let server = people.home.serve();
    let answer = server.run(&people.asker, &format!("{} {}", people.list(), people.read())).json();
    assert_eq!(answer["status"], "waiting", "{answer}");
    let id = |at: usize| answer["steps"][at]["result"]["approval"].as_str().expect("approval").to_owned();
    let of = |at: usize| server.get(&people.ben, &format!("/approvals/{}", id(at))).json();
    let (first, second) = (of(0), of(1));
    assert_eq!(grant(&server, &people.ben, &first).status, 200);
    let path = format!("/runs/{}", answer["run"].as_str().expect("run"));
    assert_eq!(server.get(&people.viewer, &path).json()["status"], "waiting");
    // One's own yes counts where a confirmation is asked for, by a key that cannot run.
    let own = key(&people.home, "ana-confirms", "approver", "ana");
    let confirmed = grant(&server, &own, &second);
    assert_eq!(confirmed.status, 200, "{}", text(&confirmed.body));
    let ended = people.ended(&server, &answer);
    let statuses: Vec<&Value> =
        ended["steps"].as_array().expect("steps").iter().map(|s| &s["status"]).collect();
    assert_eq!(statuses, [&json!("ok"), &json!("ok")], "{ended}");
    assert_eq!(ended["steps"][1]["result"]["text"], "the notes\n", "{ended}");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Two groups are asked at once, each about its own call, and one call that two rules gate needs somebody
/// of both.
#[test]
fn a_run_waits_for_two_groups_at_once() {
    let people = People::new();
    let night = |id: &str, on: &str| {
        format!(
            "@id(\"{id}\")\n@require_approval(\"night\")\nforbid (principal, action == PAR::Action::\"{on}\", \
             resource in PAR::Path::\"@workspace\")\nunless {{ context.call.approved == \"approved\" }};\n"
        )
    };
    people.home.add("policies/60-night.cedar", &night("night-read", "read_file"));
    let toml = std::fs::read_to_string(people.home.path("etc/par.toml")).expect("par.toml");
    people.home.configure(&format!("{toml}night = [\"dora\", \"carl\"]\n"));
    let [carl, dora] = ["carl", "dora"].map(|name| key(&people.home, name, "approver", name));
    let server = people.home.serve();
    let (run, listing) = people.ask(&server, &format!("{} {}", people.list(), people.read()));
    let open = server.get(&people.ben, "/approvals?state=pending").json();
    let reading = open["items"][1].clone();
    assert_eq!((&listing["groups"], &reading["groups"]), (&json!(["release"]), &json!(["night"])), "{open}");
    check(&grant(&server, &dora, &listing), 403, "not_in_group");
    check(&grant(&server, &people.ben, &reading), 403, "not_in_group");
    // The one's hash says nothing about the other's call.
    let crossed = json!({ "id": reading["id"], "call_hash": listing["call_hash"] });
    check(&grant(&server, &dora, &crossed), 409, "wrong_call");
    assert_eq!(grant(&server, &dora, &reading).status, 200);
    assert_eq!(people.state(&server, &reading), "granted", "it waits for the other");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran yet");
    let no = json!({ "answer": "refuse", "call_hash": listing["call_hash"] });
    assert_eq!(post(&server, &people.ben, &listing, &no).status, 200);
    let ended = people.ended(&server, &run);
    let status = |at: usize| ended["steps"][at]["status"].clone();
    assert_eq!((status(0), status(1)), (json!("refused"), json!("ok")), "{ended}");
    assert_eq!(server.stop(), Some(0));

    people.home.add("policies/70-night.cedar", &night("night-list", "list_dir"));
    let server = people.home.serve();
    let (run, both) = people.ask(&server, &people.list());
    assert_eq!(both["groups"].as_array().map(Vec::len), Some(2), "{both}");
    for one in [&people.ben, &dora] {
        check(&grant(&server, one, &both), 403, "not_in_group");
    }
    assert_eq!(grant(&server, &carl, &both).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A call behind one that changes something is to see what it did: it is asked about only then.
#[test]
fn a_call_behind_a_waiting_change_is_asked_about_after_it() {
    let people = People::new();
    let server = people.home.serve();
    let message = format!("deploy(project=\"demo\", version=\"1.0.1\") {}", people.list());
    let (run, first) = people.ask(&server, &message);
    assert_eq!((run["steps"].as_array().map(Vec::len), &first["tool"]), (Some(1), &json!("deploy")));
    assert_eq!(grant(&server, &people.ben, &first).status, 200);
    let mut open = Value::Null;
    until("the second is asked", || {
        open = server.get(&people.ben, "/approvals?state=pending").json()["items"].clone();
        open.as_array().map(Vec::len) == Some(1) && open[0]["id"] != first["id"]
    });
    assert_eq!((people.state(&server, &first), &open[0]["tool"]), (json!("spent"), &json!("list_dir")));
    assert_eq!(grant(&server, &people.ben, &open[0]).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!((&ended["status"], ended["steps"].as_array().map(Vec::len)), (&json!("done"), Some(2)));
    assert_eq!(ended["steps"][1]["status"], "ok", "{ended}");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// More questions than a page holds: every one of them is on exactly one page, by HTTP, in the dashboard
/// and by the command line.
#[test]
fn a_long_list_is_read_page_by_page() {
    let people = People::new();
    let server = people.home.serve();
    for _ in 0..4 {
        people.ask(&server, &[people.list().as_str(); 32].join(" "));
    }
    let asked: Vec<Value> = people.home.entries(&["kind:approval.request"]);
    assert_eq!(asked.len(), 128);
    let walk = |query: &str| {
        let (mut ids, mut pages, mut next) = (Vec::new(), 0, String::new());
        loop {
            let page = server.get(&people.ben, &format!("/approvals?{query}{next}")).json();
            let items = page["items"].as_array().expect("items");
            ids.extend(items.iter().map(|item| item["ledger"].clone()));
            pages += 1;
            match page["next"].as_str() {
                Some(after) => next = format!("&after={after}"),
                None => break (ids, pages),
            }
        }
    };
    let seqs: Vec<Value> = asked.iter().map(|entry| entry["seq"].clone()).collect();
    assert_eq!(walk("state=pending"), (seqs.clone(), 2));
    assert_eq!(walk("state=pending&limit=50"), (seqs.clone(), 3));
    assert_eq!(walk("limit=128"), (seqs.clone(), 1), "a full last page leads nowhere");
    assert_eq!(walk("state=granted&limit=50"), (Vec::new(), 1));
    let listed = people.home.expect(0, &["approval", "list", "--json"]);
    assert_eq!(listed.lines().count(), 128);
    let (login, mut rows, mut next) = (log_in(&server, &people.ben), 0, String::new());
    loop {
        let page = text(&server.send("GET", &format!("/ui/approvals?state=pending{next}"), &login, b"").body);
        rows += page.matches("href=\"/ui/approvals/apr_").count();
        match page.split("&amp;after=").nth(1).and_then(|rest| rest.split('"').next()) {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    assert_eq!(rows, 128);
    assert_eq!(server.stop(), Some(0));
    let listed = people.home.expect(0, &["approval", "list", "--json"]);
    assert_eq!(listed.lines().count(), 128, "and without a server");
    people.verify();
}

#[test]
fn a_run_waits_through_a_restart() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    let server = people.home.serve();
    assert_eq!(server.get(&people.ben, "/approvals").json()["items"], json!([approval]));
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A changed rule, or a changed tool, is another question.
#[test]
fn a_change_of_policy_or_manifest_voids_the_question_and_asks_anew() {
    let people = People::new();
    let manifest = people.home.path("etc/tools.d/list_dir.toml");
    let policy = people.home.path("etc/policies/50-people.cedar");
    let mut server = people.home.serve();
    let (run, mut approval) = people.ask(&server, &people.list());
    for (file, find, put) in [
        (&policy, "@advice(\"ask", "@advice(\"please ask"),
        (&manifest, "wall_ms_max = 5000", "wall_ms_max = 4000"),
    ] {
        assert_eq!(server.stop(), Some(0));
        let before = std::fs::read_to_string(file).expect("file");
        assert!(before.contains(find), "{before}");
        std::fs::write(file, before.replacen(find, put, 1)).expect("file");
        server = people.home.serve();
        let mut asked = Vec::new();
        until("it is asked anew", || {
            asked = server.get(&people.ben, "/approvals?state=pending").json()["items"]
                .as_array()
                .expect("items")
                .clone();
            asked.len() == 1 && asked[0]["id"] != approval["id"]
        });
        check(&grant(&server, &people.ben, &approval), 409, "answered");
        let old =
            server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
        assert_eq!(old["state"], "void");
        assert_ne!(asked[0]["call_hash"], old["call_hash"]);
        let now = json!({ "id": asked[0]["id"], "call_hash": old["call_hash"] });
        check(&grant(&server, &people.ben, &now), 409, "wrong_call");
        approval = asked.remove(0);
    }
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!(
        (&ended["status"], ended["steps"].as_array().map(Vec::len)),
        (&json!("done"), Some(1)),
        "{ended}"
    );
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// What a changed `deploy.sh` would leave behind, had it run.
const OTHER_SCRIPT: &str = "printf '{}'; : >PWNED\n";

/// The script is edited while a question about it is open: whether nobody has answered, or somebody said yes
/// and the call did not begin, the new bytes never run under what was asked about the old ones.
#[test]
fn a_script_that_changes_between_question_and_run_is_asked_about_anew() {
    let people = People::new();
    let (script, left) = (people.home.path("etc/jobs.d/deploy.sh"), people.home.path("workspace/demo/PWNED"));
    let message = "deploy(project=\"demo\", version=\"1.0.1\")";
    let mut server = people.home.serve();
    let (run, unanswered) = people.ask(&server, message);
    assert_eq!(server.stop(), Some(0));
    std::fs::write(&script, OTHER_SCRIPT).expect("script");
    server = people.home.serve();
    let asked = people.asked_anew(&server, &unanswered);
    check(&grant(&server, &people.ben, &unanswered), 409, "answered");
    let old_yes = json!({ "id": asked["id"], "call_hash": unanswered["call_hash"] });
    check(&grant(&server, &people.ben, &old_yes), 409, "wrong_call");

    people.stop_tools(&server);
    assert_eq!(grant(&server, &people.ben, &asked).status, 200);
    server.kill();
    std::fs::write(&script, format!("{OTHER_SCRIPT}# and again\n")).expect("script");
    server = people.home.serve();
    let again = people.asked_anew(&server, &asked);
    assert_eq!(people.state(&server, &asked), "void", "the yes was to another script");
    assert!(!left.exists() && people.home.entries(&["kind:call.result"]).is_empty(), "it ran");
    let told = people.told(&run);
    assert!(!told.contains(&"call.decision allow".to_owned()), "{told:?}");

    // Without a restart: the server goes on with the bytes it read, and asks anew where it reads others.
    std::fs::write(&script, format!("{OTHER_SCRIPT}# a third time\n")).expect("script");
    assert_eq!(people.state(&server, &again), "pending");
    people.home.expect(0, &["reload"]);
    let last = people.asked_anew(&server, &again);
    check(&grant(&server, &people.ben, &again), 409, "answered");

    let no = json!({ "answer": "refuse", "call_hash": last["call_hash"] });
    assert_eq!(post(&server, &people.ben, &last, &no).status, 200);
    assert_eq!(people.ended(&server, &run)["steps"][0]["status"], "refused");
    assert!(!left.exists(), "it ran");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Who could say yes when it was asked, and may not any more.
#[test]
fn who_left_the_group_or_lost_the_key_says_nothing() {
    let people = People::new();
    let carl = key(&people.home, "carl", "approver", "carl");
    let server = people.home.serve();
    let (run, before) = people.ask(&server, &people.list());
    people.home.expect(0, &["key", "revoke", "carl"]);
    check(&grant(&server, &carl, &before), 401, "unauthenticated");
    assert_eq!(server.stop(), Some(0));
    let toml = std::fs::read_to_string(people.home.path("etc/par.toml")).expect("par.toml");
    people.home.configure(&toml.replace("\"ben\", ", ""));
    let second = key(&people.home, "carl-again", "approver", "carl");
    let server = people.home.serve();
    let asked = people.asked_anew(&server, &before);
    check(&grant(&server, &people.ben, &asked), 403, "not_in_group");
    check(&grant(&server, &people.ben, &before), 403, "not_in_group");
    assert_eq!(grant(&server, &second, &asked).status, 200, "another key of somebody who is in it");
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// One yes over HTTP and one through the admin socket at the same moment; and a late one without a server.
#[test]
fn two_ways_to_say_yes_count_once_and_a_late_one_not_at_all() {
    let people = People::with("[approvals]\nexpire_s = 5\n");
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let id = approval["id"].as_str().expect("id").to_owned();
    let (by_http, by_socket) = std::thread::scope(|scope| {
        let socket = scope.spawn(|| people.home.par(&["approval", "approve", &id, "--yes"]).status.code());
        (grant(&server, &people.ben, &approval).status, socket.join().expect("thread"))
    });
    assert!(matches!((by_http, by_socket), (200, Some(1)) | (409, Some(0))), "{by_http} {by_socket:?}");
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(people.home.entries(&["kind:approval.grant"]).len(), 1);
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1);

    let (_, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    std::thread::sleep(Duration::from_secs(5));
    let late = people.home.par(&["approval", "approve", approval["id"].as_str().expect("id"), "--yes"]);
    assert_eq!(late.status.code(), Some(1), "{}", text(&late.stderr));
    assert!(text(&late.stderr).contains("its time is over"), "{}", text(&late.stderr));
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1, "nothing more ran");
    people.verify();
}

/// The object is swapped between the question and the yes: what runs is what was shown, or nothing.
#[test]
fn another_object_under_the_same_name_is_asked_about_anew() {
    let people = People::new();
    let server = people.home.serve();
    let folder = people.home.path("workspace/inner");
    std::fs::create_dir(&folder).expect("folder");
    let (run, approval) = people.ask(&server, &format!("list_dir(path=\"{}\")", folder.display()));
    std::fs::rename(&folder, people.home.path("workspace/moved")).expect("moved");
    std::fs::create_dir(&folder).expect("folder");
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let mut asked = Vec::new();
    until("it is asked anew", || {
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

#[test]
fn a_run_whose_key_was_withdrawn_does_not_go_on() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    people.home.expect(0, &["key", "revoke", "asker"]);
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &run);
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert!(people.home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    let shown =
        server.get(&people.ben, &format!("/approvals/{}", approval["id"].as_str().expect("id"))).json();
    assert_eq!(shown["state"], "void");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Killed after the yes and before the decision that spends it: the next start goes on, once.
#[test]
fn a_yes_survives_a_crash() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    people.stop_tools(&server);
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    server.kill();
    let told = people.told(&run);
    assert_eq!(told.last().map(String::as_str), Some("approval.grant"), "{told:?}");
    let server = people.home.serve();
    let ended = people.ended(&server, &run);
    assert_eq!((&ended["status"], &ended["steps"][0]["status"]), (&json!("done"), &json!("ok")), "{ended}");
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1);
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// Killed while the approved call runs: it is recorded as interrupted, never run again, and the run ends.
#[test]
fn an_approved_call_that_a_crash_interrupted_does_not_run_twice() {
    let people = People::new();
    let tail = std::fs::read_to_string(people.home.path("etc/tools.d/tail_file.toml")).expect("manifest");
    let slow = tail
        .replace("name = \"tail_file\"", "name = \"follow\"")
        .replace("\"-n\", \"{lines}\"", "\"-n\", \"{lines}\", \"-f\"")
        .replace("wall_ms_max = 5000", "wall_ms_max = 20000");
    std::fs::write(people.home.path("etc/tools.d/follow.toml"), slow).expect("manifest");
    let ask = "@id(\"confirm-follow\")\n@require_confirm(\"\")\nforbid (principal, action == PAR::Action::\"follow\", \
               resource) unless { context.call.approved == \"confirmed\" };\n";
    std::fs::write(people.home.path("etc/policies/60-follow.cedar"), ask).expect("policy");
    let server = people.home.serve();
    let notes = people.home.path("workspace/notes");
    let (run, approval) = people.ask(&server, &format!("follow(path=\"{}\", lines=1)", notes.display()));
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let mut told = Vec::new();
    until("the call is let go", || {
        told = people.told(&run);
        told.contains(&"call.decision allow".to_owned())
    });
    if told.iter().any(|line| line.starts_with("call.result")) {
        eprintln!("skipped: programs cannot run here: {told:?}");
        return;
    }
    server.kill();
    let server = people.home.serve();
    let ended = people.ended(&server, &run);
    assert_eq!(
        (&ended["status"], &ended["steps"][0]["status"]),
        (&json!("done"), &json!("interrupted")),
        "{ended}"
    );
    let told = people.told(&run);
    assert_eq!(told.iter().filter(|line| *line == "call.decision allow").count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|line| line.starts_with("call.result")).count(), 1, "{told:?}");
    check(&grant(&server, &people.ben, &approval), 409, "answered");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// state.db of before the yes, put back: made anew from the ledger, and nothing is spent twice. A row
/// changed by hand is refused, and found by `verify`.
#[test]
fn an_older_state_db_spends_nothing_twice() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    assert_eq!(server.stop(), Some(0));
    let (state, kept) = (people.home.path("data/state.db"), people.home.path("data/kept"));
    std::fs::copy(&state, &kept).expect("copy");
    let server = people.home.serve();
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    assert_eq!(people.ended(&server, &run)["status"], "done");
    assert_eq!(server.stop(), Some(0));
    for beside in ["state.db-wal", "state.db-shm"] {
        let _absent = std::fs::remove_file(people.home.path("data").join(beside));
    }
    std::fs::rename(&kept, &state).expect("put back");
    let server = people.home.serve();
    check(&grant(&server, &people.ben, &approval), 409, "answered");
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1);
    people.verify();

    edit(&state, "UPDATE approval SET state = 'pending', answer_seq = NULL");
    edit(&state, "UPDATE run SET status = 'waiting'");
    check(&grant(&server, &people.ben, &approval), 500, "damaged");
    assert_eq!(server.stop(), Some(0));
    people.home.expect(5, &["audit", "verify"]);
    let server = people.home.serve();
    check(&grant(&server, &people.ben, &approval), 500, "damaged");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(people.home.entries(&["kind:call.result"]).len(), 1, "nothing ran again");
    assert_eq!(people.home.entries(&["kind:approval.grant"]).len(), 1);
}

#[expect(clippy::disallowed_methods, reason = "what somebody with an editor would do")]
fn edit(state: &std::path::Path, sql: &str) {
    let state = rusqlite::Connection::open(state).expect("state.db");
    state.execute(sql, []).expect(sql);
}

/// Whoever looks while a question is answered, spent and run sees one state or the next, and never damage.
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

/// By the command line: the question is shown whole, asked on a terminal only, and answered through the
/// admin socket.
#[test]
fn a_person_answers_by_the_command_line_beside_a_server() {
    let people = People::new();
    let home = &people.home;
    let server = home.serve();
    let asked = home.command(&["run", &people.list()]).env("PAR_KEY", &people.asker).output().expect("par");
    assert_eq!(asked.status.code(), Some(4), "{}", text(&asked.stderr));
    let approvals = home.expect(0, &["approval", "list", "--json"]);
    let approval: Value = serde_json::from_str(approvals.trim()).expect("one");
    let id = approval["id"].as_str().expect("id");
    assert!(text(&asked.stderr).contains(&format!("par approval show {id}")), "{}", text(&asked.stderr));
    assert!(home.expect(0, &["approval", "list"]).contains(id));
    let shown = home.expect(0, &["approval", "show", id]);
    for part in ["list_dir", "release-list policies/50-people.cedar:2", "ask somebody", "[\"release\"]"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(approval["call_hash"].as_str().expect("hash")), "{shown}");
    let unasked = home.par(&["approval", "approve", id]);
    assert_eq!(unasked.status.code(), Some(2), "no terminal to ask on: {}", text(&unasked.stderr));
    let said = home.expect(0, &["approval", "approve", id, "--yes", "--reason", "seen"]);
    assert!(said.contains(&format!("{id} granted")), "{said}");
    assert_eq!(people.ended(&server, &approval)["status"], "done");
    assert_eq!(home.par(&["approval", "deny", id]).status.code(), Some(1), "answered");
    assert_eq!(home.par(&["approval", "show", "apr_01JD0000000000000000000000"]).status.code(), Some(1));
    assert_eq!(home.par(&["approval", "show", "x"]).status.code(), Some(2));
    assert_eq!(home.entries(&["kind:approval.grant"])[0]["principal"], os_user());

    let (run, approval) = people.ask(&server, &people.list());
    home.expect(0, &["approval", "deny", approval["id"].as_str().expect("id"), "--reason", "no"]);
    assert_eq!(people.ended(&server, &run)["steps"][0]["status"], "refused");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// A person alone, without a server: one's own confirmation, and no approval of one's own.
#[test]
fn a_lone_person_confirms_at_the_terminal_and_the_run_goes_on_there() {
    let people = People::new();
    let home = &people.home;
    home.expect(4, &["run", &people.read()]);
    let one = |home: &TestHome| -> Value {
        serde_json::from_str(home.expect(0, &["approval", "list", "--json"]).trim()).expect("one")
    };
    let approval = one(home);
    assert_eq!((&approval["confirm"], &approval["groups"]), (&json!(true), &json!([])));
    let done =
        home.expect(0, &["approval", "approve", approval["id"].as_str().expect("id"), "--yes", "--json"]);
    let reply: Value = serde_json::from_str(done.trim()).expect("reply");
    assert_eq!((&reply["status"], &reply["run"]), (&json!("done"), &approval["run"]), "{reply}");
    assert_eq!(home.expect(0, &["approval", "list", "--json"]), "");
    assert_eq!(home.expect(0, &["approval", "list", "--all", "--json"]).lines().count(), 1);

    home.expect(4, &["tool", "call", "list_dir", &json!({ "path": home.path("workspace/box") }).to_string()]);
    let approval = one(home);
    let own = home.par(&["approval", "approve", approval["id"].as_str().expect("id"), "--yes"]);
    assert_eq!(own.status.code(), Some(3), "{}", text(&own.stderr));
    assert!(text(&own.stderr).contains("who asked cannot approve"), "{}", text(&own.stderr));
    // Another user, of the group, once a server runs; the call of one's own ends as it would have.
    let server = home.serve();
    assert_eq!(grant(&server, &people.ben, &approval).status, 200);
    let ended = people.ended(&server, &approval);
    assert_eq!((&ended["status"], &ended["steps"][0]["status"]), (&json!("done"), &json!("ok")), "{ended}");
    assert_eq!(server.stop(), Some(0));
    people.verify();
}

/// The deployment that is shipped: asked by one, approved by another, done, and told.
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

/// Who approves needs no home and no seat at the host: a key and the server's address.
#[test]
fn an_approver_answers_by_address_with_a_key() {
    let people = People::new();
    let server = people.home.serve();
    let url = format!("http://{}", server.address);
    let elsewhere = tempfile::tempdir().expect("folder");
    let par = |key: &str, args: &[&str]| {
        let mut command = crate::support::start(&crate::support::binary());
        command.env_clear().env("PAR_KEY", key).current_dir(elsewhere.path());
        let output = command.args(args).args(["--url", &url]).output().expect("par starts");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (reply, question) = people.ask(&server, &people.list());
    let id = question["id"].as_str().expect("id");
    let (code, listed, why) = par(&people.ben, &["approval", "list"]);
    assert!(code == Some(0) && listed.contains(id), "{listed} {why}");
    let (code, _, why) = par(&people.asker, &["approval", "show", id]);
    assert!(code == Some(3) && why.contains("forbidden"), "who asked has no business here: {why}");
    let (code, _, why) = par(&people.asker, &["approval", "approve", id, "--yes"]);
    assert!(code == Some(3), "{why}");
    let (code, shown, why) = par(&people.ben, &["approval", "approve", id, "--yes", "--reason", "looked"]);
    assert!(code == Some(0) && shown.contains("list_dir") && shown.contains("granted"), "{shown} {why}");
    assert_eq!(people.ended(&server, &reply)["status"], "done");
    let (code, _, why) = par(&people.ben, &["approval", "deny", id]);
    assert!(code == Some(1) && why.contains("answered"), "{why}");
    people.verify();
}
