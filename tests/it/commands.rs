//! The command line as a person meets it: what it says on an empty home, on a busy one, and about
//! words that were meant.

use crate::approval::{People, post};
use crate::support::{Server, TestHome, text, until};
use serde_json::{Value, json};
use std::io::Read as _;
use std::process::Stdio;

const LIST: &str = r#"list_dir(path="/var/log")"#;
const SHADOW: &str = r#"read_file(path="/etc/shadow")"#;

/// What a command writes to standard error, and its exit code.
fn told(home: &TestHome, environment: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String) {
    let output = home.command(args).envs(environment.iter().copied()).output().expect("par starts");
    (output.status.code(), text(&output.stderr))
}

/// C1: a row names the key and its user, and the object of a call, also of its result.
#[test]
fn entries_name_keys_users_and_objects() {
    let home = TestHome::init();
    let key = home.expect(0, &["key", "create", "ops-ci", "--role", "operator", "--user", "ben"]);
    let server = home.serve();
    server.run(key.trim(), LIST).json();
    assert_eq!(server.stop(), Some(0));
    let shown = home.expect(0, &["audit", "show"]);
    for words in ["ops-ci (ben)  list_dir /var/log", "allow read-logs"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // What a model wrote and no schema took is shown as it was written.
    let unfit = text(&home.par(&["tool", "call", "list_dir", r#"{"paht":"/"}"#]).stdout);
    assert!(unfit.starts_with(r#"✗ list_dir {"paht":"/"} "#), "{unfit}");
    let results = home.expect(0, &["audit", "show", "kind:call.result"]);
    assert!(results.contains("list_dir /var/log"), "{results}");
    let request = home.expect(0, &["audit", "show", "kind:run.request"]);
    assert!(request.contains(LIST), "{request}");
    assert!(!home.expect(0, &["audit", "show", "kind:key.create"]).contains("argon2"));
}

/// C1: who asked for an approval, and who answered it, by name.
#[test]
fn approvals_name_keys_and_users() {
    let people = People::new();
    let server = people.home.serve();
    let (run, approval) = people.ask(&server, &people.list());
    let id = approval["id"].as_str().expect("id");
    assert_eq!(approval["requester"]["who"], "asker (ana)", "{approval}");
    for args in [&["approval", "list"][..], &["approval", "show", id]] {
        let shown = people.home.expect(0, args);
        assert!(shown.contains("asker (ana)"), "{args:?}: {shown}");
    }
    let body = json!({ "answer": "refuse", "call_hash": approval["call_hash"], "reason": "not now" });
    assert_eq!(post(&server, &people.ben, &approval, &body).status, 200);
    people.ended(&server, &run);
    assert_eq!(server.stop(), Some(0));
    let run = run["run"].as_str().expect("run");
    for args in [&["approval", "show", id][..], &["runs", "show", run]] {
        let shown = people.home.expect(0, args);
        assert!(
            shown
                .lines()
                .any(|line| line.contains("ben") && line.contains("answer") || line.contains("by ben")),
            "{shown}"
        );
    }
}

/// `approvals.expire_s` and `@expires` must not outlive the payloads that an approval needs.
#[test]
fn an_approval_does_not_outlive_its_payloads() {
    let home = TestHome::init();
    home.configure("[paths]\nlogs = \"/var/log\"\n[ledger]\npayload_s_max = 800\n");
    let (code, said) = told(&home, &[], &["config", "check"]);
    let why = "`approvals.expire_s`: must be at most `ledger.payload_s_max`, 800";
    assert!(code == Some(2) && said.contains(why), "{said}");
    let short = "[approvals]\nexpire_s = 800\n[paths]\nlogs = \"/var/log\"\n[ledger]\npayload_s_max = 800\n";
    home.configure(short);
    home.expect(0, &["config", "check"]);
    home.add(
        "policies/50-long.cedar",
        "@id(\"long\")\n@require_confirm(\"\")\n@expires(\"8h\")\nforbid (principal, action == PAR::Action::\"list_dir\", \
         resource)\nunless { context.call.approved == \"confirmed\" };\n",
    );
    home.drop_cases();
    let (code, said) = told(&home, &[], &["config", "check"]);
    let why =
        "policies/50-long.cedar:1: the `@expires` of `long` is longer than `ledger.payload_s_max`, 800 s";
    assert!(code == Some(2) && said.contains(why), "{said}");
}

/// C2: one entry says what was decided by which rule at which line, and what is near it.
#[test]
fn an_entry_is_for_a_person_first() {
    let home = TestHome::init();
    home.expect(4, &["run", r#"deploy(project="demo", version="1.0.1")"#]);
    let seq = home.entries(&["kind:call.decision"])[0]["seq"].as_u64().expect("seq");
    let card = home.expect(0, &["audit", "show", &seq.to_string()]);
    for words in [
        &format!("entry {seq}: call.decision, 20"),
        "what       deploy demo",
        r#"arguments  {"project":"demo","version":"1.0.1"}"#,
        "outcome    needs_approval deploy-needs-release",
        "rule       deploy-needs-release, policies/20-deploy.cedar:20",
        &format!("same call  #{} approval.request", seq + 1),
        &format!("before     #{} model.reply", seq - 1),
        &format!("after      #{} run.reply", seq + 2),
        &format!("record     par audit show {seq} --json"),
    ] {
        assert!(card.contains(words), "{words}: {card}");
    }
    assert_eq!(home.entry(seq)["header"]["decision"], "needs_approval");
    // The same from a server, whose table has a head too.
    let viewer = home.key("viewer", "viewer");
    let server = home.serve();
    let url = format!("http://{}", server.address);
    let ask = |args: &[&str]| {
        let output = home.command(args).env("PAR_KEY", &viewer).env("PAR_URL", &url).output().expect("par");
        text(&output.stdout)
    };
    assert!(ask(&["audit", "show", &seq.to_string()]).contains("deploy-needs-release, policies/20-deploy"));
    let list = ask(&["audit", "show", "decision:needs_approval"]);
    assert!(list.starts_with("seq  time") && list.contains("deploy demo"), "{list}");
    // C1: with names, as from the files.
    let key = home.expect(0, &["key", "create", "ops-ci", "--role", "operator", "--user", "ben"]);
    server.run(key.trim(), LIST).json();
    let list = ask(&["audit", "show", "kind:run.request"]);
    assert!(list.contains("ops-ci (ben)") && !list.contains("key:"), "{list}");
    assert_eq!(server.stop(), Some(0));
}

/// B6: a home without a ledger says so, and one whose ledger is gone does not look new.
#[test]
fn a_fresh_home_says_that_nothing_is_recorded() {
    let home = TestHome::init();
    let nothing = "nothing is recorded yet";
    for (args, code) in [
        (&["audit", "show"][..], 0),
        (&["audit", "show", "decision:deny"], 0),
        (&["audit", "show", "7"], 1),
        (&["audit", "key"], 1),
        (&["policy", "explain", "7"], 1),
        (&["audit", "verify"], 1),
    ] {
        let (found, said) = told(&home, &[], args);
        assert_eq!(found, Some(code), "{args:?}: {said}");
        assert!(said.contains(nothing) && !said.contains("os error"), "{args:?}: {said}");
    }
    home.expect(0, &["run", LIST]);
    std::fs::remove_file(home.path("data/ledger.db")).expect("removed");
    for args in [&["audit", "show"][..], &["audit", "verify"]] {
        let output = home.par(args);
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(!said.contains(nothing), "{args:?}: {said}");
    }
}

/// B6: a key file that is not there is named.
#[test]
fn a_missing_key_file_is_named() {
    let home = TestHome::init();
    let environment = [("PAR_KEY_FILE", "nofile"), ("PAR_URL", "http://127.0.0.1:1")];
    let (code, said) = told(&home, &environment, &["run", LIST]);
    assert!(code == Some(6) && said.contains("PAR_KEY_FILE: nofile: No such file"), "{said}");
}

/// B7: a second server says at once who holds the home, and still waits for a restart.
#[test]
fn a_busy_home_is_reported_at_once() {
    let home = TestHome::init();
    let server = home.serve();
    let mut second = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut second = second.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("par starts");
    let mut stderr = second.stderr.take().expect("piped");
    let (mut said, mut chunk) = (Vec::new(), [0_u8; 4096]);
    while !text(&said).contains("waiting up to") {
        let read = stderr.read(&mut chunk).expect("output");
        assert!(read > 0, "it ended: {}", text(&said));
        said.extend_from_slice(&chunk[..read]);
    }
    assert!(text(&said).contains(&format!("url=http://{}", server.address)), "{}", text(&said));
    assert!(second.try_wait().expect("child").is_none(), "it waits");
    // At the same address it cannot wait: the reason is the other server, not the address.
    let (code, said_there) = told(&home, &[], &["serve", "--listen", &server.address]);
    assert!(code == Some(1) && said_there.contains("held by another process: pid="), "{said_there}");
    // Once the first has ended, the second serves.
    assert_eq!(server.stop(), Some(0));
    while !text(&said).contains("listening on") {
        let read = stderr.read(&mut chunk).expect("output");
        assert!(read > 0, "it ended: {}", text(&said));
        said.extend_from_slice(&chunk[..read]);
    }
    second.kill().expect("ended");
    second.wait().expect("ended");
}

/// A11: a home that a flag names wins over `PAR_URL`; without a server, the key is not blamed.
#[test]
fn a_named_home_wins_over_a_url_of_the_environment() {
    let home = TestHome::init();
    let nowhere = [("PAR_URL", "http://127.0.0.1:1")];
    let root = home.root().display().to_string();
    let (code, said) = told(&home, &nowhere, &["--home", &root, "run", LIST]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = told(&home, &nowhere, &["--home", &root, "approval", "list"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = told(&home, &nowhere, &["run", LIST]);
    assert!(code == Some(7) && said.contains("no server answers at http://127.0.0.1:1"), "{said}");
    let (code, said) = told(&home, &[nowhere[0], ("PAR_KEY", "par_x")], &["runs", "list"]);
    assert!(code == Some(7) && said.contains("no server answers at"), "{said}");
}

/// C6: log lines are written only if they are asked for.
#[test]
fn a_command_writes_no_log_lines() {
    let home = TestHome::init();
    let (_, said) = told(&home, &[], &["run", LIST]);
    assert!(!said.contains("INFO"), "{said}");
    let (_, said) = told(&home, &[("PAR_LOG", "par=info")], &["run", LIST]);
    assert!(said.contains("INFO par::agent"), "{said}");
}

/// What `par runs` shows of a home with a denied run.
fn check_runs(ask: impl Fn(&[&str]) -> String) {
    let rows: Vec<Value> = ask(&["runs", "list", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let run = rows[0]["run"].as_str().expect("id");
    let list = ask(&["runs", "list", "--limit", "1"]);
    assert!(list.starts_with("run ") && list.contains(run) && list.contains(SHADOW), "{list}");
    assert_eq!(ask(&["runs", "list", "--status", "failed"]).lines().count(), 0);
    let shown = ask(&["runs", "show", run]);
    for words in [
        SHADOW,
        "read_file /etc/shadow",
        "deny",
        "par.outside",
        "replies of the model",
        "par audit show run:",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(ask(&["runs", "rerun", run]).contains("read_file /etc/shadow"));
    assert_eq!(ask(&["runs", "list", "--json"]).lines().count(), 3);
}

/// C3: runs are listed, shown and sent again, with and without a server.
#[test]
fn runs_are_listed_shown_and_sent_again() {
    let home = TestHome::init();
    home.expect(0, &["run", LIST]);
    home.par(&["run", SHADOW]);
    check_runs(|args| text(&home.par(args).stdout));
    let home = TestHome::init();
    let key = home.key("ops", "operator");
    let server: Server = home.serve();
    server.run(&key, LIST).json();
    server.run(&key, SHADOW).json();
    until("the index has both", || server.get(&key, "/runs?q=shadow").json()["items"][0].is_object());
    check_runs(|args| text(&home.command(args).env("PAR_KEY", &key).output().expect("par").stdout));
    assert_eq!(server.stop(), Some(0));
    let (code, said) = told(&home, &[], &["runs", "show", "run_1"]);
    assert!(code == Some(2) && said.contains("`par runs list` shows the ids"), "{said}");
}

/// C3, C10: a word that names a command is not sent to the model without `--`.
#[test]
fn words_that_were_meant_are_named() {
    let home = TestHome::init();
    for (args, code, expect) in [
        (&["run", "list"][..], 2, "did you mean `par runs list`?"),
        (&["run", "doctor"], 2, "did you mean `par doctor`?"),
        (&["run", "--", "doctor"], 0, "done"),
        (&["rnu"], 2, "par: unrecognized subcommand 'rnu'\n\n  tip: did you mean `par run`?\n\nUsage: par "),
        (&["exlpain"], 2, "tip: did you mean `par policy explain`?"),
        (&["explain"], 2, "tip: did you mean `par policy explain`?"),
        (&["policy", "exlpain"], 2, "tip: did you mean `par policy explain`?"),
        (&["audit", "shwo"], 2, "tip: did you mean `par audit show`?"),
        (&["lst_dir"], 2, "tip: did you mean `par tool call list_dir`?"),
        (&["policy", "explain", "raed_file"], 2, "`raed_file`, did you mean `read_file`? It is not a power"),
        (&["tool", "show", "lst_dir"], 1, "did you mean `list_dir`?"),
        (&["policy", "explain", "raed_file", "{}"], 2, "did you mean `read_file`?"),
        (&["audit", "show", "kind:call.decison"], 2, "did you mean `call.decision`?"),
    ] {
        let (found, said) = told(&home, &[], args);
        assert_eq!(found, Some(code), "{args:?}: {said}");
        assert!(said.contains(expect), "{args:?}: {said}");
        assert!(!said.contains("error:"), "errors begin with `par:`: {said}");
    }
    for (args, code, expect) in [
        (&["tool", "call", "raed_file"][..], 1, "no tool is named `raed_file`: did you mean `read_file`?"),
        (&["run", "lst_dir(/var/log)"], 0, "no tool is named `lst_dir`: did you mean `list_dir`?"),
    ] {
        let told = home.expect(code, args);
        assert!(told.contains(expect), "{args:?}: {told}");
    }
}

/// C10: a tool without arguments is explained without them.
#[test]
fn a_tool_without_arguments_is_explained() {
    let home = TestHome::init();
    let bare = home.expect(0, &["policy", "explain", "health_check"]);
    assert_eq!(bare, home.expect(0, &["policy", "explain", "health_check", "{}"]));
    let power = home.expect(0, &["policy", "explain", "run"]);
    assert!(power.contains("operators-run"), "{power}");
}

/// C10: a wrong key is explained to a person who typed a command, not to one who wrote a request.
#[test]
fn a_wrong_key_is_explained_for_the_command_line() {
    let home = TestHome::init();
    let server = home.serve();
    let url = format!("http://{}", server.address);
    let wrong = [("PAR_KEY", "par_wrong"), ("PAR_URL", &url)];
    let (code, said) = told(&home, &wrong, &["run", LIST]);
    assert!(code == Some(6) && said.contains("does not accept this key: set PAR_KEY"), "{said}");
    assert!(!said.contains("Authorization"), "{said}");
    assert_eq!(server.stop(), Some(0));
}

/// C10: `par man --dir` makes the folder, and each page has the sections that people look for.
#[test]
fn manual_pages_are_complete() {
    let home = TestHome::init();
    let dir = home.path("man/pages");
    home.expect(0, &["man", "--dir", &dir.display().to_string()]);
    for page in ["par.1", "par-audit-show.1", "par-runs-list.1", "par-serve.1"] {
        let page = std::fs::read_to_string(dir.join(page)).expect("page");
        for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES"] {
            let heads = [format!(".SH {section}\n"), format!(".SH \"{section}\"\n")];
            assert!(heads.iter().any(|head| page.contains(head.as_str())), "{section}: {page}");
        }
    }
    let show = std::fs::read_to_string(dir.join("par-audit-show.1")).expect("page");
    assert!(show.contains(".SH EXAMPLES\n") && show.contains("par audit show decision:deny"), "{show}");
    let help = home.expect(0, &["run", "--help"]);
    let own = help.find("--calls-max").expect("an option of its own");
    assert!(help.find("Global options:").expect("a heading") > own, "{help}");
}

/// The stranger's stumble 22: a fault hid those of other files. All files of the rules are checked
/// together: policies, labels, cases, and the form of policies even if a manifest is refused.
#[test]
fn all_faults_of_all_rule_files_are_reported_together() {
    let home = TestHome::init();
    home.add("policies/50-own.cedar", "permit (principal action, resource);\n");
    home.add("policies/60-own.cedar", "permit (principal in PAR::Role::\"oprator\", action, resource);\n");
    home.add("policies/entities.toml", "[path.\"var/log\"]\nlabels = [\"x\"]\n");
    std::fs::create_dir(home.path("etc/policies/tests")).expect("folder");
    home.add("policies/tests/50-own.toml", "[[case]]\nnam = \"x\"\n");
    let policies = [
        "policies/50-own.cedar:1: unexpected token `action`",
        "policies/60-own.cedar:1: the policy has no `@id",
        "policies/entities.toml:1: `var/log` is neither",
        "policies/tests/50-own.toml:2: ",
    ];
    let (code, said) = told(&home, &[], &["policy", "check"]);
    assert_eq!(code, Some(2), "{said}");
    for fault in policies.into_iter().chain(["policies/60-own.cedar:1: unknown role `oprator`"]) {
        assert!(said.contains(fault), "{fault}: {said}");
    }
    home.add("tools.d/list_dir.toml", "name = \"list_dir\"\n");
    let (_, said) = told(&home, &[], &["policy", "check"]);
    for fault in policies.into_iter().chain(["tools.d/list_dir.toml:1: "]) {
        assert!(said.contains(fault), "{fault}: {said}");
    }
}

/// What a person mistypes or asks for too early is answered with what would have worked.
#[test]
fn a_wrong_name_is_answered_with_the_right_one() {
    let home = TestHome::init();
    let fails = |args: &[&str], code: i32, expect: &str| {
        let output = home.par(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expect), "{args:?}: {said}");
    };
    fails(&["runs", "show", "latest"], 1, "there is no run yet");
    home.key("anna", "viewer");
    fails(&["key", "revoke", "ana"], 1, "did you mean `anna`?");
    home.expect(0, &["run", "health_check()"]);
    let latest = home.expect(0, &["runs", "show", "latest"]);
    assert!(latest.contains("health_check()"), "{latest}");
    fails(&["audit", "show", "key:nosuch"], 2, "unknown key `nosuch`; expected one of ");
    fails(&["runs", "list", "user:ana"], 2, "unknown user `ana`");
    fails(&["audit", "show", "tool:health_check", "decision:deny"], 0, "par: no entry matches");
    fails(&["runs", "list", "--status", "failed"], 0, "par: no run matches");
    fails(&["approval", "list"], 0, "par: no call waits for approval");
    let copy = home.path("copy");
    home.expect(0, &["backup", copy.to_str().expect("a path")]);
    fails(&["backup", copy.to_str().expect("a path")], 1, "exists already, and a backup never changes one");
}

/// A refusal that no rule made leads to no rule, and one without a permit to the command that
/// writes it.
#[test]
fn a_card_leads_only_to_what_can_be_explained() {
    let home = TestHome::init();
    home.par(&["run", "read_file(nosuch=1)"]);
    home.par(&["run", "deploy(project=\"shop\", version=\"1\")"]);
    let decided = home.entries(&["kind:call.decision"]);
    let card = |at: usize| home.expect(0, &["audit", "show", &decided[at]["seq"].to_string()]);
    assert!(!card(0).contains("par policy explain"), "{}", card(0));
    let nothing = home.par(&["policy", "explain", &decided[0]["seq"].to_string()]);
    assert!(text(&nothing.stderr).contains("no rule decided entry"), "{}", text(&nothing.stderr));
    assert!(card(1).contains("par policy explain"), "{}", card(1));
    let why = text(&home.par(&["policy", "explain", &decided[1]["seq"].to_string()]).stdout);
    assert!(why.contains("--may deploy --on project:shop"), "{why}");
    let outside = text(&home.par(&["policy", "explain", "read_file", "{\"path\":\"/etc/shadow\"}"]).stdout);
    assert!(
        outside.contains("no rule lifts this") && outside.contains("par doctor path /etc/shadow"),
        "{outside}"
    );
    assert!(!outside.contains("nearest to a permit"), "{outside}");
}

/// The stranger's stumble 29: without a server the column of calls was empty.
#[test]
fn a_list_of_runs_counts_their_calls_without_a_server_too() {
    let home = TestHome::init();
    home.expect(0, &["run", "list_dir(/var/log); read_file(/etc/shadow)"]);
    home.expect(4, &["run", r#"deploy(project="demo", version="1.0.1")"#]);
    let rows: Vec<serde_json::Value> = home
        .expect(0, &["runs", "list", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let counts: Vec<_> = rows.iter().map(|row| (row["calls"].as_u64(), row["denied"].as_u64())).collect();
    assert_eq!(counts, [(Some(1), Some(0)), (Some(2), Some(1))]);
    assert_eq!(rows[1]["tools"], serde_json::json!(["list_dir", "read_file"]));
    // A search takes them from the index: both count alike.
    let found = home.expect(0, &["runs", "list", "shadow", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(found.trim()).expect("JSON"), rows[1]);
}

/// The stranger's stumble 10: next to a server, the owner of the home saw only own runs. The admin
/// socket shows the runs of all users; it still runs nothing.
#[test]
fn the_owner_of_a_home_sees_the_runs_of_all_users_beside_its_server() {
    let home = TestHome::init();
    home.expect(0, &["run", "list_dir(/var/log)"]);
    let key = home.expect(0, &["key", "create", "olga", "--role", "operator", "--user", "olga"]);
    let server = home.serve();
    let run =
        server.run(key.trim(), "read_file(/etc/shadow)").json()["run"].as_str().expect("run").to_owned();
    let listed = home.par(&["runs", "list"]);
    let (shown, note) = (text(&listed.stdout), text(&listed.stderr));
    assert!(shown.contains(&run) && shown.lines().count() == 3 && note.is_empty(), "{shown}{note}");
    let found = home.expect(0, &["runs", "list", "key:olga", "--json"]);
    assert!(found.lines().count() == 1 && found.contains(&run), "{found}");
    let card = home.expect(0, &["runs", "show", &run]);
    assert!(card.contains("olga") && card.contains("read_file"), "{card}");
    let wrong = home.par(&["runs", "list", "kind:nonsense"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    let gone = home.par(&["runs", "show", "run_01JD0000000000000000000000"]);
    assert!(gone.status.code() == Some(1) && text(&gone.stderr).contains("no run has this id"), "{gone:?}");
}
