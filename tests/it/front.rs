//! Tools that run in the front: `recall` and `who_was_denied`, under the shipped rules.

use crate::support::{TestHome, text};
use serde_json::{Value, json};

const NOT_FOUND: &str = "not permitted or not found";
const MARKER: &str = "orchid-4471";

fn call(home: &TestHome, tool: &str, arguments: &Value) -> Value {
    let output = home.par(&["--json", "tool", "call", tool, &arguments.to_string()]);
    let reply: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(&output.stdout), text(&output.stderr)));
    reply["steps"][0].clone()
}

/// A home whose workspace has a file with the marker, which was read: its path, and the entry of
/// the result.
fn read_once() -> (TestHome, String, u64) {
    let home = TestHome::init();
    let path = home.path("workspace/notes.txt").display().to_string();
    std::fs::write(&path, format!("the {MARKER} blooms\n{}", "line of text\n".repeat(900))).expect("written");
    let step = call(&home, "read_file", &json!({ "path": path }));
    assert_eq!(step["status"], "ok", "{step}");
    (home, path, step["ledger"]["result"].as_u64().expect("a number"))
}

fn error(step: &Value) -> &str {
    step["result"]["error"].as_str().unwrap_or_default()
}

/// No byte of the file is in the steps or on a path to them.
fn is_hidden(home: &TestHome, entry: u64) {
    let one = call(home, "recall", &json!({ "entry": entry }));
    assert_eq!(error(&one), NOT_FOUND, "{one}");
    let found = call(home, "recall", &json!({ "text": MARKER }));
    let hits = found["result"]["found"].as_array().expect("a list");
    let results: Vec<&Value> = hits.iter().filter(|hit| hit["kind"] != "run.request").collect();
    assert!(results.is_empty(), "{found}");
}

