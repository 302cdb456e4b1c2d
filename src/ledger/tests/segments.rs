//! A ledger of several files is one log: what holds for one file holds for all of them.

use super::{LedgerHome, PROJECTIONS, call_drafts, connect, key_draft, named};
use crate::ledger::{
    Draft, Erasure, Files, Filter, Kind, Ledger, Lock, Order, Reader, Rotation, Targets, Verdict,
    Verification, audit, audit_from,
};
use crate::store;
use crate::types::RunId;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Small segments, and payloads that are dropped after this many milliseconds.
fn files(home: &LedgerHome, payload_ms_max: Option<u64>) -> Files {
    let rotation = Rotation { segment_bytes_max: 40_000, segment_ms_max: None, payload_ms_max };
    Files { rotation, ..home.files() }
}

fn open(files: &Files) -> Ledger {
    let lock = Lock::take(files, Duration::from_secs(5)).expect("lock");
    Ledger::open(files.clone(), lock, &PROJECTIONS).expect("ledger")
}

/// Runs in separate commits, so that segments fill up in between.
fn fill(ledger: &Ledger, runs: usize) {
    for _ in 0..runs {
        let at = usize::try_from(ledger.head().size).expect("size");
        let _receipts = ledger.append_blocking(call_drafts(at)).expect("appended");
    }
}

/// A closed ledger of several segments.
fn filled(runs: usize) -> (LedgerHome, Files) {
    let home = LedgerHome::empty();
    let files = files(&home, None);
    let ledger = open(&files);
    let _key = ledger.append_blocking(vec![key_draft("Ab3dEf9h", "ops", "operator")]).expect("appended");
    fill(&ledger, runs);
    drop(ledger);
    drop(Lock::take(&files, Duration::from_secs(5)).expect("the writer ends"));
    (home, files)
}

fn check(files: &Files) -> Verification {
    audit(files, &PROJECTIONS, &[])
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_segment_is_sealed_and_the_log_continues_in_the_next() {
    let (_home, files) = filled(120);
    let firsts = files.segments().expect("segments");
    assert!(firsts.len() > 3, "{firsts:?}");
    let report = check(&files);
    assert!(report.verdict.holds(), "{:?}", report.findings);
    assert_eq!(report.segments, firsts.len() as u64);
    assert_eq!(report.entries, 2 + 120 * 5 + firsts.len() as u64 - 1);

    let reader = Reader::open(&files.ledger()).expect("reader");
    assert_eq!(reader.size().expect("size"), report.entries);
    for first in &firsts[1..] {
        let seal = reader.entry(first - 1).expect("read").expect("there");
        assert!(seal.header.is(Kind::SegmentSeal));
        // A sealed file needs no write-ahead log.
        let name = files.segment(*firsts.first().expect("first")).display().to_string();
        assert!(!PathBuf::from(format!("{name}-wal")).exists());
    }

    // All readers cross the files' ends: lists in both orders, walks, proofs from every entry.
    let all = |order, from| {
        let found = reader.headers(&Filter::default(), from, order, usize::MAX, usize::MAX);
        found.expect("headers").0.into_iter().map(|header| header.seq).collect::<Vec<_>>()
    };
    let rising: Vec<u64> = (0..report.entries).collect();
    assert_eq!(all(Order::Ascending, 0), rising);
    assert_eq!(all(Order::Descending, u64::MAX), rising.iter().rev().copied().collect::<Vec<_>>());
    let mut walked = Vec::new();
    reader.walk(0..report.entries, |_| true, |stored| walked.push(stored.header.seq)).expect("walk");
    assert_eq!(walked, rising);
    let key = reader.log_key().expect("key");
    for seq in (0..report.entries - 1).step_by(7) {
        let proof = reader.prove(None, &[seq]).expect("proof");
        let checked = proof.check(&key);
        assert!(checked.is_ok(), "{seq}: {checked:?}");
    }
    for old in (1..report.entries).step_by(13) {
        reader.consistency(old, report.entries).expect("consistency");
    }
}

#[test]
fn no_segment_but_the_newest_stays_open() {
    let home = LedgerHome::empty();
    let files = files(&home, None);
    let ledger = open(&files);
    let _key = ledger.append_blocking(vec![key_draft("Ab3dEf9h", "ops", "operator")]).expect("appended");
    fill(&ledger, 120);
    let firsts = files.segments().expect("segments");
    assert!(firsts.len() > 3, "{firsts:?}");
    let is_before = |path: &PathBuf| {
        let path = path.display().to_string();
        firsts
            .iter()
            .rev()
            .skip(1)
            .any(|first| path.starts_with(&files.segment(*first).display().to_string()))
    };
    until("the earlier ones are closed", || {
        let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
        !open.filter_map(|one| std::fs::read_link(one.path()).ok()).any(|path| is_before(&path))
    });
}

#[test]
fn a_start_continues_even_after_a_seal_without_the_next_file() {
    let (home, files) = filled(60);
    let ledger = open(&files);
    fill(&ledger, 1);
    drop(ledger);
    drop(Lock::take(&files, Duration::from_secs(5)).expect("the writer ends"));
    assert!(check(&files).verdict.holds());

    // The state after a crash between the seal and the next file.
    let home_of_crash = home.copy_all();
    let files = Files { rotation: files.rotation, ..home_of_crash.files() };
    let firsts = files.segments().expect("segments");
    let last = *firsts.last().expect("last");
    let state = home_of_crash.files().state();
    drop(Lock::take(&files, Duration::from_secs(5)).expect("free"));
    for name in [files.segment(last), state, files.high_water()] {
        for end in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(format!("{}{end}", name.display())));
        }
    }
    let ledger = open(&files);
    assert_eq!(ledger.head().size, last);
    fill(&ledger, 3);
    drop(ledger);
    let report = check(&files);
    assert!(report.verdict.holds(), "{:?}", report.findings);
    assert_eq!(report.entries, last + 15);
}

