//! A search below a folder of which a part is excluded, from the command line: what comes out, what is recorded,
//! and what a person is shown who is asked.

use crate::forge::forge;
use crate::replay::{copy, replay};
use crate::support::{TestHome, text};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A home with a labelled folder in its workspace.
fn home_with_a_secret() -> (TestHome, PathBuf) {
    let home = TestHome::init();
    for folder in ["workspace/demo/secret", "workspace/demo/open"] {
        std::fs::create_dir_all(home.path(folder)).expect("made");
    }
    std::fs::write(home.path("workspace/demo/secret/s"), "MARK-secret\n").expect("written");
    std::fs::write(home.path("workspace/demo/open/o"), "MARK-open\n").expect("written");
    let labels = home.path("etc/policies/entities.toml");
    let secret = home.path("workspace/demo/secret").canonicalize().expect("real");
    let mut text_of = std::fs::read_to_string(&labels).expect("labels");
    text_of.push_str(&format!("\n[path.{:?}]\nlabels = [\"secret\"]\n", secret.to_str().expect("UTF-8")));
    std::fs::write(&labels, text_of).expect("labels");
    (home, secret)
}

/// What a search leaves out follows from its record too.
#[test]
fn exclusions_that_were_edited_are_found() {
    let (home, secret) = home_with_a_secret();
    let arguments = json!({ "path": home.path("workspace/demo"), "pattern": "MARK" }).to_string();
    let reply: Value =
        serde_json::from_str(&home.expect(0, &["tool", "call", "search_files", &arguments, "--json"]))
            .expect("JSON");
    let result = &reply["steps"][0]["result"];
    assert_eq!(result["matches"][0]["text"], "MARK-open", "{reply}");
    assert_eq!((result["matches"].as_array().map(Vec::len), &result["excluded"]), (Some(1), &json!(1)));
    assert!(!reply.to_string().contains("secret"), "{reply}");
    let seq = home.entries(&["kind:call.decision"])[0]["seq"].as_u64().expect("seq");
    let payload = home.entry(seq)["payload"].clone();
    assert_eq!(payload["exclusions"][0]["canonical"], json!(secret), "{payload}");
    assert_eq!(payload["beneath"][1]["policies"], json!(["no-secrets"]), "{payload}");
    assert_eq!(replay(&home, 0, &[])["as_recorded"], 1);

    type Change<'a> = &'a dyn Fn(&mut Value);
    let left_out = "as left out below the object is not what the rules leave out";
    let changes: [(&str, Change<'_>); 6] = [
        (left_out, &|payload| payload["exclusions"] = json!([])),
        (left_out, &|payload| payload["exclusions"][0]["ino"] = json!("1")),
        (left_out, &|payload| payload["beneath"] = json!([])),
        ("recorded `allow` of", &|payload| {
            payload["beneath"][1]["decision"] = json!("allow");
            payload["exclusions"] = json!([]);
        }),
        ("the rules say `deny`", &|payload| payload["beneath"][1]["policies"] = json!(["no-login-records"])),
        ("cannot be read", &|payload| payload["beneath"][1]["entities"] = json!(7)),
    ];
    for (what, change) in changes {
        let copy = copy(&home);
        forge(&copy, seq, |_, payload| change(payload));
        let told = replay(&copy, 5, &[]);
        let found = told["differences"][0]["what"].as_str().expect("a difference");
        assert!(found.contains(what), "{what}: {told}");
    }
}

/// Who is asked is told what is left out also with a yes.
#[test]
fn who_is_asked_sees_what_is_left_out() {
    let (home, secret) = home_with_a_secret();
    home.add(
        "policies/50-ask.cedar",
        "@id(\"ask-first\")\n@require_confirm(\"\")\nforbid (principal, action == PAR::Action::\"search_files\", resource)\n\
         unless { context.call.approved == \"confirmed\" || context.call.approved == \"approved\" };\n",
    );
    let arguments = json!({ "path": home.path("workspace/demo"), "pattern": "MARK" }).to_string();
    home.expect(4, &["tool", "call", "search_files", &arguments]);
    let asked = home.entries(&["kind:approval.request"])[0]["seq"].as_u64().expect("seq");
    let payload = home.entry(asked)["payload"].clone();
    assert_eq!(payload["resource"]["exclusions"][0]["canonical"], json!(secret), "{payload}");
    let shown = home.par(&["approval", "show", payload["id"].as_str().expect("id")]);
    assert!(
        text(&shown.stdout).contains(&format!("leaves out {}", secret.display())),
        "{}",
        text(&shown.stdout)
    );
}
