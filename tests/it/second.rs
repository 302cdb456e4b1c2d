//! Two verifiers of one format: `par audit verify`, and `tests/verify_ledger.py`, which was written
//! from `docs/ledger-format.md`. Both detect each change to a ledger and classify it the same.

use crate::attacks::anew::harmless;
use crate::attacks::{Against, Attack, Base, Homes, all, copied, cut_from_older, db, forget_state};
use crate::support::{TestHome, start, text};
use par::ledger::Kind;
use rusqlite::params;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The script, embedded in the test binary: a user who runs a copy of it may not be able to read
/// the source.
const SCRIPT: &str = include_str!("../verify_ledger.py");

/// The other verifier, in a separate folder.
pub(crate) struct Second {
    folder: tempfile::TempDir,
}

/// One verifier's answer.
#[derive(Debug)]
struct Answer {
    verdict: String,
    /// The lowest number that a finding names.
    seq: Option<u64>,
    report: Value,
}

impl Second {
    /// `None` with a message if there is no Python, unless it is required.
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says what must be there")]
    pub(crate) fn find() -> Option<Self> {
        match start(Path::new("python3")).arg("--version").output() {
            Ok(output) if output.status.success() => {}
            _ if std::env::var_os("PAR_REQUIRE_PYTHON").is_some() => panic!("python3 is missing"),
            _ => {
                eprintln!("\nSKIPPED: there is NO python3: the ledger was verified by PAR alone\n");
                return None;
            }
        }
        let second = Self { folder: tempfile::tempdir().expect("folder") };
        std::fs::write(second.script(), SCRIPT).expect("script");
        Some(second)
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("verify_ledger.py")
    }

    /// The requests to models that it builds again from the ledger.
    pub(crate) fn requests(&self, home: &TestHome) -> Value {
        let mut command = start(Path::new("python3"));
        command.arg("-B").arg(self.script()).arg(home.path("data")).arg("--requests");
        answer(&command.output().expect("python3 starts")).report["requests"].clone()
    }

    fn ask(&self, home: &TestHome, kept: Option<&Path>) -> Answer {
        let mut command = start(Path::new("python3"));
        command.arg("-B").arg(self.script()).arg(home.path("data"));
        if let Some(kept) = kept {
            command.arg("--checkpoint").arg(kept);
        }
        answer(&command.output().expect("python3 starts"))
    }
}

fn ask_par(home: &TestHome, kept: Option<&Path>) -> Answer {
    let mut command = home.command(&["audit", "verify", "--json"]);
    if let Some(kept) = kept {
        command.arg("--checkpoint").arg(kept);
    }
    answer(&command.output().expect("par starts"))
}

fn answer(output: &Output) -> Answer {
    let said = text(&output.stdout);
    let report: Value =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}{}", text(&output.stderr)));
    let verdict = report["verdict"].as_str().expect("verdict").to_owned();
    let seq = report["findings"].as_array().expect("findings").iter().filter_map(|f| f["seq"].as_u64()).min();
    let expect = if verdict.starts_with("verified") { 0 } else { 5 };
    assert_eq!(output.status.code(), Some(expect), "{said}");
    Answer { verdict, seq, report }
}

/// Both answers, and the difference if they are not the same.
fn compare(second: &Second, home: &TestHome, kept: Option<&Path>) -> (Answer, Answer, Option<String>) {
    let (python, par) = (second.ask(home, kept), ask_par(home, kept));
    let agree =
        par.verdict == python.verdict && (par.seq.is_none() || python.seq.is_none() || par.seq == python.seq);
    let why = (!agree).then(|| format!("par    {}\npython {}", par.report, python.report));
    (par, python, why)
}

/// Runs `check` over all of `items`, on two threads; returns the answers in order.
fn each<T: Sync, R: Send>(items: &[T], check: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let half = items.len().div_ceil(2).max(1);
    std::thread::scope(|scope| {
        let check = &check;
        let work = |part| scope.spawn(move || Iterator::map(<[T]>::iter(part), check).collect::<Vec<R>>());
        let threads: Vec<_> = items.chunks(half).map(work).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("checked")).collect()
    })
}

