//! The README, followed word by word: in a fresh folder, with a search path of its own, in one
//! terminal and in two.

use super::{blocks, kinds};
use crate::quickstart::Tour;
use crate::support::{TestHome, binary, text};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const README: &str = include_str!("../../../README.md");

/// What the README writes where it leaves lines or the end of a line out.
const LEFT_OUT: &str = "…";

/// A remark that makes a command depend on a server. Without one, the command exits with 7.
const IF_A_SERVER_RUNS: &str = "# if a server is running";

/// Findings B3, B4: quickstart is stopped, and each further block works in the same terminal.
#[test]
fn the_readme_in_one_terminal() {
    let clone = Clone::new();
    let (code, rest) = clone.quickstart().interrupt();
    assert_eq!(code, Some(0), "{rest}");
    clone.walk(&[0, 7]);
}

/// Finding B3: each block works in a second terminal, next to the server of quickstart.
#[test]
fn the_readme_in_two_terminals() {
    let clone = Clone::new();
    let tour = clone.quickstart();
    clone.walk(&[0]);
    let (code, rest) = tour.interrupt();
    assert_eq!(code, Some(0), "{rest}");
}

/// The two commands at the top are the ones that CI runs, and no block is left out of the walk.
#[test]
fn each_block_of_the_readme_is_followed() {
    assert_eq!(blocks(README, "")[0], "cargo run -- quickstart\ncargo test\n");
    let ci = include_str!("../../../.ci/run");
    assert!(ci.contains("\ncargo test --locked\n"), "CI runs another test command");
    let others = kinds(README).into_iter().filter(|kind| !["sh", "console", "text", "toml"].contains(kind));
    // The commands at the top, and the drawing.
    assert_eq!(others.collect::<Vec<_>>(), ["", ""]);
    assert!(steps().len() >= 12, "the README has lost its commands");
}

/// The lines about a model are a configuration that loads.
#[test]
fn the_lines_about_a_model_load() {
    let home = TestHome::init();
    let shipped = std::fs::read_to_string(home.path("etc/par.toml")).expect("par.toml");
    for block in blocks(README, "toml") {
        let section = block.lines().next().expect("a section");
        let (before, rest) = shipped.split_once(&format!("{section}\n")).expect("a section of that name");
        let after = &rest[rest.find("\n[").expect("a section after it")..];
        home.configure(&format!("{before}{block}{after}"));
        home.expect(0, &["config", "check"]);
    }
}

/// A clone of the source after `cargo build`, as far as the README uses it.
struct Clone {
    folder: TempDir,
}

impl Clone {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("par-readme-").tempdir().expect("folder");
        let (at, open) = (folder.path(), std::fs::Permissions::from_mode(0o755));
        std::fs::set_permissions(at, open.clone()).expect("mode");
        std::fs::create_dir_all(at.join("target/debug")).expect("folder");
        std::fs::create_dir(at.join("bin")).expect("folder");
        for name in ["par", "par-launcher"] {
            let built = binary().with_file_name(name);
            symlink(built, at.join("target/debug").join(name)).expect("link");
        }
        let cargo =
            "#!/bin/sh\n[ \"$1 $2\" = 'run --' ] || exit 9\nshift 2\nexec ./target/debug/par \"$@\"\n";
        std::fs::write(at.join("bin/cargo"), cargo).expect("cargo");
        std::fs::set_permissions(at.join("bin/cargo"), open).expect("mode");
        Self { folder }
    }

    /// A terminal in this folder that runs `script`.
    fn terminal(&self, script: &str) -> Command {
        let at = self.folder.path();
        let path = [at.join("bin"), PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(at).env_clear().env("HOME", at);
        command.env("PATH", std::env::join_paths(path).expect("path")).stdin(Stdio::null());
        command
    }

    /// Runs the first command of the README, and compares what it prints with what the README
    /// shows.
    fn quickstart(&self) -> Tour {
        let commands = blocks(README, "").swap_remove(0);
        let tour =
            Tour::start(&mut self.terminal(&format!("exec {}", commands.lines().next().expect("a command"))));
        let shown = blocks(README, "text").swap_remove(0);
        let from = shown.lines().next().expect("a line");
        let at = tour.shown.find(from).unwrap_or_else(|| panic!("no `{from}` in: {}", tour.shown));
        compare("quickstart", &tour.shown[at..], &shown);
        tour
    }

    /// Runs every command after the first in one shell. A command that depends on a server exits
    /// with one of `with_server`.
    fn walk(&self, with_server: &[i32]) {
        let steps = steps();
        let mut script = String::new();
        for (number, step) in steps.iter().enumerate() {
            script.push_str(&format!("{}\nprintf '\\n@@ %s %s\\n' {number} $?\n", step.command));
        }
        let output = self.terminal(&script).output().expect("a shell");
        let (mut rest, told) = (text(&output.stdout), text(&output.stderr));
        for (number, step) in steps.iter().enumerate() {
            let end = format!("\n@@ {number} ");
            let at = rest.find(&end).unwrap_or_else(|| panic!("`{}` did not end: {told}", step.command));
            let (shown, after) = (rest[..at].to_owned(), rest[at + end.len()..].to_owned());
            let (code, after) = after.split_once('\n').expect("a line");
            let code: i32 = code.parse().expect("a code");
            let allowed: &[i32] = match &step.shows {
                None if step.command.contains(IF_A_SERVER_RUNS) => with_server,
                None => &[0],
                // A refusal and a call that waits are what the README wants to show.
                Some(_) => &[0, 3, 4],
            };
            assert!(allowed.contains(&code), "`{}` exits with {code}: {shown}\n{told}", step.command);
            if let Some(expect) = &step.shows {
                compare(&step.command, &shown, expect);
            }
            rest = after.to_owned();
        }
    }
}

