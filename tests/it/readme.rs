//! Runs the commands that the documents show.

#![expect(clippy::disallowed_methods, reason = "tests start a shell for what people type in one")]

mod walk;

use crate::support::{TestHome, binary, copy_folder, text};
use std::path::Path;
use std::process::{Command, Stdio};

const POLICY: &str = include_str!("../../docs/policy.md");

/// The guide to tools: its worked example is a tool that works.
#[test]
fn the_guide_to_tools_runs() {
    let blocks = blocks(include_str!("../../docs/tools.md"), "sh");
    assert!(blocks.len() >= 2, "the guide has lost its blocks");
    let home = TestHome::init();
    for block in blocks {
        run(&home, &block);
    }
}

/// The guide to reading the ledger.
#[test]
fn the_guide_to_the_audit_runs() {
    let blocks = blocks(include_str!("../../docs/audit.md"), "sh");
    assert!(!blocks.is_empty(), "the guide has lost its blocks");
    let home = TestHome::init();
    let _denied = home.par(&["run", r#"read_file(path="/etc/shadow")"#]);
    for block in blocks {
        run(&home, &block);
    }
}

/// The page about what tools may connect to, after a run.
#[test]
fn the_page_about_the_network_runs() {
    let blocks = blocks(include_str!("../../docs/network.md"), "sh");
    assert!(!blocks.is_empty(), "the page has lost its blocks");
    let home = TestHome::init();
    home.expect(0, &["run", "how is this server doing?"]);
    for block in blocks {
        run(&home, &block);
    }
}

/// The guide to policy: its steps, in a separate folder instead of `/srv/shop`.
#[test]
fn the_guide_to_policy_runs() {
    let blocks = blocks(POLICY, "sh");
    assert!(blocks.len() >= 9, "the guide has lost its steps");
    let home = TestHome::init();
    let shop = home.beside("shop").display().to_string();
    for block in blocks {
        run_in(&home, &block.replace("/srv/shop", &shop), &home.root(), &[]);
    }
}

/// Each rule that the guide shows loads, or is refused with the message that the guide gives.
#[test]
fn the_guide_to_policy_shows_what_is_refused_and_how() {
    let home = TestHome::init();
    let mut lines = POLICY.lines().peekable();
    let mut counts = [0, 0];
    while let Some(line) = lines.next() {
        if line != "```cedar" {
            continue;
        }
        let mut body = || -> String {
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect()
        };
        home.add("policies/50-mine.cedar", &body());
        let refused = lines.next_if_eq(&"```refused").is_some().then(|| {
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect::<String>()
        });
        let checked = home.par(&["policy", "check"]);
        let (code, told) = (checked.status.code(), text(&checked.stderr));
        match refused {
            Some(words) => assert_eq!((code, told), (Some(2), format!("par: {words}"))),
            None => assert_eq!(code, Some(0), "{told}"),
        }
        counts[usize::from(code == Some(2))] += 1;
    }
    assert!(counts[0] >= 2 && counts[1] >= 12, "the guide has lost its rules: {counts:?}");
}

/// The blocks about scripts, in order, against a server.
#[test]
fn scripts_run() {
    run_against_a_server(include_str!("../../docs/scripts.md"), 8);
}

/// The page about HTTP.
#[test]
fn the_page_about_http_runs() {
    run_against_a_server(include_str!("../../docs/http.md"), 9);
}

/// The page about approvals: a person who asks, and another one who answers.
#[test]
fn the_page_about_approvals_runs() {
    run_against_a_server(include_str!("../../docs/approvals.md"), 6);
}

/// Runs every block of `document`, of which there are at least `blocks_min`, on a fresh home with a
/// server.
fn run_against_a_server(document: &str, blocks_min: usize) {
    for tool in ["curl", "python3"] {
        let is_there = Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
        if !is_there {
            eprintln!("skipped: {tool} is not there");
            return;
        }
    }
    let blocks = blocks(document, "sh");
    assert!(blocks.len() >= blocks_min, "the document has lost its blocks");
    let home = TestHome::init();
    let server = home.serve();
    let folder = tempfile::tempdir().expect("folder");
    let url = format!("http://{}", server.address);
    for block in blocks {
        run_in(&home, &block, folder.path(), &[("PAR_URL", &url)]);
    }
}

/// The block that installs into a folder; the rest of that document needs root.
#[test]
fn installing_runs() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !source.join("install.sh").is_file() {
        eprintln!("skipped: the source is not where this test was built");
        return;
    }
    let blocks = blocks(include_str!("../../docs/install.md"), "sh");
    assert!(!blocks.is_empty(), "the document has lost its blocks");
    let home = TestHome::empty();
    let folder = tempfile::tempdir().expect("folder");
    let copy = folder.path().join("source");
    copy_folder(&source.join("systemd"), &copy.join("systemd"));
    std::fs::copy(source.join("install.sh"), copy.join("install.sh")).expect("install.sh");
    for name in ["par", "par-launcher"] {
        std::os::unix::fs::symlink(binary().with_file_name(name), copy.join(name)).expect("link");
    }
    let look = folder.path().join("look").display().to_string();
    for block in blocks {
        run_in(&home, &block.replace("/tmp/par-look", &look), &copy, &[]);
    }
}

fn run(home: &TestHome, block: &str) {
    // Blocks write here, and `par` keeps its client files here.
    let folder = tempfile::tempdir().expect("folder");
    run_in(home, block, folder.path(), &[]);
}

pub(crate) fn run_in(home: &TestHome, block: &str, folder: &Path, environment: &[(&str, &str)]) {
    let place = tempfile::tempdir().expect("folder");
    std::os::unix::fs::symlink(binary(), place.path().join("par")).expect("link");
    let path = format!("{}:/usr/bin:/bin", place.path().display());
    let output = Command::new("/bin/sh")
        .args(["-eu", "-c", block])
        .env_clear()
        .env("PATH", path)
        .env("PAR_HOME", home.root())
        .env("HOME", folder)
        .envs(environment.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    assert!(
        output.status.success(),
        "{block}\nstdout: {}\nstderr: {}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// The fenced blocks of a document with this info string.
pub(crate) fn blocks(document: &str, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: String =
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        if kind == word {
            found.push(body);
        }
    }
    found
}

/// The info strings of the fenced blocks of a document, in order.
fn kinds(document: &str) -> Vec<&str> {
    let fences = document.lines().filter_map(|line| line.strip_prefix("```"));
    fences.step_by(2).collect()
}