#[test]
fn a_missing_a_swapped_and_a_second_segment_are_found() {
    let (home, files) = filled(120);
    let firsts = files.segments().expect("segments");
    let (second, third) = (firsts[1], firsts[2]);

    let lost = home.copy_all();
    std::fs::remove_file(lost.files().segment(second)).expect("removed");
    let report = check(&lost.files());
    assert_eq!(
        (report.verdict, named(&report)),
        (Verdict::Incomplete, vec![second]),
        "{:?}",
        report.findings
    );
    assert!(lost.try_open().is_err());

    let first = home.copy_all();
    std::fs::remove_file(first.files().ledger()).expect("removed");
    assert_eq!(check(&first.files()).verdict, Verdict::Incomplete);

    let swapped = home.copy_all();
    let (a, b) = (swapped.files().segment(second), swapped.files().segment(third));
    let aside = a.with_extension("aside");
    std::fs::rename(&a, &aside).expect("renamed");
    std::fs::rename(&b, &a).expect("renamed");
    std::fs::rename(&aside, &b).expect("renamed");
    assert!(!check(&swapped.files()).verdict.holds());

    let tail = home.copy_all();
    std::fs::remove_file(tail.files().segment(*firsts.last().expect("last"))).expect("removed");
    assert_eq!(check(&tail.files()).verdict, Verdict::Incomplete);

    // A second file for entries that exist already.
    let fork = home.copy_all();
    std::fs::copy(fork.files().segment(third), fork.files().segment(third + 1)).expect("copied");
    assert!(!check(&fork.files()).verdict.holds());

    // One file made of two: nothing is lost, but it is not what was written. The last one has no
    // seal that would show it.
    let newest = *firsts.last().expect("last");
    for (into, from) in [(0, second), (firsts[firsts.len() - 2], newest)] {
        let merged = home.copy_all();
        let other = merged.files().segment(from);
        pour(&other, &merged.files().segment(into), 0);
        std::fs::remove_file(&other).expect("removed");
        assert_eq!(check(&merged.files()).verdict, Verdict::Invalid, "{from} into {into}");
    }

    // Two files made of one; the first of them has no seal.
    let cut = home.copy_all();
    let (whole, part) = (cut.files().segment(newest), cut.files().segment(newest + 2));
    drop(store::open_writer(&part, store::Database::Ledger).expect("made"));
    pour(&whole, &part, newest + 2);
    let delete = "DELETE FROM entry WHERE seq >= ?1; DELETE FROM payload WHERE seq >= ?1";
    for sql in delete.split("; ") {
        connect(&whole).execute(sql, [number(newest + 2)]).expect("deleted");
    }
    connect(&whole).execute("DELETE FROM checkpoint WHERE size > ?1", [number(newest + 2)]).expect("deleted");
    let report = check(&cut.files());
    assert_eq!(
        (report.verdict, named(&report)),
        (Verdict::Invalid, vec![newest + 2]),
        "{:?}",
        report.findings
    );
}

