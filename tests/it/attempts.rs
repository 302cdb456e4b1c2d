//! What a hostile model and a hostile tool try: a row for each of 135 attempts, with its outcome.
//!
//! Programs (`attempts/taken/`) run as tools of PAR through the real server and make the attempts,
//! on each ground: with the rights of older versions of Landlock, without a mount view, without
//! namespaces. `golden/attempts.txt` is the outcome, the same for root and for an ordinary user. An
//! attempt that must be held succeeds if nothing holds it: the same program, run by the test
//! itself, shows that first.
//! test itself, shows that first.

pub(crate) mod calls;
mod document;
mod paths;
pub(crate) mod stage;
pub(crate) mod table;

use crate::support::text;
use serde_json::{Value, json};
use stage::{GROUNDS, Ground, Outcome, SECRET, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use table::{By, ROWS, Row};

/// A rehearsal: each attempt succeeds if nothing holds it, so an attempt that is held was held by a
/// protection.
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

/// The matrix: the outcome of each attempt on each ground, and how it was made.
#[test]
fn every_attempt_has_its_outcome() {
    let Some(mut stage) = Stage::start() else { return };
    if stage.loaded["missing"] != json!([]) {
        eprintln!("\nSKIPPED: this machine itself gives less: {}\n", stage.loaded["missing"]);
        return;
    }
    let mut columns: Vec<Column> = Vec::new();
    for ground in GROUNDS {
        if ground != Ground::Whole {
            stage.enter(ground);
        }
        columns.push(Column::fill(&mut stage));
    }
    // The other entry: the separate launcher binary holds no less.
    stage.enter_by_socket();
    columns[0].compare(&Column::fill(&mut stage));
    assert!(stage.launchers_started() > 0, "no `par-launcher` was started");
    stage.house.check_ledger();
    assert!(!stage.house.all_that_was_told().contains(SECRET), "the secret was told");
    compare(&(head(&columns) + "\n" + &body(&columns)), stage.abi());
}

/// All outcomes on one ground.
struct Column {
    ground: Ground,
    loaded: Value,
    /// The outcome of each row, as shown.
    outcomes: Vec<String>,
    errnos: BTreeMap<String, Vec<i64>>,
}

impl Column {
    fn fill(stage: &mut Stage) -> Self {
        stage.make_all();
        let ends = Ends::make(stage);
        let mut wrong = Vec::new();
        let mut named = BTreeSet::new();
        let mut shown = |row: &Row| {
            let outcomes = outcomes(stage, &row.by, &mut named, &ends);
            if !row.expect.fits(&outcomes, stage) {
                wrong.push(format!("{} {}: {outcomes:?}", row.number, row.attempt));
            }
            let is_elsewhere = matches!(row.by, By::Tests(_)) && stage.ground != Ground::Whole;
            if is_elsewhere { "·".to_owned() } else { words(&outcomes) }
        };
        let outcomes: Vec<String> = ROWS.iter().map(&mut shown).collect();
        assert!(wrong.is_empty(), "{:?}:\n{}", stage.ground, wrong.join("\n"));
        let forgotten: Vec<&str> = stage.made().filter(|made| !named.contains(*made)).collect();
        assert!(forgotten.is_empty(), "attempts of no row: {forgotten:?}");
        untouched(stage);
        let (loaded, errnos) = (stage.loaded.clone(), stage.errnos.clone());
        Self { ground: stage.ground, loaded, outcomes, errnos }
    }

    /// Every outcome is the same, by the same layers.
    fn compare(&self, other: &Self) {
        for what in ["level", "layers", "missing", "refused", "protections", "program_protections"] {
            assert_eq!(self.loaded[what], other.loaded[what], "{what}");
        }
        assert_eq!(self.outcomes, other.outcomes);
        let sets = |column: &Self| -> BTreeMap<String, BTreeSet<i64>> {
            let set = |errnos: &Vec<i64>| errnos.iter().copied().collect();
            column.errnos.iter().map(|(name, errnos)| (name.clone(), set(errnos))).collect()
        };
        assert_eq!(sets(self), sets(other));
    }
}

#[test]
fn every_number_has_a_row() {
    let numbers: Vec<u32> = ROWS.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=135).collect::<Vec<_>>());
}

