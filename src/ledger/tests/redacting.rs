//! Erased payloads are in no file any more, and nothing else has changed.

use super::{LedgerHome, assert_verified, connect, key_draft, named};
use crate::ledger::{Draft, Erasure, Kind, Ledger, RedactError, Redacted, Ref, Targets, Verdict};
use crate::types::{CallId, RunId, SessionId};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MARKER: &str = "the-password-is-ux7Qm2";

/// A text with the marker on each of its lines.
fn marked(lines: usize) -> String {
    (0..lines).map(|line| format!("{line}: {MARKER}, and more of it\n")).collect()
}

/// A run that has ended. Its result has `lines` lines with the marker; other entries do not have
/// the marker.
fn run(ledger: &Ledger, lines: usize, status: &'static str) -> (RunId, Vec<u64>) {
    let (run, session, call) = (RunId::generate(), SessionId::generate(), CallId::generate());
    let draft = |kind, payload| Draft {
        run: Some(run.clone()),
        session: Some(session.clone()),
        ..Draft::untyped(kind, payload)
    };
    let first = ledger.head().size;
    let drafts = vec![
        draft(Kind::RunRequest, json!({ "message": "what is new?" })),
        Draft {
            decision: Some("allow"),
            call: Some(call.clone()),
            ..draft(Kind::CallDecision, json!({ "arguments": {} }))
        },
        Draft {
            status: Some("ok"),
            call: Some(call),
            answers: Some(Ref::Seq(first + 1)),
            ..draft(Kind::CallResult, json!({ "result": { "text": marked(lines) } }))
        },
        Draft { status: Some(status), ..draft(Kind::RunReply, json!({ "answer": "nothing" })) },
    ];
    let receipts = ledger.append_blocking(drafts).expect("appended");
    (run, receipts.iter().map(crate::ledger::Receipt::seq).collect())
}

fn erasure(targets: Targets) -> Erasure {
    let reason = "asked for by its owner".to_owned();
    Erasure { targets, reason, principal: "os:root".to_owned(), power: None }
}

fn redact(ledger: &Ledger, seqs: &[u64]) -> Result<Redacted, RedactError> {
    ledger.redact(&erasure(Targets::Entries(seqs.to_vec())))
}

