//! Counts by time and the lines of runs equal what a scan of the ledger counts, whatever was done
//! to ledger and index.

use super::query::drafts;
use super::{LedgerHome, call_drafts, connect};
use crate::ledger::query::{CountedEntries, KeyNames, SPAN_US};
use crate::ledger::{Draft, Erasure, Files, Filter, Index, Kind, Ledger, Lock, Order, Rotation, Targets};
use crate::types::RunId;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The fields that entries are counted by.
type By = (u64, String, String, String, String, String);

/// What a person counts who reads every header.
fn scanned(ledger: &Ledger) -> BTreeMap<By, u64> {
    let everything = Filter::default();
    let (headers, next) =
        ledger.reader().headers(&everything, 0, Order::Ascending, usize::MAX, usize::MAX).expect("read");
    assert_eq!(next, None);
    let mut counts = BTreeMap::new();
    for header in headers {
        let text = |name: &str| header.str(name).unwrap_or_default().to_owned();
        let tool = if text("decision") == "invalid" { String::new() } else { text("tool") };
        let at = header.u64("wall_us").expect("time") / SPAN_US;
        let by = (at, header.kind.clone(), text("decision"), text("status"), tool, text("principal"));
        *counts.entry(by).or_default() += 1;
    }
    counts
}

fn counted(index: &Index) -> BTreeMap<By, u64> {
    while index.follow().expect("followed") > 0 {}
    let (counts, _) = index.counts(0).expect("counts");
    let by = |c: CountedEntries| ((c.at, c.kind, c.decision, c.status, c.tool, c.principal), c.n);
    counts.into_iter().map(by).collect()
}

/// A home whose segments are short, so that it rotates.
fn open_short(home: &LedgerHome) -> (Files, Ledger) {
    let rotation = Rotation { segment_bytes_max: 64 << 10, segment_ms_max: None, payload_ms_max: None };
    let files = Files { rotation, ..home.files() };
    let lock = Lock::take(&files, Duration::from_secs(5)).expect("lock");
    let ledger = Ledger::open(files.clone(), lock, &super::PROJECTIONS).expect("ledger");
    (files, ledger)
}

proptest! {
    #![proptest_config(crate::types::laws::cases(8))]

    /// For random ledgers, with erasures, rotations, lost indexes and edited lines in between.
    #[test]
    fn counts_equal_a_scan(
        entries in vec(vec(drafts(), 1..60), 1..6), runs in 0_usize..40, clear_at in 0_usize..8, edit_at in 0_usize..8,
    ) {
        let home = LedgerHome::empty();
        let (files, ledger) = open_short(&home);
        let index = Index::open(&files).expect("index");
        for at in 0..runs {
            let _receipts = ledger.append_blocking(call_drafts(at)).expect("appended");
        }
        for (at, batch) in entries.into_iter().enumerate() {
            let _receipts = ledger.append_blocking(batch).expect("appended");
            prop_assert_eq!(counted(&index), scanned(&ledger));
            if at == clear_at {
                index.clear().expect("cleared");
            }
            if at == edit_at {
                connect(&files.index()).execute_batch("UPDATE line SET tool = 'other' WHERE seq = 1; DELETE FROM counted;")
                    .expect("edited");
                index.complete().expect("mended");
            }
        }
        if runs > 0 {
            let (reason, principal) = ("a test".to_owned(), "os:root".to_owned());
            let erasure = Erasure { targets: Targets::Entries(vec![1]), reason, principal, power: None };
            let _redacted = ledger.redact(&erasure).expect("erased");
        }
        prop_assert_eq!(counted(&index), scanned(&ledger));
        let before = counted(&index);
        drop(index);
        let rebuilt = Index::rebuild(&files).expect("rebuilt");
        prop_assert_eq!(counted(&rebuilt), before);
    }
}