/// Tests that rows name exist.
#[test]
fn every_test_that_is_named_is_there() {
    if !is_source_there() {
        eprintln!("skipped: the source is not where this test was built");
        return;
    }
    for row in ROWS {
        if let By::Tests(names) = &row.by {
            names.iter().for_each(|name| assert!(is_test(name), "{}: missing test {name}", row.number));
        }
    }
}

pub(crate) fn is_source_there() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs").is_file()
}

/// Whether `name`, a file and a function joined by `::`, exists.
pub(crate) fn is_test(name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else { return false };
    let source =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default();
    // A sandbox scenario has no test attribute: one that is never run would be dead code.
    source.contains(&format!("fn {function}(")) && (file.contains("/tests/") || source.contains("test]"))
}

/// The outcomes of the program and of the calls, if there are both.
fn outcomes(stage: &Stage, by: &By, named: &mut BTreeSet<&'static str>, ends: &Ends) -> BTreeSet<Outcome> {
    if let By::Program(names) | By::Both(names, ..) = by {
        named.extend(names.iter());
    }
    let refused = stage.refuses_programs().map(|_| Outcome::Refused);
    match by {
        By::Program(names) => BTreeSet::from([stage.found(names)]),
        By::Call(_, act) => BTreeSet::from([act(stage)]),
        By::Told(_, act) => BTreeSet::from([refused.unwrap_or_else(|| act(stage))]),
        By::Both(names, _, act) => {
            BTreeSet::from([stage.found(names), act(stage)].map(|one| match one {
                // One applicable way to make it is enough.
                Outcome::NotApplicable => Outcome::Held,
                one => one,
            }))
        }
        By::End(which) => which.iter().map(|end| ends.outcome(end, refused)).collect(),
        // Other tests check that they exist and pass.
        By::Tests(_) => BTreeSet::from([Outcome::Held]),
        By::Nothing(_) => BTreeSet::from([Outcome::NotApplicable]),
    }
}

fn words(outcomes: &BTreeSet<Outcome>) -> String {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Succeeded => "NOT HELD",
        Outcome::Refused => "refused",
        Outcome::Held => "held",
        Outcome::NotApplicable => "-",
    };
    let all: Vec<&str> = outcomes.iter().map(word).collect();
    all.join("+")
}

