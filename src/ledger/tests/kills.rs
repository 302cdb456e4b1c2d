//! Kills: a process that appends from several threads dies at any moment, also while it opens,
//! changes epochs or erases. Everything that it reported is there, verification raises no false
//! alarm, and the log continues and signs.
//!
//! `PAR_KILLS` sets the number of kills; 10,000 take some minutes.

use super::{LedgerHome, PROJECTIONS, call_drafts, key};
use crate::ledger::tree::{Frontier, leaf};
use crate::ledger::{Draft, Erasure, Files, Kind, Ledger, Lock, Reader, Ref, Targets, audit};
use crate::types::RunId;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const KILLS: usize = 200;
/// Kills of one ledger.
const LIVES: usize = 10;
const THREADS: usize = 4;
/// The test that is also its own writer, and the variable that selects the writer.
const SELF: &str = "ledger::tests::kills::a_killed_writer_loses_nothing_that_it_reported";
const FOLDER: &str = "PAR_KILLS_FOLDER";

#[test]
fn a_killed_writer_loses_nothing_that_it_reported() {
    if let Some(folder) = variable(FOLDER) {
        return write_for_ever(Path::new(&folder));
    }
    let kills = variable("PAR_KILLS").and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let halves = std::thread::scope(|scope| {
        [kills / 2, kills - kills / 2].map(|kills| scope.spawn(move || kill_again_and_again(kills))).map(
            |half| half.join().expect("every reported entry is there, no false alarm, and the log continues"),
        )
    });
    let all = halves.into_iter().fold(KillCount::default(), |all, one| KillCount {
        kills: all.kills + one.kills,
        opening: all.opening + one.opening,
        entries: all.entries + one.entries,
        erased: all.erased + one.erased,
        epochs: all.epochs + one.epochs,
    });
    println!("{all:?}");
    assert_eq!(all.kills, kills);
    assert!(all.entries > kills as u64 && all.opening > 0 && all.epochs > 0, "{all:?}");
}

#[expect(clippy::disallowed_methods, reason = "the caller decides how long the tests may take")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The observed counts.
#[derive(Debug, Default)]
struct KillCount {
    kills: usize,
    /// Kills before the ledger was open.
    opening: usize,
    /// Reported entries, all of them found.
    entries: u64,
    /// Reported erasures, all of them done.
    erased: u64,
    /// Changes of epochs.
    epochs: u64,
}

/// Numbers that must differ but need no quality: xorshift.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).expect("randomness");
        Self(u64::from_le_bytes(seed) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The writer: prints each receipt on its own line, until it is killed.
fn write_for_ever(data: &Path) {
    let lock = Lock::take(&files(data), Duration::from_secs(5)).expect("lock");
    let ledger = Ledger::open(files(data), lock, &PROJECTIONS).expect("ledger");
    tell("open");
    let told = Mutex::new(results(&ledger));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut dice = Dice::new();
                loop {
                    act(&ledger, &mut dice, &told);
                }
            });
        }
    });
}

/// Results that earlier writers left and that can be erased.
fn results(ledger: &Ledger) -> Vec<u64> {
    let mut segments = ledger.reader().segments();
    let db = segments.newest().expect("segment");
    let sql = "SELECT e.seq FROM entry e JOIN payload p USING (seq) \
               WHERE p.body IS NOT NULL AND CAST(e.header AS TEXT) LIKE '%\"kind\":\"call.result\"%'";
    let mut asked = db.prepare(sql).expect("select");
    let rows = asked.query_map([], |row| row.get::<_, i64>(0)).expect("rows");
    rows.map(|seq| seq.expect("row") as u64).collect()
}

fn files(data: &Path) -> Files {
    Files { free_bytes_min: 0, reserve_bytes: 64 << 10, ..Files::below(data) }
}

fn tell(line: &str) {
    // One write: a line arrives whole, or its end is missing.
    std::io::stdout().write_all(format!("told {line}\n").as_bytes()).expect("the test reads");
}

/// A run with a reply, a big or small entry, or an erasure.
fn act(ledger: &Ledger, dice: &mut Dice, told: &Mutex<Vec<u64>>) {
    let run = RunId::generate();
    let drafts = match dice.below(12) {
        0..5 => {
            let mut drafts = call_drafts(0);
            drafts.iter_mut().for_each(|draft| draft.run = Some(run.clone()));
            drafts[3].answers = Some(Ref::Sibling(2));
            drafts
        }
        5..9 => {
            let bytes = 1 << dice.below(17);
            let text = json!({ "text": "x".repeat(bytes as usize) });
            vec![Draft { run: Some(run.clone()), ..Draft::untyped(Kind::ModelReply, text) }]
        }
        _ => return erase(ledger, dice, told),
    };
    let receipts = ledger.append_blocking(drafts).expect("appended");
    let head = receipts[0].head();
    for receipt in &receipts {
        tell(&format!("entry {} {run} {} {}", receipt.seq(), head.size, head.root));
    }
    if receipts.len() > 1 {
        told.lock().expect("told").push(receipts[3].seq());
    }
}

fn erase(ledger: &Ledger, dice: &mut Dice, told: &Mutex<Vec<u64>>) {
    let seq = {
        let mut told = told.lock().expect("told");
        if told.is_empty() {
            return;
        }
        let at = dice.below(told.len() as u64) as usize;
        told.swap_remove(at)
    };
    let asked = Erasure {
        targets: Targets::Entries(vec![seq]),
        reason: "by chance".to_owned(),
        principal: "os:root".to_owned(),
        power: None,
    };
    let redacted = ledger.redact(&asked).expect("erased");
    tell(&format!("erased {seq} {}", redacted.entries[0].redaction));
}

