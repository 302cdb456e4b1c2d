//! Published lists of path traversal strings, through every tool that takes a name from the model.
//! The lists are in a folder next to the project, which is not part of it.

use crate::model::House;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The lists about paths.
const LISTS: [&str; 5] = [
    "patt-deep_traversal.txt",
    "patt-directory_traversal.txt",
    "patt-LFI-FD-check.txt",
    "patt-Linux-files.txt",
    "fuzzdb-NullByteRepresentations.txt",
];
const PERMIT: &str = r#"
@id("deploy") permit (principal in PAR::Role::"operator", action == PAR::Action::"deploy", resource);
"#;
/// Calls in one run.
const CALLS: usize = 30;

/// The strings, each once; `None` with a message if this machine has none. With
/// `PAR_REQUIRE_SHARED=1` they must be there.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment what to require")]
fn strings() -> Option<BTreeSet<String>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/corpora");
    let lists: Option<Vec<Vec<u8>>> =
        LISTS.iter().map(|list| std::fs::read(folder.join(list)).ok()).collect();
    let Some(lists) = lists else {
        let is_required = std::env::var_os("PAR_REQUIRE_SHARED").is_some_and(|value| value == "1");
        assert!(!is_required, "{} is missing, and PAR_REQUIRE_SHARED is set", folder.display());
        eprintln!("NOT CHECKED: {} is missing", folder.display());
        return None;
    };
    let all = lists.iter().flat_map(|list| list.split(|byte| *byte == b'\n'));
    let all =
        all.map(|line| String::from_utf8_lossy(line).trim_end_matches('\r').replace("{FILE}", "etc/passwd"));
    Some(all.filter(|line| !line.is_empty()).collect())
}

/// As they are to `read_file`, below the workspace to `list_dir`, as a version to `deploy`. The
/// control is a file that can be read.
#[test]
fn published_strings_lead_nowhere() {
    let Some(strings) = strings() else { return };
    assert!(strings.len() > 900, "{}", strings.len());
    let house = House::start(|home| {
        std::fs::write(home.path("workspace/plain"), "plain").expect("file");
        // No approval is required: what holds here is not a person.
        home.add("policies/20-deploy.cedar", PERMIT);
        std::fs::remove_file(home.path("etc/policies/40-taint.cedar")).expect("removed");
    });
    let work = house.home.path("workspace").display().to_string();
    let control = json!({ "path": format!("{work}/plain") }).to_string();
    assert_eq!(house.calls(&[("read_file", control)])[0]["result"]["text"], "plain");

    let read = |string: &String| ("read_file", json!({ "path": string }).to_string());
    let list = |string: &String| ("list_dir", json!({ "path": format!("{work}/{string}") }).to_string());
    let deploy = |string: &String| ("deploy", json!({ "project": "demo", "version": string }).to_string());
    let calls: Vec<(&str, String)> =
        strings.iter().map(read).chain(strings.iter().map(list)).chain(strings.iter().map(deploy)).collect();
    let mut wrong = Vec::new();
    for some in calls.chunks(CALLS) {
        for (call, step) in some.iter().zip(house.calls(some)) {
            if !leads_nowhere(call.0, &step) {
                wrong.push(format!("{call:?}: {step}"));
            }
        }
    }
    println!("{} strings, {} calls", strings.len(), calls.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!house.home.path("workspace/demo/current").exists(), "something was deployed");
    house.check_ledger();
}

/// Refused; or, for a string that is a plain name after all, an error that only says that it does
/// not exist.
fn leads_nowhere(tool: &str, step: &Value) -> bool {
    match step["status"].as_str() {
        Some("refused") => true,
        Some("error") if tool == "deploy" => {
            step["result"]["reason"].as_str().is_some_and(|reason| reason.starts_with("incoming/"))
        }
        Some("error") => step["result"]["error"] == "not permitted or not found",
        _ => false,
    }
}