fn number(seq: u64) -> i64 {
    i64::try_from(seq).expect("seq")
}

/// Copies the entries from `first` on, and their payloads, tiles and checkpoints, from one file
/// into another.
fn pour(from: &Path, to: &Path, first: u64) {
    let db = connect(&to.to_owned());
    db.execute("ATTACH ?1 AS other", [from.to_str()]).expect("attached");
    for table in ["entry", "payload"] {
        let sql = format!("INSERT INTO main.{table} SELECT * FROM other.{table} WHERE seq >= ?1");
        db.execute(&sql, [number(first)]).expect("copied");
    }
    db.execute("INSERT INTO main.tile SELECT * FROM other.tile", []).expect("copied");
    db.execute("INSERT OR REPLACE INTO main.checkpoint SELECT * FROM other.checkpoint", []).expect("copied");
}

#[test]
fn verification_from_an_entry_walks_segments_too() {
    let (_home, files) = filled(120);
    let reader = Reader::open(&files.ledger()).expect("reader");
    let note = reader.newest_checkpoint().expect("read").expect("there");
    let note = crate::ledger::Note::parse(&note).expect("note");
    let outside = crate::ledger::Outside { from: "kept".to_owned(), note, key: None };
    let firsts = files.segments().expect("segments");
    for from in [1, firsts[1] - 1, firsts[1], firsts[1] + 1, firsts[2], firsts[3] + 3] {
        let report = audit_from(&files, from, std::slice::from_ref(&outside), &|_, _| {});
        assert_eq!(report.verdict, Verdict::Verified, "{from}: {:?}", report.findings);
    }
}

#[test]
fn a_payload_of_a_sealed_segment_is_erased_in_every_file() {
    let home = LedgerHome::empty();
    let files = files(&home, None);
    let ledger = open(&files);
    let marker = "the-password-is-ux7Qm2-and-some-more-of-it";
    let run = RunId::generate();
    let draft = |kind, payload| Draft { run: Some(run.clone()), ..Draft::untyped(kind, payload) };
    let drafts = vec![
        draft(Kind::RunRequest, json!({ "message": marker.repeat(20) })),
        Draft { status: Some("done"), ..draft(Kind::RunReply, json!({ "answer": "nothing" })) },
    ];
    let receipts = ledger.append_blocking(drafts).expect("appended");
    let seq = receipts[0].seq();
    fill(&ledger, 60);
    until("the segment is sealed", || files.segments().expect("segments").len() > 1);
    let erasure = Erasure {
        targets: Targets::Entries(vec![seq]),
        reason: "asked for by its owner".to_owned(),
        principal: "os:root".to_owned(),
        power: None,
    };
    let redacted = ledger.redact(&erasure).expect("redacted");
    assert_eq!(redacted.left, Vec::<String>::new());
    assert!(ledger.reader().entry(seq).expect("read").expect("there").body.is_none());
    assert!(matches!(ledger.redact(&erasure), Err(crate::ledger::RedactError::Kept(_))));
    let report = check(&files);
    assert!(report.verdict.holds(), "{:?}", report.findings);
    assert_eq!((report.redacted, report.warnings.len()), (1, 0), "{:?}", report.warnings);
    for entry in std::fs::read_dir(&files.data).expect("folder") {
        let path = entry.expect("entry").path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(20).any(|window| marker.as_bytes().starts_with(window)), "{}", path.display());
    }
    assert!(!files.data.join("erasing").exists());
}

