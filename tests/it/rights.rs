//! Files that only a group of the host may read: `par doctor` names them and what mends it, and
//! what it says works.

use crate::support::{TestHome, is_root};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// The group of the system's logs.
const ADM: u32 = 4;

/// A home whose logs are in a folder next to it, with a file as Debian makes it: 0640, root:adm.
fn home() -> (TestHome, PathBuf) {
    let home = TestHome::init();
    let logs = home.beside("log");
    std::fs::create_dir(&logs).expect("folder");
    let file = logs.join("access.log");
    std::fs::write(&file, "a line\n").expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("mode");
    chown(&file, Some(0), Some(ADM)).expect("given");
    std::fs::write(logs.join("open.log"), "open\n").expect("written");
    let toml = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    let here = format!("logs = \"{}\"", logs.display());
    home.configure(&toml.replace("logs = \"/var/log\"", &here));
    (home, file)
}

/// The lines of `par doctor` about rights: level and text.
fn rights(home: &TestHome) -> Vec<(String, String)> {
    let checks = text_of(home, &["doctor", "--quick", "--json"]);
    let checks = checks.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let word = |check: &Value, name: &str| check[name].as_str().expect("a word").to_owned();
    let about = checks.filter(|check| check["what"] == "unix rights");
    about.map(|check| (word(&check, "level"), word(&check, "found"))).collect()
}

fn text_of(home: &TestHome, args: &[&str]) -> String {
    crate::support::text(&home.par(args).stdout)
}

fn call(home: &TestHome, file: &Path) -> bool {
    let arguments = format!("{{\"path\":\"{}\"}}", file.display());
    text_of(home, &["tool", "call", "read_file", &arguments]).contains("a line")
}

/// A1: a granted file that the tools' user may not read is named, with the group and the line that
/// lets the tools read it. Once the line is there, they read it, and the record names the group.
#[test]
fn doctor_names_what_tools_may_not_read_and_what_mends_it() {
    if !is_root() {
        eprintln!("skipped: only root gives a file to a group");
        return;
    }
    let (home, file) = home();
    assert!(!call(&home, &file), "it was readable before");
    // What other tools may not read depends on the host.
    let found: Vec<_> = rights(&home).into_iter().filter(|(_, says)| says.contains("read_file")).collect();
    let [(level, says)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(level, "warn");
    let (name, line) = (file.display().to_string(), "groups = [\"adm\"]");
    assert!(says.contains(&name) && says.contains("(group adm)") && says.contains(line), "{says}");
    // Neither opens a file.
    for tool in ["list_dir", "largest_paths"] {
        assert!(!says.contains("open.log") && !says.contains(tool), "{says}");
    }
    let about = text_of(&home, &["doctor", "path", &name]);
    assert!(about.contains("may not read") && about.contains(line), "{about}");
    for tool in ["read_file", "search_files", "tail_file", "diff_files", "file_info"] {
        let manifest = home.path(&format!("etc/tools.d/{tool}.toml"));
        assert!(says.contains(tool), "{says}");
        let text = std::fs::read_to_string(&manifest).expect("manifest");
        std::fs::write(&manifest, text.replace("[sandbox]", &format!("[sandbox]\n{line}"))).expect("written");
    }
    assert!(!rights(&home).iter().any(|(_, says)| says.contains("read_file")), "{:?}", rights(&home));
    assert!(call(&home, &file), "with the group");
    let results = home.entries(&["kind:call.result", "status:ok"]);
    let seq = results.iter().filter_map(|entry| entry["seq"].as_u64()).max().expect("a result");
    let entry = home.entry(seq).to_string();
    assert!(entry.contains("\"groups\":[\"adm\"]") && !entry.contains("groups_shared"), "{entry}");
    let shown = text_of(&home, &["tool", "show", "read_file", "--json"]);
    assert!(shown.contains("\"groups\":[\"adm\"]"), "{shown}");
}
