//! What a model and a tool that were taken over try: a row for each of 126 attempts, with what came of it.
//!
//! Programs (`attempts/taken/`) make them as tools of PAR, through the real server; `golden/attempts.txt` is the
//! outcome, the same for root and for an ordinary user. What is to be held succeeds where nothing holds it: the
//! same program, run by the test itself, shows that first.

pub(crate) mod calls;
mod document;
mod paths;
pub(crate) mod stage;
pub(crate) mod table;

use crate::support::text;
use serde_json::Value;
use stage::{Outcome, SECRET, Stage};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use table::{By, Expect, ROWS};

/// A rehearsal: each attempt goes through where nothing holds it, so that one that is held was held by something.
#[test]
fn each_attempt_succeeds_where_nothing_holds() {
    let Some(stage) = Stage::start() else { return };
    let told = stage.unheld("free");
    println!("{told}");
    for folder in ["/tmp", "/dev/shm"] {
        std::fs::remove_file(Path::new(folder).join(&stage.listeners.hidden)).expect("made there");
    }
    let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.collect();
    assert!(lines.len() >= if crate::support::is_root() { 80 } else { 60 }, "{told}");
    for line in &lines {
        assert_eq!(line["outcome"], "SUCCEEDED", "{line}: it would be held by nothing that PAR does");
    }
}

/// The matrix: what came of each attempt, and how it was made.
#[test]
fn every_attempt_has_its_outcome() {
    let Some(stage) = Stage::start() else { return };
    let mut table = String::new();
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for row in ROWS {
        let outcome = outcome(&stage, &row.by, &mut named);
        let has_view = stage.layers.iter().any(|layer| layer.contains("view") || layer.starts_with("mount"));
        let (fits, shown) = match row.expect {
            Expect::Held => (outcome == Outcome::Held, "held"),
            Expect::HeldByView => ((outcome == Outcome::Held) == has_view, "held by a mount view alone"),
            Expect::Untested => (outcome == Outcome::NotApplicable, "not tested"),
        };
        if !fits {
            wrong.push(format!("{} {}: {outcome:?}, which is not `{shown}`", row.number, row.attempt));
        }
        writeln!(table, "{:>3}  {:<64} {shown:<27} {:<13} {}", row.number, row.attempt, row.layer, row.by)
            .expect("a row");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let forgotten: Vec<&str> = stage.made().filter(|made| !named.contains(*made)).collect();
    assert!(forgotten.is_empty(), "attempts of no row: {forgotten:?}");
    untouched(&stage);
    stage.house.check_ledger();
    assert!(!stage.house.all_that_was_told().contains(SECRET), "the secret was told");
    compare(&table);
}

#[test]
fn every_number_has_a_row() {
    let numbers: Vec<u32> = ROWS.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=126).collect::<Vec<_>>());
}

/// Tests that rows name are there.
#[test]
fn every_test_that_is_named_is_there() {
    if !is_source_there() {
        eprintln!("skipped: the source is not where this test was built");
        return;
    }
    for row in ROWS {
        if let By::Tests(names) = &row.by {
            names.iter().for_each(|name| assert!(is_test(name), "{}: there is no test {name}", row.number));
        }
    }
}

pub(crate) fn is_source_there() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs").is_file()
}

/// Whether `name`, a file with a function behind `::`, is there.
pub(crate) fn is_test(name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else { return false };
    let source =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default();
    // A scenario of the sandbox is no test by an attribute: one that nobody plays would be dead code.
    source.contains(&format!("fn {function}(")) && (file.contains("/tests/") || source.contains("test]"))
}

fn outcome(stage: &Stage, by: &By, named: &mut BTreeSet<&'static str>) -> Outcome {
    let mut found = Vec::new();
    match by {
        By::Program(names) => found.extend(made(stage, names, named)),
        By::Call(_, act) => found.push(act(stage)),
        By::Both(names, _, act) => {
            found.extend(made(stage, names, named));
            found.push(act(stage));
        }
        By::End(ends) => found.extend(ends.iter().map(|(what, status)| ended(stage, what, status))),
        // That they are there and pass is seen elsewhere.
        By::Tests(_) => found.push(Outcome::Held),
        By::Nothing(_) => found.push(Outcome::NotApplicable),
    }
    [Outcome::Succeeded, Outcome::Held]
        .into_iter()
        .find(|one| found.contains(one))
        .unwrap_or(Outcome::NotApplicable)
}

fn made<'a>(
    stage: &'a Stage,
    names: &'a [&'static str],
    named: &mut BTreeSet<&'static str>,
) -> impl Iterator<Item = Outcome> + 'a {
    named.extend(names);
    stage.found(names).into_iter().map(|(_, outcome)| outcome)
}

/// A program that does `what` ends as `status` says, and nothing of it is left.
fn ended(stage: &Stage, what: &str, status: &str) -> Outcome {
    let tool = match status {
        "timeout" => "taken_brief",
        "quota" => "taken_writer",
        _ => "taken_static",
    };
    let step = stage.taken(tool, what);
    if step["status"] == status { Outcome::Held } else { panic!("{what}: not {status}: {step}") }
}

/// What nobody was to change is as it was.
fn untouched(stage: &Stage) {
    let outside = stage.home().beside("outside");
    let names = std::fs::read_dir(&outside).expect("folder").map(|one| one.expect("entry").file_name());
    let names: BTreeSet<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let expect = ["gone", "lure", "moved", "secret", "socket"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expect));
    for (name, expect) in [("lure", "lure"), ("gone", "gone"), ("moved", "moved"), ("secret", SECRET)] {
        let bytes = std::fs::read(outside.join(name)).expect("file");
        assert_eq!(text(&bytes), expect);
    }
    for folder in ["/tmp", "/dev/shm"] {
        assert!(!Path::new(folder).join(&stage.listeners.hidden).exists(), "{folder}");
    }
}

fn compare(table: &str) {
    let golden = include_str!("golden/attempts.txt");
    if table != golden {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attempts.txt");
        // Where it cannot be written, the panic below tells it all.
        let _written = std::fs::write(&place, table);
        panic!("tests/it/golden/attempts.txt is not {}\n{table}", place.display());
    }
}