#[test]
fn an_interrupted_erasure_is_finished_by_the_next_start() {
    let (_home, files) = filled(60);
    let size = check(&files).entries;
    let lock = Lock::take(&files, Duration::from_secs(5)).expect("lock");
    let ledger = Ledger::open(files.clone(), lock, &PROJECTIONS).expect("ledger");
    // The mark and the entry, as left by a crash before the rows are emptied.
    std::fs::write(files.data.join("erasing"), format!("{size}\n")).expect("mark");
    let redaction = Draft {
        answers: Some(crate::ledger::Ref::Seq(2)),
        ..Draft::untyped(Kind::Redaction, json!({ "reason": "r", "kind": "run.request", "bytes": 1 }))
    };
    let _receipts = ledger.append_blocking(vec![redaction]).expect("appended");
    drop(ledger);
    drop(Lock::take(&files, Duration::from_secs(5)).expect("the writer ends"));
    let report = check(&files);
    assert!(
        report.verdict.holds() && report.warnings.iter().any(|w| w.contains("still there")),
        "{report:?}"
    );
    drop(open(&files));
    let report = check(&files);
    assert!(report.verdict.holds() && report.redacted == 1, "{report:?}");
    assert!(!report.warnings.iter().any(|w| w.contains("still there")), "{report:?}");
    assert!(!files.data.join("erasing").exists());
}

/// A failed erasure is not forgotten when the next one succeeds.
#[test]
fn a_failed_erasure_is_done_with_the_next() {
    let (_home, files) = filled(60);
    let ledger = open(&files);
    let redaction = |seq| Draft {
        answers: Some(crate::ledger::Ref::Seq(seq)),
        ..Draft::untyped(Kind::Redaction, json!({ "reason": "r", "kind": "run.request", "bytes": 1 }))
    };
    // The state after a failure that follows the entry.
    std::fs::write(files.data.join("erasing"), format!("{}\n", ledger.head().size)).expect("mark");
    let _receipts = ledger.append_blocking(vec![redaction(2)]).expect("appended");
    let erasure = Erasure {
        targets: Targets::Entries(vec![7]),
        reason: "asked for by its owner".to_owned(),
        principal: "os:root".to_owned(),
        power: None,
    };
    let redacted = ledger.redact(&erasure).expect("redacted");
    assert_eq!(redacted.entries.len(), 1);
    let body = |seq| ledger.reader().entry(seq).expect("read").expect("there").body;
    assert_eq!((body(2), body(7)), (None, None));
    assert!(!files.data.join("erasing").exists());
    let report = check(&files);
    assert!(report.verdict.holds() && report.redacted == 2, "{report:?}");
}

#[test]
fn old_payloads_are_dropped_and_every_header_is_still_proven() {
    let (home, files) = filled(120);
    let root = check(&files).root;
    let firsts = files.segments().expect("segments");
    let bytes = std::fs::metadata(files.ledger()).expect("file").len();

    let files = self::files(&home, Some(1));
    // A run that has not ended keeps its segment; later segments are dropped all the same.
    let ledger = open(&files);
    let sealed = firsts.len() as u64 - 1;
    until("the payloads are dropped", || {
        let entry = |first: u64| ledger.reader().entry(first + 2).expect("read").expect("there");
        firsts[1..firsts.len() - 1].iter().chain([&0]).all(|first| entry(*first).body.is_none())
    });
    fill(&ledger, 2);
    let report = check(&files);
    assert!(report.verdict.holds(), "{:?}", report.findings);
    assert!(report.dropped > 500, "{report:?}");
    assert!(std::fs::metadata(files.ledger()).expect("file").len() < bytes);
    let drops = ledger.reader().headers(
        &Filter::parse("kind:payload.drop").expect("filter"),
        0,
        Order::Ascending,
        99,
        9_999,
    );
    assert_eq!(drops.expect("headers").0.len() as u64, sealed);

    // Payloads that keys are rebuilt from stay, and every header can be proven against the newest
    // root.
    assert!(ledger.reader().entry(1).expect("read").expect("there").body.is_some());
    let key = ledger.reader().log_key().expect("key");
    for seq in (0..firsts[3]).step_by(11) {
        let proof = ledger.reader().prove(None, &[seq]).expect("proof");
        assert!(proof.check(&key).is_ok(), "{seq}");
    }
    drop(ledger);
    drop(Lock::take(&files, Duration::from_secs(5)).expect("the writer ends"));

    // A missing state.db is rebuilt from the rest.
    for end in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(format!("{}{end}", files.state().display())));
    }
    drop(open(&files));
    let report = check(&files);
    assert!(report.verdict.holds(), "{:?}", report.findings);
    assert_ne!(report.root, root);

    // A payload that is missing without an entry that records it.
    let reader = Reader::open(&files.ledger()).expect("reader");
    let entry = |seq: u64| reader.entry(seq).expect("read").expect("there");
    let may_go = |seq: &u64| entry(*seq).body.is_some() && entry(*seq).header.is_expirable();
    let seq = (0..report.entries).rev().find(may_go).expect("a payload");
    let newest = files.segments().expect("segments").into_iter().rev().find(|first| *first <= seq);
    let db = connect(&files.segment(newest.expect("segment")));
    let row = i64::try_from(seq).expect("seq");
    db.execute("UPDATE payload SET salt = NULL, body = NULL WHERE seq = ?1", [row]).expect("erased");
    drop(db);
    let report = check(&files);
    assert_eq!((report.verdict, named(&report)), (Verdict::Invalid, vec![seq]));
}