#[test]
fn both_verifiers_see_every_attack() {
    let Some(second) = Second::find() else { return };
    let homes = Homes::make();
    let mut wrong = Vec::new();
    for base in [Base::Young, Base::Old, Base::Tall, Base::Split] {
        for kept in [None, Some(homes.kept.as_path()).filter(|_| base == Base::Young)] {
            let home = copied(homes.base(base));
            forget_state(&home);
            let (par, _, why) = compare(&second, &home, kept);
            assert_eq!((par.verdict.starts_with("verified"), why), (true, None), "unchanged: {}", par.report);
        }
    }
    let attacks = all();
    let told = each(&attacks, |attack: &Attack| {
        let kept = match attack.against {
            Against::Nothing => None,
            Against::Kept => Some(homes.kept.as_path()),
            Against::Foreign => Some(homes.foreign.as_path()),
        };
        compare(&second, &attack.done(&homes), kept)
    });
    let mut table = String::new();
    for (attack, (par, python, why)) in attacks.iter().zip(told) {
        let _row = writeln!(table, "{} | {} | {}", attack.name, par.verdict, python.verdict);
        wrong.extend(why.map(|why| format!("{}\n{why}", attack.name)));
        if par.verdict.starts_with("verified") {
            wrong.push(format!("{}: not seen", attack.name));
        }
    }
    flips(&second, &homes, &mut table, &mut wrong);
    println!("attack | par | python\n{table}");
    assert!(wrong.is_empty(), "{}\n{} in all", wrong.join("\n\n"), wrong.len());
    let golden = include_str!("golden/attacks.txt");
    if table != golden {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attacks.txt");
        // If it cannot be written, the panic below shows everything.
        let _written = std::fs::write(&place, &table);
        panic!("tests/it/golden/attacks.txt is not {}\n{table}", place.display());
    }
}

/// A place where a bit is flipped: a statement that reads the bytes of row ?1 and one that writes
/// them.
struct Place {
    name: &'static str,
    base: Base,
    table: &'static str,
    key: &'static str,
    column: &'static str,
    flips: usize,
}

#[rustfmt::skip]
const PLACES: [Place; 5] = [
    Place { name: "a header", base: Base::Young, table: "entry", key: "seq", column: "header", flips: 50 },
    Place { name: "a salt", base: Base::Young, table: "payload", key: "seq", column: "salt", flips: 20 },
    Place { name: "a payload", base: Base::Young, table: "payload", key: "seq", column: "body", flips: 40 },
    Place { name: "a checkpoint", base: Base::Old, table: "checkpoint", key: "id", column: "note", flips: 50 },
    Place { name: "a tile", base: Base::Tall, table: "tile", key: "k", column: "hashes", flips: 10 },
];

/// Flips one bit of a column at places that a fixed seed gives, one after the other.
fn flips(second: &Second, homes: &Homes, table: &mut String, wrong: &mut Vec<String>) {
    let mut seed = 0x2545_f491_4f6c_dd1d;
    for place in &PLACES {
        let places: Vec<(u64, u64)> = (0..place.flips).map(|_| (next(&mut seed), next(&mut seed))).collect();
        let told = each(&places, |(row, bit)| {
            let home = copied(homes.base(place.base));
            forget_state(&home);
            let at = flip(&home, place, *row, *bit);
            (at, compare(second, &home, None))
        });
        let mut words: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (at, (par, python, why)) in told {
            wrong.extend(why.map(|why| format!("{} {at}\n{why}", place.name)));
            *words.entry((par.verdict, python.verdict)).or_default() += 1;
        }
        for ((par, python), count) in words {
            let _row = writeln!(table, "a flipped bit of {}, {count} times | {par} | {python}", place.name);
            if par.starts_with("verified") {
                wrong.push(format!("a flipped bit of {}: not seen", place.name));
            }
        }
    }
}

/// Flips one bit of one row; returns which.
fn flip(home: &TestHome, place: &Place, row: u64, bit: u64) -> String {
    let Place { table, key, column, .. } = place;
    let db = db(home);
    let rows: u64 = db
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0))
        .expect("rows") as u64;
    let (id, mut bytes): (i64, Vec<u8>) = db
        .query_row(
            &format!("SELECT {key}, {column} FROM {table} ORDER BY {key} LIMIT 1 OFFSET ?1"),
            [(row % rows) as i64],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("row");
    let bit = bit as usize % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    db.execute(&format!("UPDATE {table} SET {column} = ?2 WHERE {key} = ?1"), params![id, bytes])
        .expect("flipped");
    format!("{id}, bit {bit}")
}

