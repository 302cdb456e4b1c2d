//! Entries are exported to a file that proves itself, and the ledger records who exported them.

use crate::support::{TestHome, binary, start, text, until};
use serde_json::{Value, json};

fn asked(home: &TestHome) {
    for message in [r#"read_file(path="/etc/shadow")"#, "health_check()"] {
        let _run = home.par(&["run", message]);
    }
}

#[test]
fn an_export_of_the_command_line_is_checked_elsewhere() {
    let home = TestHome::init();
    asked(&home);
    let file = home.beside("denied.jsonl");
    let path = file.to_str().expect("path");
    home.expect(0, &["audit", "export", "--out", path, "decision:deny"]);
    let key = home.expect(0, &["audit", "key"]);
    // Elsewhere: no home, only the program and the key.
    let verify = |args: &[&str]| {
        let mut command = start(&binary());
        command.env_clear().args(["audit", "verify", "--export"]).args(args).output().expect("par starts")
    };
    let told = verify(&[path, "--key", key.trim(), "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(
        (&told["entries"], &told["payloads"], &told["is_all"]),
        (&json!(1), &json!(1), &json!(false)),
        "{told}"
    );
    let said = text(&verify(&[path]).stdout);
    assert!(said.contains("no proof shows what is left out") && said.contains(key.trim()), "{said}");
    let kept = std::fs::read_to_string(&file).expect("the export");
    std::fs::write(&file, kept.replace("\\\"decision\\\":\\\"deny\\\"", "\\\"decision\\\":\\\"okay\\\""))
        .expect("edited");
    let refused = verify(&[path, "--key", key.trim()]);
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused.stderr));
    assert_eq!(
        home.par(&["audit", "export", "--out", path]).status.code(),
        Some(1),
        "a file that is there stays"
    );

    let all = home.expect(0, &["audit", "export"]);
    std::fs::write(&file, &all).expect("written");
    let told = verify(&[path, "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!((&told["is_all"], &told["entries"]), (&json!(true), &told["size"]), "{told}");
    let recorded = home.entries(&["kind:export"]);
    assert_eq!(recorded.len(), 2);
    let first = home.entry(recorded[0]["seq"].as_u64().expect("seq"));
    assert_eq!(first["payload"]["query"], "decision:deny");
    assert_eq!((&first["payload"]["format"], &first["payload"]["entries"]), (&json!("jsonl"), &json!(1)));
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn a_server_exports_for_permitted_users_and_records_it() {
    let home = TestHome::init();
    asked(&home);
    let (viewer, approver) = (home.key("viewer", "viewer"), home.key("approver", "approver"));
    let server = home.serve();
    assert_eq!(server.get(&approver, "/audit/export").status, 403);
    assert_eq!(server.get(&viewer, "/audit/export?format=xml").status, 422);
    assert_eq!(server.get(&viewer, "/audit/export?q=colour:red").status, 422);
    assert!(home.entries(&["kind:export"]).is_empty());
    let told = server.get(&viewer, "/audit/export?q=kind:call.*");
    assert!(told.status == 200 && told.head.contains("attachment"), "{}", told.head);
    let file = home.beside("served.jsonl");
    std::fs::write(&file, &told.body).expect("written");
    let path = file.to_str().expect("path");
    home.expect(0, &["audit", "verify", "--export", path, "--key", home.expect(0, &["audit", "key"]).trim()]);
    let table = text(&server.get(&viewer, "/audit/export?q=kind:call.*&format=csv").body);
    assert!(table.starts_with("seq,time,kind,"), "{table}");
    // Through the admin socket: the server records it, and the client reads the files.
    let table = home.expect(0, &["audit", "export", "--format", "csv", "kind:run.request"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    let recorded = home.entries(&["kind:export"]);
    assert_eq!(recorded.len(), 3);
    let power =
        |at: usize| home.entry(recorded[at]["seq"].as_u64().expect("seq"))["payload"]["power"].clone();
    assert_eq!(power(0)["name"], "export");
    assert_eq!(power(2)["request"]["context"]["via"], "socket");
    // The index follows meanwhile, and reports its position.
    until("the index has followed", || {
        let page = server.get(&viewer, "/audit?q=tool:read_file").json();
        page["index"]["covered"].as_u64() >= Some(10)
    });
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
    home.expect(0, &["policy", "replay"]);
    let told: Value =
        serde_json::from_str(&home.expect(0, &["audit", "index", "--rebuild", "--json"])).expect("JSON");
    assert_eq!(told["unsound"], json!([]), "{told}");
}
