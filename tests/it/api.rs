//! The HTTP API of the real server: who may do what, what cannot be read, and what the ledger
//! records.

use crate::support::{Answer, Server, TestHome, text};
use serde_json::{Value, json};

const KIND: &str = "Content-Type: application/json\r\n";

/// A problem of this status and code, as RFC 9457 specifies, that reveals nothing internal.
fn check_problem(answer: &Answer, status: u16, code: &str, what: &str) {
    let body = text(&answer.body);
    assert_eq!(answer.status, status, "{what}: {body}");
    assert!(
        answer.head.to_lowercase().contains("content-type: application/problem+json"),
        "{what}: {}",
        answer.head
    );
    let problem = answer.json();
    assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{what}: {body}");
    assert!(problem["request_id"].is_string() && problem["detail"].is_string(), "{what}: {body}");
    for inside in ["src/", "serde", "panicked", ".rs:", "axum"] {
        assert!(!body.contains(inside), "{what}: {body}");
    }
}

/// The key with its character at `at` changed.
fn changed(key: &str, at: usize) -> String {
    let other = if key.as_bytes()[at] == b'a' { "b" } else { "a" };
    format!("{}{other}{}", &key[..at], &key[at + 1..])
}

#[test]
fn invalid_keys_are_all_refused_the_same() {
    let home = TestHome::init();
    let key = home.key("good", "operator");
    let revoked = home.key("revoked", "operator");
    home.expect(0, &["key", "revoke", "revoked"]);
    let short = home.expect(0, &["key", "create", "short", "--role", "operator", "--expires", "1m"]);
    let server = home.serve();
    assert_eq!(server.get(&key, "/tools").status, 200);
    assert_eq!(server.get(short.trim(), "/tools").status, 200);
    assert_eq!(server.send("GET", "/tools", &format!("X-API-Key: {key}\r\n"), b"").status, 200);
    let bearer = |key: &str| format!("Authorization: Bearer {key}\r\n");
    let first = server.send("GET", "/tools", "", b"").json()["detail"].clone();
    // At most nine: ten refusals a minute are answered, then the status is 429.
    for (what, headers) in [
        ("no key", String::new()),
        ("an empty one", bearer("")),
        ("a word", bearer("secret")),
        ("another scheme", "Authorization: Basic cGFyOnBhcg==\r\n".to_owned()),
        ("a wrong secret", bearer(&changed(&key, 20))),
        ("a wrong id", bearer(&changed(&key, 5))),
        ("a wrong last character", bearer(&changed(&key, key.len() - 1))),
        ("a revoked one", bearer(&revoked)),
        ("not ASCII", bearer("par_\u{e9}")),
    ] {
        let answer = server.send("GET", "/tools", &headers, b"");
        check_problem(&answer, 401, "unauthenticated", what);
        assert_eq!(answer.json()["detail"], first, "{what}: all refusals read alike");
        assert!(answer.head.to_lowercase().contains("www-authenticate: bearer"), "{what}");
    }
    let both = format!("{}X-API-Key: {revoked}\r\n", bearer(&key));
    check_problem(&server.send("GET", "/tools", &both, b""), 400, "malformed", "two keys");
    assert_eq!(server.get(&key, "/tools").status, 200, "a remembered key is not held up by others' refusals");
}

#[test]
fn a_revoked_key_ends_at_once_and_a_new_one_works_at_once() {
    let home = TestHome::init();
    let key = home.key("first", "operator");
    let server = home.serve();
    assert_eq!(server.run(&key, "health_check()").status, 200);
    home.expect(0, &["key", "revoke", "first"]);
    check_problem(&server.run(&key, "health_check()"), 401, "unauthenticated", "revoked");
    let next = home.key("second", "operator");
    assert_eq!(server.run(&next, "health_check()").status, 200);
    let listed = home.expect(0, &["key", "list", "--json"]);
    assert!(!listed.contains(&next) && !listed.contains("argon2"), "{listed}");
    assert_eq!(home.entries(&["kind:key.revoke"]).len(), 1);
}

/// What each role may request, row by row: run, tools, list of entries, one entry, health.
#[test]
fn roles_hold_what_the_table_says() {
    let home = TestHome::init();
    let roles = ["viewer", "operator", "approver", "admin"];
    let keys: Vec<String> = roles.iter().map(|role| home.key(role, role)).collect();
    let server = home.serve();
    let mut table = String::new();
    for (role, key) in roles.iter().zip(&keys) {
        let run = server.run(key, "health_check()");
        if run.status != 200 {
            check_problem(&run, 403, "forbidden", role);
        }
        let gets = ["/tools", "/audit/entries", "/audit/entries/0", "/health"]
            .map(|path| server.get(key, path).status);
        table.push_str(&format!("{role} run {} get {gets:?}\n", run.status));
    }
    assert_eq!(table, include_str!("golden/roles.txt"));
    assert_eq!(home.entries(&["kind:run.request"]).len(), 2, "a forbidden request is not a run");
    for path in ["/livez", "/readyz"] {
        assert_eq!(server.send("GET", path, "", b"").status, 200);
    }
}