/// Files of `data/` whose raw bytes hold the marker.
fn found(home: &LedgerHome) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(home.folder.path()).expect("folder") {
        let path = entry.expect("entry").path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        if bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()) {
            found.push(path.file_name().expect("name").to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

fn state(home: &LedgerHome) -> Vec<String> {
    let db = connect(&home.files().state());
    let mut rows = Vec::new();
    for table in ["api_key", "open_call", "run", "approval"] {
        let mut statement = db.prepare(&format!("SELECT * FROM {table}")).expect("table");
        let columns = statement.column_count();
        let read = statement.query_map([], |row| {
            Ok((0..columns).map(|at| format!("{:?} ", row.get_ref(at).expect("cell"))).collect::<String>())
        });
        rows.extend(read.expect("rows").map(|row| format!("{table} {}", row.expect("row"))));
    }
    rows
}

/// What SQLite does by itself: the row is empty, and the words are still in the file.
#[test]
fn an_empty_row_alone_leaves_the_words_in_the_files() {
    for lines in [1, 400] {
        let home = LedgerHome::empty();
        let (_, seqs) = run(&home.open(), lines, "done");
        home.settle();
        let db = home.db();
        let erase = format!("UPDATE payload SET salt = NULL, body = NULL WHERE seq = {}", seqs[2]);
        db.execute_batch(&format!("PRAGMA secure_delete = OFF; {erase}")).expect("erased");
        drop(db);
        home.settle();
        assert_eq!(found(&home), ["ledger.db"], "{lines}");
    }
}

#[test]
fn an_erased_payload_is_in_no_file() {
    for (lines, moved) in [(1, false), (1, true), (40, false), (400, true), (400, false), (40_000, true)] {
        let home = LedgerHome::empty();
        let ledger = home.open();
        let _receipts =
            ledger.append_blocking(vec![key_draft("Ab3dEf9h", "ops", "operator")]).expect("appended");
        let (_, seqs) = run(&ledger, lines, "done");
        let (_, others) = run(&ledger, 0, "done");
        if moved {
            drop(ledger);
            home.settle();
        } else {
            drop(ledger);
        }
        let ledger = home.open();
        ledger.state(|_| Ok(())).expect("followed");
        let before =
            (state(&home), found(&home), ledger.reader().entry(seqs[2]).expect("entry").expect("there"));
        assert!(!before.1.is_empty(), "{lines}");
        let report = redact(&ledger, &[seqs[2]]).expect("erased");
        assert_eq!((report.left.as_slice(), report.entries.len()), (&[][..], 1), "{lines}");
        assert_eq!(report.entries[0].bytes, before.2.header.payload_len);
        assert_eq!(found(&home), Vec::<String>::new(), "{lines}, moved: {moved}");
        let after = ledger.reader().entry(seqs[2]).expect("entry").expect("there");
        assert_eq!((after.bytes, after.body), (before.2.bytes, None), "the header stays");
        let says = ledger.reader().entry(report.entries[0].redaction).expect("entry").expect("there");
        assert_eq!((says.header.kind.as_str(), says.header.u64("ref")), ("redaction", Some(seqs[2])));
        let payload: Value = serde_json::from_slice(&says.body.expect("payload")).expect("JSON");
        assert_eq!(
            (&payload["kind"], &payload["reason"]),
            (&json!("call.result"), &json!("asked for by its owner"))
        );
        for seq in others {
            assert!(ledger.reader().entry(seq).expect("entry").expect("there").body.is_some(), "{seq}");
        }
        ledger.state(|_| Ok(())).expect("followed");
        assert_eq!(state(&home), before.0);
        let report = assert_verified(&home);
        assert_eq!((report.redacted, report.state_rows.is_some()), (1, true));
        // State rebuilt from the rest is the same.
        drop(ledger);
        home.settle();
        std::fs::remove_file(home.files().state()).expect("removed");
        drop(home.open());
        home.settle();
        assert_eq!(state(&home), before.0);
        assert_eq!(assert_verified(&home).redacted, 1);
        assert_eq!(found(&home), Vec::<String>::new(), "{lines}");
    }
}

/// Words between the rows, left by an earlier version that did not fill them with zeros.
#[test]
fn content_outside_the_rows_is_erased_too() {
    let home = LedgerHome::empty();
    let (_, seqs) = run(&home.open(), 300, "done");
    home.settle();
    let db = home.db();
    let seq = seqs[2];
    db.execute_batch(&format!(
        "PRAGMA secure_delete = OFF;
         CREATE TEMP TABLE kept AS SELECT * FROM payload WHERE seq = {seq};
         DELETE FROM payload WHERE seq = {seq};
         INSERT INTO payload SELECT -1, salt, body FROM kept;
         INSERT INTO payload SELECT * FROM kept;
         DELETE FROM payload WHERE seq = -1;"
    ))
    .expect("left");
    let free: i64 = db.query_row("PRAGMA freelist_count", [], |row| row.get(0)).expect("count");
    assert!(free > 0);
    drop(db);
    home.settle();
    let ledger = home.open();
    let report = redact(&ledger, &[seq]).expect("erased");
    assert_eq!(report.left, Vec::<String>::new());
    assert_eq!(found(&home), Vec::<String>::new());
    let _more = run(&ledger, 0, "done");
    assert_eq!(assert_verified(&home).redacted, 1);
}

/// While a reader holds an older state, the report says where the words still are; once it ends,
/// they go.
#[test]
fn a_reader_in_the_way_is_reported_and_waited_for() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let (_, seqs) = run(&ledger, 400, "done");
    let reader = home.db();
    reader.execute_batch("BEGIN; SELECT count(*) FROM payload;").expect("snapshot");
    let report = redact(&ledger, &[seqs[2]]).expect("erased");
    assert!(report.left.iter().any(|left| left.contains("a reader holds them")), "{:?}", report.left);
    assert!(report.left.iter().any(|left| left.contains("holds pieces")), "{:?}", report.left);
    assert!(!found(&home).is_empty());
    assert!(ledger.reader().entry(seqs[2]).expect("entry").expect("there").body.is_none());
    drop(reader);
    let end = Instant::now() + Duration::from_secs(20);
    while !found(&home).is_empty() {
        assert!(Instant::now() < end, "it stays: {:?}", found(&home));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_verified(&home);
}

/// The process ended between the erasure and the truncation of the log: the next opening finishes
/// it.
#[test]
fn an_opening_finishes_an_interrupted_erasure() {
    let home = LedgerHome::empty();
    let (run, seqs) = run(&home.open(), 400, "done");
    home.settle();
    let reader = home.db();
    reader.execute_batch("BEGIN; SELECT count(*) FROM payload;").expect("snapshot");
    let ledger = home.open();
    let report = ledger.redact(&erasure(Targets::Run(run.to_string()))).expect("erased");
    assert_eq!((report.entries.len(), report.same_words.len()), (seqs.len(), 0));
    assert!(!report.left.is_empty());
    // As after a kill: a copy of the files as they are, including the log.
    let copy = LedgerHome { folder: tempfile::tempdir().expect("folder") };
    for name in
        ["ledger.db", "ledger.db-wal", "state.db", "state.db-wal", "high-water", "log.key", "epoch.key"]
    {
        std::fs::copy(home.folder.path().join(name), copy.folder.path().join(name)).expect("copy");
    }
    assert!(!found(&copy).is_empty());
    let opened = copy.open();
    opened.state(|_| Ok(())).expect("followed");
    let end = Instant::now() + Duration::from_secs(20);
    while !found(&copy).is_empty() {
        assert!(Instant::now() < end, "it stays: {:?}", found(&copy));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(assert_verified(&copy).redacted, 4);
}

#[test]
fn an_entry_that_must_stay_stops_the_whole_erasure() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let (_, ended) = run(&ledger, 1, "done");
    let (_, waiting) = run(&ledger, 1, "waiting");
    let kept: Vec<u64> = [
        Kind::Start,
        Kind::ConfigLoad,
        Kind::PolicyLoad,
        Kind::ToolsLoad,
        Kind::KeyCreate,
        Kind::KeyRevoke,
        Kind::KeyEpoch,
        Kind::ApprovalRequest,
        Kind::ApprovalGrant,
        Kind::ApprovalRefuse,
        Kind::Recovery,
        Kind::Stop,
    ]
    .into_iter()
    // An epoch without a key would be a finding; here only the kind of the entry counts.
    .filter(|kind| *kind != Kind::KeyEpoch)
    .map(|kind| {
        ledger.append_blocking(vec![Draft::untyped(kind, json!({ "words": "of it" }))]).expect("appended")[0]
            .seq()
    })
    .collect();
    let report = redact(&ledger, &[ended[0]]).expect("erased");
    let size = ledger.head().size;
    let check = |seq: u64, why: &str| {
        let refused = redact(&ledger, &[ended[2], seq]).expect_err(why).to_string();
        assert!(refused.contains(why) && refused.contains(&format!(" {seq}")), "{why}: {refused}");
    };
    check(0, "never erased");
    kept.iter().for_each(|seq| check(*seq, "never erased"));
    check(report.entries[0].redaction, "never erased");
    waiting.iter().for_each(|seq| check(*seq, "has not ended"));
    check(ended[0], "already erased");
    check(size + 7, "does not exist");
    for reason in ["", "  ", &"x".repeat(501), &format!("it had {MARKER} in it")] {
        let asked = Erasure { reason: reason.to_owned(), ..erasure(Targets::Entries(vec![ended[2]])) };
        assert!(matches!(ledger.redact(&asked), Err(RedactError::Invalid("reason", _))), "{reason}");
    }
    for targets in [Targets::Entries(Vec::new()), Targets::Run("run_none".to_owned())] {
        assert!(matches!(ledger.redact(&erasure(targets)), Err(RedactError::Kept(_))));
    }
    assert_eq!(ledger.head().size, size, "nothing was written");
    assert!(ledger.reader().entry(ended[2]).expect("entry").expect("there").body.is_some());
    redact(&ledger, &[ended[2], ended[2]]).expect("once, and named twice");
}

/// When two run at once, one erases, and the other reports that it was already done.
#[test]
fn one_of_two_concurrent_erasures_succeeds() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    for _ in 0..5 {
        let (_, seqs) = run(&ledger, 3, "done");
        let outcomes: Vec<bool> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(|| redact(&ledger, &seqs).is_ok())).collect();
            all.into_iter().map(|one| one.join().expect("thread")).collect()
        });
        assert_eq!(outcomes.iter().filter(|done| **done).count(), 1, "{outcomes:?}");
        assert!(ledger.obstacle().is_none());
    }
    let report = assert_verified(&home);
    assert_eq!(report.redacted, 20);
}