/// The rest of a result that a model saw only in part, piece by piece, with its labels (L1).
#[test]
fn an_entry_is_read_again_in_pieces() {
    let (home, _, entry) = read_once();
    let (mut whole, mut offset) = (String::new(), 0);
    let mut last = Value::Null;
    for _ in 0..100 {
        last = call(&home, "recall", &json!({ "entry": entry, "offset": offset, "limit": 3000 }));
        let part = last["result"]["text"].as_str().expect("text");
        assert!(part.len() <= 3000 && last["result"]["offset_bytes"] == offset, "{last}");
        whole += part;
        match last["result"]["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    let recorded = home.entry(entry)["payload"]["result"].to_string();
    assert_eq!(serde_json::from_str::<Value>(&whole).expect("JSON").to_string(), recorded);
    assert_eq!(last["result"]["total_bytes"], whole.len());
    let result = home.entry(last["ledger"]["result"].as_u64().expect("a number"));
    assert_eq!(result["payload"]["layers"], json!(["front"]), "{result}");
    assert_eq!(result["header"]["taint"], json!(["untrusted"]), "{result}");
    // Limits, and arguments that fit nothing.
    for (arguments, why) in [
        (json!({ "entry": entry, "offset": whole.len() + 1 }), "`offset` is not the beginning"),
        (json!({}), "give either `entry` or `text`"),
        (json!({ "entry": entry, "text": "x" }), "give either `entry` or `text`"),
        (json!({ "text": "--- :::" }), "`text` has no word"),
        (json!({ "entry": 9_000_000 }), NOT_FOUND),
        // The ledger's own entries, and a decision, are of no kind that is recalled.
        (json!({ "entry": 0 }), NOT_FOUND),
        (json!({ "entry": entry - 1 }), NOT_FOUND),
    ] {
        let step = call(&home, "recall", &arguments);
        assert!(error(&step).starts_with(why), "{arguments}: {step}");
        assert_eq!(step["status"], "error", "{step}");
    }
    home.expect(0, &["audit", "verify"]);
}

/// L2: what the rules forbid since, what was erased since, and what is a secret since is in no
/// result: not by its number, not by a search, and not by recalling an earlier recall.
#[test]
fn an_entry_is_shown_as_the_rules_of_now_permit() {
    let (home, path, entry) = read_once();
    let recalled = call(&home, "recall", &json!({ "entry": entry }));
    assert!(recalled.to_string().contains(MARKER), "{recalled}");
    let again = recalled["ledger"]["result"].as_u64().expect("a number");
    let run = home.expect(0, &["--json", "run", &format!("read_file(path=\"{path}\")")]);
    let run: Value = serde_json::from_str(&run).expect("JSON");
    let answer = run["ledger"]["last"].as_u64().expect("a number");
    let shown = call(&home, "recall", &json!({ "entry": answer }));
    assert!(shown.to_string().contains(MARKER), "the answer repeats the file: {shown}");
    let hits = call(&home, "recall", &json!({ "text": format!("{MARKER} blooms") }));
    let kinds: Vec<&str> = hits["result"]["found"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|hit| hit["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"call.result") && kinds.contains(&"run.reply"), "{hits}");

    // Forbidden since, by path.
    let rule = format!(
        "@id(\"no-notes\")\nforbid (principal, action in PAR::Action::\"read\", resource in PAR::Path::\"{path}\");\n"
    );
    home.add("policies/80-notes.cedar", &rule);
    for entry in [entry, again, answer] {
        is_hidden(&home, entry);
    }
    std::fs::remove_file(home.path("etc/policies/80-notes.cedar")).expect("removed");
    assert!(call(&home, "recall", &json!({ "entry": again })).to_string().contains(MARKER));

    // The tool is gone since.
    let (on, off) =
        (home.path("etc/tools.d/read_file.toml"), home.path("etc/tools.d/read_file.toml.disabled"));
    home.drop_cases();
    std::fs::rename(&on, &off).expect("renamed");
    is_hidden(&home, entry);
    is_hidden(&home, again);
    std::fs::rename(&off, &on).expect("renamed");

    // Erased since.
    home.expect(0, &["audit", "redact", "--reason", "a test asks for it", &entry.to_string()]);
    let step = call(&home, "recall", &json!({ "entry": entry }));
    assert_eq!(error(&step), format!("[erased, entry {entry}]"), "{step}");
    let step = call(&home, "recall", &json!({ "entry": again }));
    assert_eq!(error(&step), NOT_FOUND, "what repeats an erased entry is not shown: {step}");
}

/// L2: a value that is named as a secret only later is neither shown nor found.
#[test]
fn a_secret_that_is_named_later_is_not_recalled() {
    let (home, _, entry) = read_once();
    let secret = home.beside("orchid.secret");
    std::fs::write(&secret, MARKER).expect("written");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    home.configure(&format!(
        "[paths]\nlogs = \"/var/log\"\n[secrets]\norchid = \"file:{}\"\n",
        secret.display()
    ));
    let step = call(&home, "recall", &json!({ "entry": entry }));
    assert_eq!(step["status"], "ok", "{step}");
    assert!(!step.to_string().contains(MARKER) && step.to_string().contains("[secret:orchid"), "{step}");
    let found = call(&home, "recall", &json!({ "text": "orchid 4471" }));
    assert_eq!(found["result"]["found"], json!([]), "{found}");
}

/// Another key's run is as if it were not there; `who_was_denied` counts the caller's own calls,
/// and all calls for a caller who may read the audit.
#[test]
fn a_caller_recalls_own_runs_alone_and_counts_own_denials() {
    let home = TestHome::init();
    let path = home.path("workspace/notes.txt").display().to_string();
    std::fs::write(&path, format!("the {MARKER} blooms\n")).expect("written");
    let (ann, ben, all) =
        (home.key("ann", "operator"), home.key("ben", "operator"), home.key("eve", "admin"));
    let server = home.serve();
    let asked =
        server.run(&ann, &format!("read_file(path=\"{path}\") read_file(path=\"/etc/shadow\")")).json();
    let entry = asked["steps"][0]["ledger"]["result"].as_u64().expect("a number");
    for (key, is_own) in [(&ann, true), (&ben, false), (&all, false)] {
        let reply = server.run(key, &format!("recall(entry={entry}) recall(text=\"blooms\")")).json();
        let steps = &reply["steps"];
        assert_eq!(steps.to_string().contains(MARKER), is_own, "{reply}");
        assert_eq!(steps[1]["result"]["found"].as_array().is_some_and(|found| !found.is_empty()), is_own);
    }
    for _ in 0..2 {
        server.run(&ben, "no_such_tool(x=\"do as I say\")");
    }
    let denied = |key: &str| {
        let reply = server.run(key, "who_was_denied()").json();
        let step = reply["steps"][0].clone();
        assert_eq!(step["status"], "ok", "{reply}");
        let result = home.entry(step["ledger"]["result"].as_u64().expect("a number"));
        assert_eq!(result["header"]["taint"], json!([]), "counts are not a stranger's words: {result}");
        let rows = step["result"]["denied"].as_array().expect("a list").iter();
        let rows = rows.map(|row| json!([row["tool"], row["rules"], row["class"], row["calls"]]));
        (step["result"]["runs"].clone(), rows.collect::<Vec<_>>())
    };
    let shadow = json!(["read_file", ["par.outside"], "policy", 1]);
    let unknown = json!(["unknown", [], "schema", 2]);
    assert_eq!(denied(&ann), (json!("own"), vec![shadow.clone()]));
    assert_eq!(denied(&ben), (json!("own"), vec![unknown.clone()]));
    assert_eq!(denied(&all), (json!("all"), vec![unknown, shadow]));
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}
