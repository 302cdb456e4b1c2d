//! Runs each target on stable for the time in `PAR_FUZZ_MS`.

use super::calls::top;
use super::driver::{corpus, drive};
use crate::ledger::borders::made_seeds;
use std::collections::BTreeSet;

macro_rules! targets {
    ($($name:ident)*) => {
        /// Every target.
        const ALL: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            drive(stringify!($name), super::$name);
        })*
    };
}

targets! {
    bus_reply certificate connect_head entry_header export host http_answer journal journal_lines json launcher_wire manifest note policy policy_tables
    proof_file provider_anthropic provider_openai provider_stream query run_request secrets tool_call
    url witness
}

/// Size limit of the kept corpus of all targets together.
const CORPUS_BYTES_MAX: usize = 200 << 10;

#[test]
fn each_target_is_one_of_cargo_fuzz_with_a_corpus_of_its_own() {
    let names = |folder: &str| -> BTreeSet<String> {
        let items = std::fs::read_dir(top().join(folder)).expect("a folder");
        items
            .map(|item| {
                item.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned()
            })
            .collect()
    };
    let all: BTreeSet<String> = ALL.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names("fuzz/fuzz_targets"), all);
    assert_eq!(names("fuzz/corpus"), all);
    let manifest = std::fs::read_to_string(top().join("fuzz/Cargo.toml")).expect("a manifest");
    let page = std::fs::read_to_string(top().join("docs/fuzzing.md")).expect("a page");
    for name in &all {
        assert!(
            manifest.contains(&format!("\nname = \"{name}\"\n")),
            "`{name}` is missing in fuzz/Cargo.toml"
        );
        assert!(page.contains(&format!("| `{name}` |")), "`{name}` is missing in docs/fuzzing.md");
        let text =
            std::fs::read_to_string(top().join(format!("fuzz/fuzz_targets/{name}.rs"))).expect("a target");
        assert!(
            text.contains(&format!("par::borders::{name}(bytes)")),
            "fuzz/fuzz_targets/{name}.rs runs another"
        );
    }
    let bytes: usize = all.iter().flat_map(|name| corpus(name)).map(|(_, input)| input.len()).sum();
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes are kept");
}

/// Some inputs must be signed, so only the code can make them. After a change of format,
/// `PAR_FUZZ_WRITE=1` writes them again.
#[test]
fn signed_inputs_are_what_the_code_writes() {
    let mut other = Vec::new();
    for (target, name, bytes) in made_seeds() {
        let path = top().join("fuzz/corpus").join(target).join(name);
        if std::fs::read(&path).ok().as_deref() != Some(&bytes) {
            if is_writing() {
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                std::fs::write(&path, &bytes).expect("written");
            } else {
                other.push(format!("fuzz/corpus/{target}/{name}"));
            }
        }
    }
    assert!(other.is_empty(), "written otherwise now (PAR_FUZZ_WRITE=1 keeps it): {}", other.join(", "));
}

#[expect(clippy::disallowed_methods, reason = "who runs the test asks for it")]
fn is_writing() -> bool {
    std::env::var_os("PAR_FUZZ_WRITE").is_some()
}