#[test]
fn other_entries_with_the_same_words_are_named() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let (run, seqs) = run(&ledger, 2, "waiting");
    let of_run = |kind, payload| Draft { run: Some(run.clone()), ..Draft::untyped(kind, payload) };
    let raw = json!({ "input": json!({ "q": format!("a \"{MARKER}\"") }).to_string() }).to_string();
    let drafts = vec![
        of_run(Kind::ModelReply, json!({ "raw": raw })),
        of_run(Kind::ModelReply, json!({ "raw": "something else" })),
        of_run(Kind::ApprovalRequest, json!({ "said": MARKER })),
        Draft {
            status: Some("done"),
            ..of_run(Kind::RunReply, json!({ "answer": format!("it says {MARKER}.") }))
        },
    ];
    let more: Vec<u64> =
        ledger.append_blocking(drafts).expect("appended").iter().map(crate::ledger::Receipt::seq).collect();
    let report = redact(&ledger, &[seqs[2]]).expect("erased");
    let same: Vec<(u64, bool)> =
        report.same_words.iter().map(|same| (same.seq, same.may_be_erased)).collect();
    assert_eq!(same, [(more[0], true), (more[2], false), (more[3], true)]);
    // Words that other entries hold too are not a trace of the erased payload.
    assert_eq!(report.left, Vec::<String>::new());
}