/// Queries, and which of the three runs they find.
const WANTED: &[(&str, &[usize])] = &[
    ("", &[0, 1, 2]),
    ("nginx", &[0, 2]),
    ("\"nginx is\"", &[2]),
    ("ngin*", &[0, 2]),
    ("ben", &[0, 2]),
    ("deploy", &[]),
    ("-deploy", &[0, 1, 2]),
    ("\"log deploy\"", &[]),
    ("user:ben", &[0, 2]),
    ("user:root", &[1]),
    ("user:ops-ci", &[]),
    ("-user:ben", &[1]),
    ("ops-ci", &[0, 2]),
    ("root", &[1]),
    ("key:ops-ci", &[0, 2]),
    ("key:ZcTr354w nginx -tool:service_restart", &[0]),
    ("principal:os:root", &[1]),
    ("tool:service_*", &[2]),
    ("tool:read_file", &[0, 1]),
    ("tool:read", &[]),
    ("tool:read_file tool:service_restart", &[0, 1, 2]),
    ("decision:deny", &[2]),
    ("-decision:deny", &[0, 1]),
    ("status:done", &[0, 1, 2]),
    ("status:ok", &[0, 1]),
    ("kind:call.result", &[0, 1]),
    ("since:2100-01-01", &[]),
    ("until:2100-01-01 nginx", &[0, 2]),
    ("nothing like it", &[]),
];

/// Runs are found by words of the question, by names, tools and outcomes, and not by words that
/// were erased (A9). The tools that a run was offered are not words of it.
#[test]
fn runs_are_found_by_what_people_know_of_them() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let mut runs: Vec<RunId> = Vec::new();
    for (at, message) in ["restart nginx please", "what is in the log", "nginx is slow"].iter().enumerate() {
        let mut drafts = call_drafts(at);
        drafts[0] = Draft {
            run: drafts[0].run.clone(),
            principal: Some(if at == 1 { "os:root" } else { "key:ZcTr354w" }.to_owned()),
            ..Draft::untyped(
                Kind::RunRequest,
                json!({ "message": message, "tools": ["deploy", "read_file"] }),
            )
        };
        if at == 2 {
            drafts[2].decision = Some("deny");
            drafts[2].tool = Some("service_restart".to_owned());
            drafts.remove(3);
        }
        runs.extend(drafts[0].run.clone());
        let _receipts = ledger.append_blocking(drafts).expect("appended");
    }
    let index = ledger.index().expect("index");
    let names = KeyNames::new([("ZcTr354w".to_owned(), "ops-ci".to_owned(), Some("ben".to_owned()))]);
    let found = |query: &str| -> Vec<usize> {
        let filter = Filter::of_runs(query).expect("a query");
        let (lines, covered) = index.runs(&filter, &names, None, 10).expect("searched");
        assert_eq!(covered, ledger.head().size);
        let place = |line: &str| runs.iter().position(|run| run.as_str() == line).expect("known");
        let mut found: Vec<usize> = lines.iter().map(|line| place(&line.run)).collect();
        found.sort_unstable();
        found
    };
    for (query, expect) in WANTED {
        assert_eq!(found(query), *expect, "{query}");
    }
    let mut sorted: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    sorted.sort_unstable();
    let (lines, _) = index.runs(&Filter::default(), &names, Some(sorted[2]), 1).expect("searched");
    assert_eq!((lines[0].run.as_str(), lines[0].calls), (sorted[1], 1));
    let third = index.run_lines([runs[2].as_str()].into_iter()).expect("read");
    assert_eq!((third[0].denied, third[0].tools.join(",")), (1, "service_restart".to_owned()));
    let (reason, principal) = ("a test".to_owned(), "os:root".to_owned());
    let log = index.run_lines([runs[1].as_str()].into_iter()).expect("read");
    let targets = Targets::Entries(vec![log[0].first, 1]);
    let _redacted = ledger.redact(&Erasure { targets, reason, principal, power: None }).expect("erased");
    assert!(found("restart").is_empty());
    assert_eq!(found("nginx"), [2]);
}

/// A call that is not valid was not denied, and neither was one for which another question is open.
#[test]
fn only_denials_count_as_denied() {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let mut runs: Vec<RunId> = Vec::new();
    let refusals = [("invalid", "schema"), ("deny", "policy"), ("deny", "asked"), ("deny", "person")];
    for (at, (decision, status)) in refusals.into_iter().enumerate() {
        let mut drafts = call_drafts(at);
        drafts[2].decision = Some(decision);
        drafts[2].status = Some(status);
        drafts.remove(3);
        runs.extend(drafts[0].run.clone());
        let _receipts = ledger.append_blocking(drafts).expect("appended");
    }
    let index = ledger.index().expect("index");
    let counts: Vec<(u64, u64, u64)> = runs
        .iter()
        .map(|run| index.run_lines([run.as_str()].into_iter()).expect("read").remove(0))
        .map(|line| (line.denied, line.invalid, line.refused))
        .collect();
    assert_eq!(counts, [(0, 1, 0), (1, 0, 0), (0, 0, 0), (0, 0, 1)]);
}