#[test]
fn a_run_is_readable_by_its_owner_and_by_readers_of_the_audit() {
    let home = TestHome::init();
    let (mine, other) = (home.key("mine", "operator"), home.key("other", "operator"));
    let viewer = home.key("viewer", "viewer");
    let server = home.serve();
    let reply = server.run(&mine, "health_check() read_file(path=\"/etc/shadow\")").json();
    let path = format!("/runs/{}", reply["run"].as_str().expect("run"));
    for key in [&mine, &viewer] {
        let found = server.get(key, &path);
        assert_eq!(found.status, 200);
        assert_eq!((&found.json()["steps"], &found.json()["status"]), (&reply["steps"], &reply["status"]));
    }
    let not_mine = server.get(&other, &path);
    check_problem(&not_mine, 404, "not_found", "another's run");
    let absent = server.get(&other, "/runs/run_01JD0000000000000000000000");
    assert_eq!(absent.json()["detail"], not_mine.json()["detail"], "another's reads like none");
    check_problem(&server.get(&mine, "/runs/x"), 404, "not_found", "no identifier");
    check_steps(&server, &viewer, &reply);
}

/// Each step's ledger numbers identify entries that explain it.
fn check_steps(server: &Server, viewer: &str, reply: &Value) {
    let steps = reply["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2);
    for step in steps {
        let entry = |seq: &Value| server.get(viewer, &format!("/audit/entries/{seq}")).json();
        let decision = entry(&step["ledger"]["decision"]);
        let header = &decision["header"];
        assert_eq!((&header["kind"], &header["call"]), (&json!("call.decision"), &step["call"]));
        assert_eq!((&header["decision"], &header["tool"]), (&step["decision"], &step["tool"]));
        let asked = &decision["payload"]["request"];
        assert!(
            asked["principal"].is_object() || asked["principal"].is_string(),
            "the Cedar request: {decision}"
        );
        if step["decision"] == "allow" {
            let result = entry(&step["ledger"]["result"]);
            assert_eq!(
                (&result["header"]["kind"], &result["header"]["ref"]),
                (&json!("call.result"), &header["seq"])
            );
            assert_eq!(result["payload"]["result"], step["result"]);
        } else {
            assert!(step["ledger"].get("result").is_none());
        }
    }
}

#[test]
fn bodies_that_cannot_be_read_are_refused_and_run_nothing() {
    let home = TestHome::init();
    let key = home.key("body", "operator");
    let server = home.serve();
    let mut big = br#"{"message":""#.to_vec();
    big.resize(10 << 20, b'a');
    big.extend_from_slice(br#""}"#);
    let deep = format!(r#"{{"message":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for (what, body, status, code) in [
        ("10 MB", &big[..], 413, "too_large"),
        ("deep", deep.as_bytes(), 400, "malformed"),
        ("nothing", b"", 400, "malformed"),
        ("half", br#"{"message":"#, 400, "malformed"),
        ("not UTF-8", b"{\"message\":\"\xff\"}", 400, "malformed"),
        ("half a surrogate", br#"{"message":"\ud800"}"#, 400, "malformed"),
        ("two members of one name", br#"{"message":"a","message":"b"}"#, 400, "malformed"),
        ("trailing text", br#"{"message":"a"} {}"#, 400, "malformed"),
        ("a raw NUL", b"{\"message\":\"\0\"}", 400, "malformed"),
        ("an escaped NUL", br#"{"message":"a\u0000b"}"#, 422, "unfit"),
        ("an empty message", br#"{"message":""}"#, 422, "unfit"),
        ("a blank message", br#"{"message":" \n "}"#, 422, "unfit"),
        ("no message", b"{}", 422, "unfit"),
        ("a list", b"[]", 422, "unfit"),
        ("a number", br#"{"message":7}"#, 422, "unfit"),
        ("an unknown member", br#"{"message":"a","shell":true}"#, 422, "unfit"),
        ("a session that is not there", br#"{"message":"a","session":"ses_1"}"#, 404, "not_found"),
        ("a background run", br#"{"message":"a","background":true}"#, 422, "unfit"),
        ("a dry run", br#"{"message":"a","dry_run":true}"#, 422, "unfit"),
        ("no calls", br#"{"message":"a","limits":{"calls_max":0}}"#, 422, "unfit"),
        ("too many calls", br#"{"message":"a","limits":{"calls_max":33}}"#, 422, "unfit"),
        ("half a call", br#"{"message":"a","limits":{"calls_max":1.5}}"#, 422, "unfit"),
    ] {
        check_problem(&server.post(&key, body), status, code, what);
    }
    let bearer = format!("Authorization: Bearer {key}\r\n");
    let ask = |method: &str, path: &str, headers: &str| {
        server.send(method, path, &format!("{bearer}{headers}"), br#"{"message":"a"}"#)
    };
    check_problem(&ask("POST", "/agent/run", ""), 415, "wrong_type", "no type");
    check_problem(&ask("POST", "/agent/run", "Content-Type: text/plain\r\n"), 415, "wrong_type", "text");
    check_problem(&ask("GET", "/agent/run", KIND), 405, "wrong_method", "GET");
    check_problem(&ask("DELETE", "/runs/run_1", KIND), 405, "wrong_method", "DELETE");
    check_problem(&ask("GET", "/nothing", KIND), 404, "not_found", "no route");
    check_problem(&ask("POST", "/agent/run/../../admin", KIND), 404, "not_found", "dots");
    assert!(home.entries(&["kind:run.request"]).is_empty(), "nothing was run");
    assert_eq!(server.run(&key, "health_check()").json()["status"], "done");
}

#[test]
fn the_ledger_is_read_in_pages_and_by_words() {
    let home = TestHome::init();
    let (key, viewer) = (home.key("pages", "operator"), home.key("viewer", "viewer"));
    let server = home.serve();
    for _ in 0..3 {
        server.run(&key, "health_check()");
    }
    let page = |query: &str| server.get(&viewer, &format!("/audit/entries?{query}"));
    let all: Vec<Value> = page("limit=1000").json()["items"].as_array().expect("items").clone();
    let numbers: Vec<u64> = all.iter().filter_map(|e| e["seq"].as_u64()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let (mut walked, mut after) = (Vec::new(), String::new());
    loop {
        let part = page(&format!("limit=4{after}")).json();
        walked.extend(part["items"].as_array().expect("items").iter().cloned());
        let Some(next) = part["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(walked, all);
    let mut back: Vec<Value> =
        page("order=desc&limit=1000").json()["items"].as_array().expect("items").clone();
    back.reverse();
    assert_eq!(back, all);
    let decisions = page("q=kind:call.decision%20decision:allow%20tool:health_*").json();
    assert_eq!(decisions["items"].as_array().map(Vec::len), Some(3));
    let others = page("q=-kind:call.decision%20since:1h&limit=1000").json();
    assert_eq!(others["items"].as_array().map(Vec::len), Some(all.len() - 3));
    let said = page("q=%22health%20check%22%20kind:run.request").json();
    assert_eq!(said["items"].as_array().map(Vec::len), Some(3), "in the message: {said}");
    let first = server.get(&viewer, "/audit?q=tool:*%20%22health%20check%22&limit=2");
    let link = first.head.lines().find_map(|line| line.strip_prefix("link: <")).expect("a link on");
    let next = link.split_once(">; rel=\"next\"").expect("to the next").0;
    let (first, next) = (first.json(), server.get(&viewer, next).json());
    assert!(next["items"][0]["seq"].as_u64() > first["items"][1]["seq"].as_u64(), "{first} {next}");
    for query in [
        "limit=0",
        "limit=1001",
        "after=x",
        "order=up",
        "q=-",
        "q=%22open",
        "q=since:yesterday",
        "q=colour:red",
        "x=1",
        "limit=1&limit=2",
    ] {
        check_problem(&page(query), 422, "unfit", query);
    }
    for path in ["/audit/entries/999999", "/audit/entries/x", "/audit/entries/-1"] {
        check_problem(&server.get(&viewer, path), 404, "not_found", path);
    }
    let made = server.get(&viewer, "/audit/entries?q=kind:key.create").json()["items"][0]["seq"].clone();
    let shown = server.get(&viewer, &format!("/audit/entries/{made}")).json();
    assert_eq!((&shown["payload_state"], &shown["payload"]), (&json!("withheld"), &Value::Null));
}

#[test]
fn health_tools_and_readiness_are_reported() {
    let home = TestHome::init();
    let key = home.key("health", "operator");
    let server = home.serve();
    let word = |path| text(&server.send("GET", path, "", b"").body);
    assert_eq!(word("/livez"), "live\n");
    assert!(word("/readyz").starts_with("ready\nledger: "), "{}", word("/readyz"));
    let health = server.get(&home.key("viewer", "viewer"), "/health").json();
    assert_eq!((&health["status"], &health["ready"]), (&json!("ok"), &json!(true)), "{health}");
    check_problem(&server.send("GET", "/health", "", b""), 401, "unauthenticated", "no key");
    let tools = server.get(&key, "/tools").json();
    let names: Vec<&str> =
        tools["items"].as_array().expect("items").iter().filter_map(|t| t["name"].as_str()).collect();
    let all = [
        "certificate_file",
        "connections",
        "cron_list",
        "deploy",
        "diff_files",
        "disk_io",
        "disk_usage",
        "dns_lookup",
        "failed_units",
        "file_info",
        "health_check",
        "http_probe",
        "interfaces",
        "largest_paths",
        "list_dir",
        "listening_ports",
        "memory_usage",
        "pending_updates",
        "process_info",
        "process_list",
        "read_config",
        "read_file",
        "recall",
        "search_files",
        "service_list",
        "service_status",
        "tail_file",
        "tcp_probe",
        "timer_list",
        "tls_certificate",
        "who_was_denied",
    ];
    assert_eq!(names, all);
    assert!(
        tools["items"].as_array().expect("items").iter().all(|t| t["input"]["additionalProperties"] == false)
    );
}

#[test]
fn a_call_that_needs_a_person_waits_and_runs_nothing() {
    let home = TestHome::init();
    home.add(
        "policies/50-ask.cedar",
        r#"@id("ask-first")
@require_confirm("")
forbid (principal, action in [PAR::Action::"health_check", PAR::Action::"list_dir"], resource)
unless { context.call.approved == "confirmed" || context.call.approved == "approved" };
"#,
    );
    let (key, viewer) = (home.key("asks", "operator"), home.key("viewer", "viewer"));
    let server = home.serve();
    let answer = server.run(&key, "health_check()");
    assert_eq!(answer.status, 202, "{}", text(&answer.body));
    let reply = answer.json();
    let location = format!("location: /runs/{}", reply["run"].as_str().expect("run"));
    assert!(answer.head.to_lowercase().contains(&location.to_lowercase()), "{}", answer.head);
    let step = &reply["steps"][0];
    let is = (&reply["status"], &step["decision"], &step["status"]);
    assert_eq!(is, (&json!("waiting"), &json!("needs_approval"), &json!("waiting")));
    assert_eq!(step["policies"], json!(["ask-first"]));
    assert!(home.entries(&["kind:call.result"]).is_empty(), "nothing ran");
    let asked = home.entries(&["kind:approval.request"]);
    assert_eq!((asked.len(), &asked[0]["ref"]), (1, &step["ledger"]["decision"]));
    let found = server.get(&viewer, &format!("/runs/{}", reply["run"].as_str().expect("run")));
    assert_eq!((found.status, &found.json()["status"]), (200, &json!("waiting")));
    assert_eq!(server.stop(), Some(0));
    // One question is open for an object: the next call is refused, with the approval's id.
    let run = home.par(&["run", "health_check()"]);
    let approval = step["result"]["approval"].as_str().expect("approval");
    assert!(text(&run.stdout).contains(&format!("already asked: {approval}")), "{}", text(&run.stdout));
    // Its card says so once.
    let denied = home.entries(&["status:asked"]);
    let card = home.expect(0, &["audit", "show", &denied[0]["seq"].to_string()]);
    assert!(card.contains("already asked: apr_") && !card.contains("\n  errors "), "{card}");
    let run = home.par(&["run", "list_dir(path=\"/var/log\")"]);
    assert_eq!(run.status.code(), Some(4), "{}", text(&run.stderr));
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_policy_that_errs_denies_what_it_was_asked_about() {
    let home = TestHome::init();
    home.add(
        "policies/50-sum.cedar",
        r#"@id("sum")
forbid (principal, action == PAR::Action::"read_file", resource)
when { context.input has limit
       && context.call.now.offset(duration("9223372036854775807ms")) > context.call.now };
"#,
    );
    std::fs::write(home.path("workspace/a.txt"), "a").expect("file");
    let key = home.key("sum", "operator");
    let server = home.serve();
    let file = home.path("workspace/a.txt").display().to_string();
    for (arguments, decision) in [(String::new(), "allow"), (", limit=7".to_owned(), "deny")] {
        let reply = server.run(&key, &format!("read_file(path=\"{file}\"{arguments})")).json();
        assert_eq!(reply["steps"][0]["decision"], decision, "{reply}");
    }
    let denied = &home.entries(&["kind:call.decision decision:deny"])[0];
    let payload = home.entry(denied["seq"].as_u64().expect("seq"))["payload"].to_string();
    assert!(payload.contains("overflow"), "the cause is on the ledger: {payload}");
}