/// A missing payload and a redaction need each other.
#[test]
fn an_erasure_without_its_entry_is_found_and_so_is_the_reverse() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let (_, seqs) = run(&ledger, 2, "done");
    drop(ledger);
    home.settle();
    let judge = |home: &LedgerHome, seqs: &[u64], what: &str| {
        let report = home.audit();
        assert_eq!((report.verdict, named(&report)), (Verdict::Invalid, seqs.to_vec()), "{what}");
        assert!(report.findings[0].what.contains(what), "{:?}", report.findings);
    };
    let forged = home.copy();
    let erase = format!("UPDATE payload SET salt = NULL, body = NULL WHERE seq = {}", seqs[2]);
    forged.db().execute_batch(&erase).expect("erased");
    judge(&forged, &[seqs[2]], "no redaction names it");
    let says = |target: u64| {
        let home = home.copy();
        let draft = Draft { answers: Some(Ref::Seq(target)), ..Draft::untyped(Kind::Redaction, json!({})) };
        let seq = home.open().append_blocking(vec![draft]).expect("appended")[0].seq();
        home.settle();
        (home, seq)
    };
    judge(&says(seqs[2]).0, &[seqs[2]], "still there");
    let (later, seq) = says(500);
    judge(&later, &[seq], "names no entry before it");
    let (kept, _) = says(0);
    kept.db().execute_batch("UPDATE payload SET salt = NULL, body = NULL WHERE seq = 0").expect("erased");
    let report = kept.audit();
    assert!(report.findings.iter().any(|finding| finding.what.contains("never erased")), "{report:?}");
}