/// A command of the README, and the output that the README shows for it.
struct WalkStep {
    command: String,
    shows: Option<String>,
}

/// The commands after the first, in order. A block marked `sh` is one command.
fn steps() -> Vec<WalkStep> {
    let mut steps: Vec<WalkStep> = Vec::new();
    let mut kind = None;
    for line in README.lines() {
        match (kind, line.strip_prefix("```")) {
            (None, Some(opened)) => {
                kind = Some(opened);
                if opened == "sh" {
                    steps.push(WalkStep { command: String::new(), shows: None });
                }
            }
            (Some(_), Some(_)) => kind = None,
            (Some("sh"), None) => {
                let command = &mut steps.last_mut().expect("a block").command;
                command.push_str(line);
                command.push('\n');
            }
            (Some("console"), None) => match line.strip_prefix("$ ") {
                Some(command) => steps.push(WalkStep { command: command.to_owned(), shows: None }),
                None => {
                    let shows = &mut steps.last_mut().expect("a command").shows;
                    let shows = shows.get_or_insert_default();
                    shows.push_str(line);
                    shows.push('\n');
                }
            },
            _ => {}
        }
    }
    steps
}

/// Fails unless `shown` has the lines of `expect` in order, except for what `expect` leaves out.
fn compare(what: &str, shown: &str, expect: &str) {
    let mut lines = shown.lines().filter(|line| !line.trim().is_empty());
    let mut left_out = false;
    for wanted in expect.lines().filter(|line| !line.trim().is_empty()) {
        if wanted == LEFT_OUT {
            left_out = true;
            continue;
        }
        let found = if left_out {
            lines.any(|line| has_shape(line, wanted))
        } else {
            lines.next().is_some_and(|line| has_shape(line, wanted))
        };
        assert!(found, "`{what}` does not print a line like\n  {wanted}\nbut\n{shown}");
        left_out = false;
    }
    let more: Vec<&str> = lines.collect();
    assert!(left_out || more.is_empty(), "`{what}` prints more than the README shows: {more:#?}");
}

fn has_shape(line: &str, wanted: &str) -> bool {
    match wanted.strip_suffix(LEFT_OUT) {
        Some(start) => shape(line).starts_with(&shape(start)),
        None => shape(line) == shape(wanted),
    }
}

/// The words of a line, without what differs between two machines: numbers, ids and digests, and
/// the state of this host.
fn shape(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(word).collect();
    match words.first() {
        Some(first) if first == "health_check:" => first.clone(),
        _ => words.join(" "),
    }
}

fn word(word: &str) -> String {
    if word.len() >= 12 && word.chars().all(|c| c.is_ascii_hexdigit()) {
        return "DIGEST".to_owned();
    }
    let mut shape = String::new();
    for c in word.chars() {
        if !c.is_ascii_digit() {
            shape.push(c);
        } else if !shape.ends_with('0') {
            shape.push('0');
        }
    }
    shape
}