/// Programs that end in their own ways, and how each call ended. Concurrent, because most of them
/// take long.
struct Ends(BTreeMap<&'static str, String>);

impl Ends {
    const AT_ONCE: usize = 6;

    fn make(stage: &Stage) -> Self {
        let all = ROWS.iter().filter_map(|row| if let By::End(ends) = row.by { Some(ends) } else { None });
        let tool = |(what, status): &(&str, &str)| match (*what, *status) {
            (_, "timeout") => "taken_brief",
            ("deep", _) | (_, "quota") => "taken_writer",
            _ => "taken_static",
        };
        // A program that writes gets its own run: after a call that did not end well, approval
        // would be required.
        let (writers, others): (Vec<_>, Vec<_>) = all.flatten().partition(|end| tool(end) == "taken_writer");
        let mut ended = BTreeMap::new();
        for some in writers.chunks(1).chain(others.chunks(Self::AT_ONCE)) {
            let call = |end: &&(&'static str, &str)| (tool(end), json!({ "what": end.0 }).to_string());
            let steps = stage.house.calls(&some.iter().map(call).collect::<Vec<_>>());
            let status = |step: &Value| step["status"].as_str().expect("a status").to_owned();
            ended.extend(some.iter().map(|(what, _)| *what).zip(steps.iter().map(status)));
        }
        Self(ended)
    }

    /// Held if it ended as `status` says, and nothing of it remains.
    fn outcome(&self, (what, status): &(&str, &str), refused: Option<Outcome>) -> Outcome {
        match (self.0[what].as_str(), refused) {
            ("refused", Some(refused)) => refused,
            (ended, _) if ended == *status => Outcome::Held,
            (ended, _) => panic!("{what}: not {status}: {ended}"),
        }
    }
}

/// Protected files are unchanged.
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

/// The lines that only one of the two writes: root, and any other user.
const LEVEL_OF: [&str; 2] = ["level, as root", "level, as another user"];

/// What is withheld, the level that is reached, and the layers of each protection. Layers that only
/// root has are in parentheses.
fn head(columns: &[Column]) -> String {
    let mut all = String::from(
        "An errno stands where another layer refuses than on the whole ground. · is shown by a test of its own.\n\
         LL Landlock, MV mount view, UID own uid (root alone has it), SC seccomp, NET and PID namespaces, RL rlimits, \
         SUP launcher, CAP no capabilities\n\n",
    );
    let mut line = |title: &str, cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = columns.iter().map(|column| format!("{:<16}", cell(column))).collect();
        writeln!(all, "{title:<26}{}", cells.concat().trim_end()).expect("a line");
    };
    line("", &|column| column.ground.title());
    line(LEVEL_OF[usize::from(!crate::support::is_root())], &|column| {
        column.loaded["level"].as_str().unwrap_or("none").to_owned()
    });
    let whole = columns.first().map(|column| column.loaded.clone()).expect("a column");
    for (table, who) in [("protections", "builtins"), ("program_protections", "programs")] {
        for protection in whole[table].as_object().expect("a table").keys() {
            line(&format!("{who}: {protection}"), &|column| {
                let is_refused = who == "programs" && column.ground == Ground::NoNamespaces;
                if is_refused { "refused".to_owned() } else { layers(&column.loaded[table][protection]) }
            });
        }
    }
    all
}

fn layers(of: &Value) -> String {
    let short = |layer: &Value| match layer.as_str().expect("a name") {
        "landlock" => "LL",
        "mount view" => "MV",
        "own uid" => "(UID)",
        "seccomp" => "SC",
        "net namespace" => "NET",
        "pid namespace" => "PID",
        "rlimits" => "RL",
        "launcher" => "SUP",
        "no capabilities" => "CAP",
        other => panic!("a layer without a short name: {other}"),
    };
    // Groups are optional and differ between machines.
    let named = |all: &Vec<Value>| all.iter().filter(|one| *one != "cgroup").map(short).collect::<Vec<_>>();
    of.as_array().map_or("nothing".to_owned(), |all| named(all).join(" "))
}

fn body(columns: &[Column]) -> String {
    let mut all = String::new();
    let titles: String = columns.iter().map(|column| format!("{:<14}", column.ground.title())).collect();
    writeln!(all, "{:>3}  {:<52} {titles}{:<12} how", "#", "attempt", "layers").expect("a line");
    for (at, row) in ROWS.iter().enumerate() {
        let cell = |column: &Column| column.outcomes[at].clone() + &otherwise(&row.by, column, &columns[0]);
        let outcomes: String = columns.iter().map(|column| format!("{:<14}", cell(column))).collect();
        writeln!(all, "{:>3}  {:<52} {outcomes}{:<12} {}", row.number, row.attempt, row.layer, row.by)
            .expect("a row");
    }
    all
}

/// How the programs' attempts of a row were refused, if by a layer other than on the whole ground.
fn otherwise(by: &By, column: &Column, whole: &Column) -> String {
    let (By::Program(names) | By::Both(names, ..)) = by else { return String::new() };
    let of = |column: &Column| -> BTreeSet<i64> {
        names.iter().filter_map(|name| column.errnos.get(*name)).flatten().copied().collect()
    };
    let others = &of(column) - &of(whole);
    let word = |errno: &i64| match nix::errno::Errno::from_raw(i32::try_from(*errno).expect("a number")) {
        nix::errno::Errno::UnknownErrno => String::new(),
        errno => format!(" {errno:?}"),
    };
    others.iter().map(word).collect()
}

/// The same for every user, except for what only root has.
fn compare(table: &str, abi: u32) {
    let is_root = crate::support::is_root();
    let other = LEVEL_OF[usize::from(is_root)];
    let plain = |text: &str| -> Vec<String> {
        let text = if is_root { text.to_owned() } else { text.replace("(UID)", "") };
        let own = text.lines().filter(|line| !line.starts_with(other));
        own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let golden = include_str!("golden/attempts.txt");
    if !(6..=8).contains(&abi) {
        eprintln!("\nNOT COMPARED: the file is not of Landlock {abi}:\n{table}\n");
    } else if plain(table) != plain(golden) {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attempts.txt");
        // If it cannot be written, the panic below shows everything.
        let _written = std::fs::write(&place, table);
        panic!("tests/it/golden/attempts.txt is not {}\n{table}", place.display());
    }
}