/// The reports of one ledger so far: the run for each number, and the root for each size.
#[derive(Default)]
struct ToldReceipts {
    entries: BTreeMap<u64, String>,
    roots: BTreeMap<u64, String>,
    erased: Vec<u64>,
}

impl ToldReceipts {
    /// Parses the complete lines of `text`.
    fn take(&mut self, text: &str) {
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["told", "entry", seq, run, size, root] => {
                    self.entries.insert(seq.parse().expect("number"), run.to_owned());
                    self.roots.insert(size.parse().expect("number"), root.to_owned());
                }
                ["told", "erased", seq, _] => self.erased.push(seq.parse().expect("number")),
                // Output of the test harness itself.
                _ => {}
            }
        }
    }

    /// Compares every report with the ledger, without changing the ledger.
    fn compare(&self, data: &Path) {
        let report = audit(&files(data), &PROJECTIONS, &[]);
        assert!(report.verdict.holds(), "a false alarm, or a loss: {:?}", report.findings);
        let reader = Reader::open(&files(data).ledger()).expect("ledger");
        let mut segments = reader.segments();
        let db = segments.newest().expect("segment");
        let mut rows = db
            .prepare("SELECT e.header, p.body IS NULL FROM entry e JOIN payload p USING (seq) ORDER BY seq");
        let rows = rows.as_mut().expect("select");
        let rows = rows.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, bool>(1)?)));
        let mut frontier = Frontier::default();
        let mut found = 0;
        for (seq, row) in (0_u64..).zip(rows.expect("rows")) {
            let (header, is_erased) = row.expect("row");
            frontier.push(leaf(&header));
            if let Some(run) = self.entries.get(&seq) {
                assert!(String::from_utf8_lossy(&header).contains(run), "entry {seq} differs");
                found += 1;
            }
            assert!(is_erased || !self.erased.contains(&seq), "entry {seq} was reported as erased");
            if let Some(root) = self.roots.get(&frontier.size()) {
                assert_eq!(&frontier.root().hex(), root, "the root of {} entries", frontier.size());
            }
        }
        assert_eq!(found, self.entries.len(), "reported entries are lost");
    }
}

fn kill_again_and_again(kills: usize) -> KillCount {
    let mut count = KillCount::default();
    let (mut dice, mut opening_us) = (Dice::new(), 20_000);
    while count.kills < kills {
        let home = LedgerHome::on_memory();
        let data = home.folder.path();
        let mut told = ToldReceipts::default();
        for _ in 0..LIVES.min(kills - count.kills) {
            if dice.below(2) == 0 {
                super::epochs::age(&home);
            }
            let was_open = kill_once(data, &mut dice, &mut opening_us, &mut told);
            count.kills += 1;
            count.opening += usize::from(!was_open);
            // Before the first entry there is nothing to verify.
            if !told.entries.is_empty() {
                told.compare(data);
            }
        }
        // The log continues and signs.
        let lock = Lock::take(&files(data), Duration::from_secs(5)).expect("lock");
        let ledger = Ledger::open(files(data), lock, &PROJECTIONS).expect("it can be opened");
        let receipts = ledger.append_blocking(call_drafts(0)).expect("it continues");
        let note = receipts[4].checkpoint().expect("signed").to_owned();
        assert_eq!(note.lines().nth(1), Some(receipts[4].head().size.to_string().as_str()));
        told.compare(data);
        let report = audit(&files(data), &PROJECTIONS, &[]);
        count.entries += told.entries.len() as u64;
        count.erased += told.erased.len() as u64;
        count.epochs += report.epochs.saturating_sub(1);
    }
    count
}

/// Starts a writer and kills it. Returns whether it had opened the ledger.
fn kill_once(data: &Path, dice: &mut Dice, opening_us: &mut u64, told: &mut ToldReceipts) -> bool {
    let begun = Instant::now();
    let mut child = start(data);
    let mut lines = BufReader::new(child.stdout.take().expect("pipe"));
    let mut text = String::new();
    if dice.below(4) == 0 {
        std::thread::sleep(Duration::from_micros(dice.below(*opening_us + *opening_us / 4)));
    } else {
        while !text.ends_with("told open\n") {
            assert!(lines.read_line(&mut text).expect("pipe") > 0, "the writer ended: {}", why(child));
        }
        *opening_us = u64::try_from(begun.elapsed().as_micros()).expect("short");
        // Now and then long enough for an erasure, which searches every file.
        let bound = if dice.below(8) == 0 { 400_000 } else { 40_000 };
        std::thread::sleep(Duration::from_micros(dice.below(bound)));
    }
    child.kill().expect("killed");
    lines.read_to_string(&mut text).expect("the reports");
    let ended = std::os::unix::process::ExitStatusExt::signal(&child.wait().expect("ends"));
    assert_eq!(ended, Some(nix::libc::SIGKILL), "it ended by itself: {}", why(child));
    told.take(&text);
    text.contains("told open\n")
}

#[expect(clippy::disallowed_methods, reason = "the process to be killed is this test's own")]
fn start(data: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", SELF, "--nocapture"])
        .env(FOLDER, data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn why(mut child: Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        drop(stderr.read_to_string(&mut text));
    }
    text
}

impl LedgerHome {
    /// A folder in memory: what a kill leaves is in the kernel either way.
    fn on_memory() -> Self {
        let shared = Path::new("/dev/shm");
        let folder = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
        let home = Self { folder: folder.expect("folder") };
        key::make(&home.files().log_key()).expect("log key");
        home
    }
}