/// A drop that a reader prevents happens when the reader ends.
#[test]
fn a_reader_in_the_way_of_a_drop_is_waited_for() {
    let (home, files) = filled(60);
    let reader = connect(&files.ledger());
    reader.execute_batch("PRAGMA journal_mode = WAL; BEGIN; SELECT count(*) FROM entry").expect("reads");
    let files = self::files(&home, Some(1));
    let ledger = open(&files);
    std::thread::sleep(Duration::from_millis(3_500));
    let body = || ledger.reader().entry(2).expect("read").expect("there").body;
    assert!(body().is_some());
    drop(reader);
    until("its payloads are dropped", || body().is_none());
    assert!(check(&files).verdict.holds());
}

#[test]
fn a_segment_with_a_run_that_has_not_ended_keeps_its_payloads() {
    let home = LedgerHome::empty();
    let files = files(&home, Some(1));
    let ledger = open(&files);
    let run = RunId::generate();
    let draft = |kind, payload| Draft { run: Some(run.clone()), ..Draft::untyped(kind, payload) };
    let open_run = draft(Kind::RunRequest, json!({ "message": "wait for a person" }));
    let receipts = ledger.append_blocking(vec![open_run]).expect("appended");
    let seq = receipts[0].seq();
    fill(&ledger, 60);
    until("the segment is sealed", || files.segments().expect("segments").len() > 1);
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(ledger.reader().entry(seq).expect("read").expect("there").body.is_some());
    let reply = Draft { status: Some("done"), ..draft(Kind::RunReply, json!({ "answer": "thanks" })) };
    let _receipts = ledger.append_blocking(vec![reply]).expect("appended");
    until("its payloads are dropped", || {
        ledger.reader().entry(seq).expect("read").expect("there").body.is_none()
    });
    assert!(check(&files).verdict.holds());
}

/// The index follows across files, and forgets what is dropped for its age.
#[test]
fn the_index_follows_from_file_to_file_and_forgets_with_them() {
    let home = LedgerHome::empty();
    let files = files(&home, Some(1));
    let ledger = open(&files);
    let index = ledger.index().expect("index");
    fill(&ledger, 60);
    until("the first segment is sealed", || files.segments().expect("segments").len() > 1);
    let words = Filter::parse("\"says line\" kind:run.request").expect("filter");
    let seqs = |headers: Vec<crate::ledger::Header>| {
        headers.into_iter().map(|header| header.seq).collect::<Vec<_>>()
    };
    let by_index = || seqs(index.headers(&words, 0, Order::Ascending, 999, 9_999).expect("read").headers);
    let by_scan = || seqs(ledger.reader().headers(&words, 0, Order::Ascending, 999, 9_999).expect("read").0);
    let follow = || while index.follow().expect("followed") > 0 {};
    follow();
    let request = |seq: u64| ledger.reader().entry(seq).expect("read").expect("there");
    until("its payloads are dropped", || request(1).body.is_none());
    fill(&ledger, 2);
    until("the index forgets them", || {
        follow();
        let found = by_index();
        !found.contains(&1) && found == by_scan()
    });
    assert!(!by_index().is_empty());
    let complete = index.complete().expect("complete");
    assert!(complete.unsound.is_empty(), "{complete:?}");
}