/// Marsaglia's xorshift64.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Changes that are not damage: what a later version may write, and notes written in another order.
#[test]
fn both_verifiers_take_what_they_do_not_know() {
    let Some(second) = Second::find() else { return };
    let homes = Homes::make();
    for attack in harmless() {
        let (par, _, why) = compare(&second, &attack.done(&homes), None);
        assert_eq!(
            (par.verdict.as_str(), why),
            ("verified_unanchored", None),
            "{}: {}",
            attack.name,
            par.report
        );
    }
}

/// Only state.db, the mark or an external checkpoint reveals a tail that was truncated at an older
/// checkpoint; with one more entry, its own checkpoint is missing.
#[test]
fn a_tail_cut_at_a_checkpoint_is_revealed_by_state_db_alone() {
    let Some(second) = Second::find() else { return };
    let homes = Homes::make();
    let home = copied(homes.base(Base::Young));
    cut_from_older(&home, &homes, 0);
    std::fs::remove_file(home.path("data/high-water")).expect("mark");
    let (par, _, why) = compare(&second, &home, None);
    assert_eq!((par.verdict.as_str(), why), ("incomplete", None));
    forget_state(&home);
    let (par, _, why) = compare(&second, &home, None);
    assert_eq!((par.verdict.as_str(), why), ("verified_unanchored", None));
    let (par, _, why) = compare(&second, &home, Some(&homes.kept));
    assert_eq!((par.verdict.as_str(), why), ("incomplete", None));
    let more = copied(homes.base(Base::Young));
    cut_from_older(&more, &homes, 1);
    std::fs::remove_file(more.path("data/high-water")).expect("mark");
    forget_state(&more);
    let (par, _, why) = compare(&second, &more, None);
    assert_eq!((par.verdict.as_str(), why), ("incomplete", None));
}

/// Next to a server that writes, and after one that was killed: no false alarm, and nothing is
/// written.
#[test]
fn the_second_verifier_reads_a_live_ledger() {
    let Some(second) = Second::find() else { return };
    let home = TestHome::init();
    let key = home.key("script", "operator");
    let server = home.serve();
    let mut entries = 0;
    for _ in 0..5 {
        let aside: Vec<_> =
            (0..4).map(|_| server.run_aside(&key, r#"read_file(path="/etc/shadow")"#)).collect();
        let answer = second.ask(&home, None);
        assert_eq!(answer.verdict, "verified_unanchored", "{}", answer.report);
        for run in aside {
            assert_eq!(run.join().expect("thread").expect("answer").status, 200);
        }
        let now = answer.report["entries"].as_u64().expect("entries");
        assert!(now >= entries, "{now} after {entries}");
        entries = now;
    }
    assert!(entries > 20, "{entries}");
    server.kill();
    for gone in ["nothing", "-shm", "-wal"] {
        match gone {
            "-shm" => std::fs::remove_file(home.path("data/ledger.db-shm")).expect("removed"),
            "-wal" => drop(db(&home)),
            _ => {}
        }
        let before = files(&home);
        let answer = second.ask(&home, None);
        assert_eq!(answer.verdict, "verified_unanchored", "{gone:?}: {}", answer.report);
        assert_eq!(files(&home), before, "{gone:?}: nothing is written");
    }
}

/// The files of `data/` and their contents; for `-shm`, which SQLite locks with, only that it
/// exists.
fn files(home: &TestHome) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(home.path("data")).expect("folder").map(|file| {
        let file = file.expect("file");
        let name = file.file_name().to_string_lossy().into_owned();
        let bytes =
            if name.ends_with("-shm") { Vec::new() } else { std::fs::read(file.path()).unwrap_or_default() };
        (name, bytes)
    });
    files.collect()
}

/// Both agree which payloads must stay: an erased payload of such a kind is a finding.
#[test]
fn both_verifiers_keep_the_same_kinds() {
    let (_, rest) = SCRIPT.split_once("KEPT = \"\"\"").expect("the list");
    let (list, _) = rest.split_once("\"\"\"").expect("the end of the list");
    let listed: BTreeSet<&str> = list.split_whitespace().collect();
    let kept = Kind::ALL.iter().filter(|kind| !kind.is_redactable()).map(|kind| kind.as_str());
    assert_eq!(listed, kept.collect::<BTreeSet<_>>());
}
