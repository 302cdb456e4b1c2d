//! What a tool executes is under its manifest's digest, and only root or the owner of `etc/` can
//! change it (L10).

use crate::model::House;
use crate::support::TestHome;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PERMIT: &str = r#"@id("shout")
permit (principal in PAR::Role::"operator", action == PAR::Action::"shout", resource == PAR::Host::"localhost");
"#;

fn manifest(program: &Path) -> String {
    format!(
        r#"name = "shout"
summary = "Prints a word."
class = "read"
risk = "low"
command = ["{}", "hello"]
runtime = "dynamic"
untrusted_output = true
[resource]
type = "Host"
is = "localhost"
[sandbox]
[limits]
wall_ms_max = 5000
output_bytes_max = 65536
memory_bytes_max = 134217728
processes_max = 4
[input]
type = "object"
additionalProperties = false
"#,
        program.display()
    )
}

/// Adds the tool `shout`, with a program of its own next to the home.
fn add(home: &TestHome) -> PathBuf {
    let folder = home.beside("programs");
    std::fs::create_dir(&folder).expect("folder");
    let program = folder.join("shout");
    std::fs::copy("/usr/bin/echo", &program).expect("a program");
    mode(&program, 0o755);
    mode(&folder, 0o755);
    home.add("tools.d/shout.toml", &manifest(&program));
    home.add("policies/60-shout.cedar", PERMIT);
    program
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
}

/// Changes one bit of the byte `from_end` before the end. What lies there is not executed.
fn flip(program: &Path, from_end: usize) {
    let mut bytes = std::fs::read(program).expect("program");
    let at = bytes.len() - from_end;
    bytes[at] ^= 1;
    // Another file in its place, as a package manager writes it.
    let new = program.with_extension("new");
    std::fs::write(&new, &bytes).expect("written");
    mode(&new, 0o755);
    std::fs::rename(&new, program).expect("replaced");
}

fn digest(home: &TestHome) -> String {
    let shown: Value =
        serde_json::from_str(&home.expect(0, &["tool", "show", "shout", "--json"])).expect("JSON");
    shown["digest"].as_str().expect("digest").to_owned()
}

#[test]
fn any_byte_of_a_program_changes_the_digest_of_its_manifest() {
    let home = TestHome::init();
    let program = add(&home);
    let mut seen = vec![digest(&home)];
    for from_end in [1, 64, 4_096] {
        flip(&program, from_end);
        let now = digest(&home);
        assert!(!seen.contains(&now), "a changed byte, {from_end} before the end");
        flip(&program, from_end);
        assert_eq!(digest(&home), seen[0], "the byte as it was");
        seen.push(now);
    }
}

#[test]
fn a_program_that_changed_after_the_load_does_not_run_until_a_reload() {
    let mut program = PathBuf::new();
    let house = House::start(|home| program = add(home));
    let step = || house.calls(&[("shout", "{}".to_owned())]).remove(0);
    let first = step();
    assert_eq!((&first["decision"], &first["status"]), (&"allow".into(), &"ok".into()), "{first}");
    flip(&program, 1);
    let refused = step();
    assert_eq!((&refused["decision"], &refused["class"]), (&"deny".into(), &"host".into()), "{refused}");
    assert!(refused.to_string().contains("a program of the tool changed since it was loaded"), "{refused}");
    house.home.expect(0, &["reload"]);
    let again = step();
    assert_eq!(again["status"], "ok", "{again}");
    let decisions = house.home.entries(&["kind:call.decision", "tool:shout"]);
    let manifests: Vec<&Value> = decisions.iter().map(|entry| &entry["manifest"]).collect();
    assert_eq!(manifests[0], manifests[1]);
    assert_ne!(manifests[1], manifests[2], "what runs is on record");
    house.check_ledger();
}

#[test]
fn a_program_that_others_can_change_is_refused() {
    let home = TestHome::init();
    let program = add(&home);
    let call = |expect: &str| {
        let told = home.expect(3, &["tool", "call", "shout", "{}"]);
        assert!(told.contains(expect), "{told}");
    };
    home.expect(0, &["tool", "call", "shout", "{}"]);
    mode(&program, 0o775);
    call("is writable by others (mode 0775)");
    mode(&program, 0o755);
    let folder = program.parent().expect("folder");
    mode(folder, 0o777);
    call("is writable by others (mode 0777)");
    // With the sticky bit, others cannot replace what they do not own.
    mode(folder, 0o1777);
    home.expect(0, &["tool", "call", "shout", "{}"]);
}
