//! An export is checked with the key alone, and every change of it is detected.

use super::{LedgerHome, call_drafts};
use crate::ledger::export::verify::{Exported, check};
use crate::ledger::{Draft, Erasure, Export, Filter, Format, Kind, Ledger, ProofError, Targets};
use crate::types::json::canonical;
use serde_json::{Value, json};
use std::io::BufReader;

fn ledger(runs: usize) -> (LedgerHome, Ledger) {
    let home = LedgerHome::empty();
    let ledger = home.open();
    let _receipts =
        ledger.append_blocking(vec![super::key_draft("Ab3dEf9h", "ops", "operator")]).expect("appended");
    for at in 0..runs {
        let _receipts = ledger.append_blocking(call_drafts(at)).expect("appended");
    }
    (home, ledger)
}

fn export(ledger: &Ledger, query: &str, format: Format) -> String {
    let filter = Filter::parse(query).expect("a query");
    let record = ledger.record_export(&filter, format, "os:root".to_owned(), None).expect("recorded");
    let mut export = Export::open(ledger.files(), record).expect("an export");
    let mut whole = Vec::new();
    while let Some(piece) = export.piece().expect("a piece") {
        whole.extend(piece);
    }
    String::from_utf8(whole).expect("text")
}

fn checked(text: &str) -> Result<Exported, ProofError> {
    check(&mut BufReader::new(text.as_bytes()), None)
}

#[test]
fn an_export_is_checked_with_the_key_alone() {
    let (_home, ledger) = ledger(60);
    let key = ledger.reader().log_key().expect("key");
    let all = export(&ledger, "", Format::Jsonl);
    let found = check(&mut BufReader::new(all.as_bytes()), Some(&key)).expect("checks");
    // Everything but the payload of the key, which is never exported.
    assert_eq!((found.entries, found.size, found.payloads), (302, 302, 301));
    assert_eq!((found.record, found.query.as_str()), (302, ""));
    assert!(!all.contains("argon2"));
    let some = export(&ledger, "kind:call.decision -seq:0-100 \"var log\"", Format::Jsonl);
    let found = check(&mut BufReader::new(some.as_bytes()), Some(&key)).expect("checks");
    assert_eq!((found.entries, found.payloads, found.size), (40, 40, 303));
    let none = export(&ledger, "tool:nothing", Format::Jsonl);
    assert_eq!(checked(&none).expect("checks").entries, 0);
    let other = LedgerHome::filled(3);
    let stranger = other.open().reader().log_key().expect("key");
    assert!(
        check(&mut BufReader::new(all.as_bytes()), Some(&stranger))
            .expect_err("of another")
            .to_string()
            .contains("not to")
    );
}

/// Every member of every kind of line, changed in every way that its type allows; lines that are
/// missing, duplicated, reordered, or from another export.
#[test]
fn every_change_of_an_export_is_detected() {
    let (_home, ledger) = ledger(4);
    let text = export(&ledger, "tool:read_file -status:error", Format::Jsonl);
    let found = checked(&text).expect("checks");
    assert_eq!(found.entries, 8);
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let whole: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let mut refused = 0;
    let mut refuse = |text: &str, what: &str| {
        assert!(checked(text).is_err(), "{what}");
        refused += 1;
    };
    for at in [0, 1, 2, 8] {
        let line: Value = serde_json::from_str(lines[at]).expect("JSON");
        for (pointer, changed) in changes(&line) {
            let mut lines = whole.clone();
            lines[at] = canonical(&changed).expect("canonical");
            refuse(&joined(&lines), &format!("line {at}, {pointer}"));
        }
        let mut lines = whole.clone();
        lines[at] = format!(" {}", lines[at]);
        refuse(&joined(&lines), "a blank more");
    }
    for at in 0..lines.len() {
        let mut fewer = whole.clone();
        fewer.remove(at);
        refuse(&joined(&fewer), &format!("without line {at}"));
        let mut twice = whole.clone();
        twice.insert(at, whole[at].clone());
        refuse(&joined(&twice), &format!("line {at} twice"));
        if at > 1 {
            let mut swapped = whole.clone();
            swapped.swap(at - 1, at);
            refuse(&joined(&swapped), &format!("line {at} before its place"));
        }
    }
    refuse(text.trim_end(), "without its last newline");
    refuse("", "nothing");
    // A line with a valid proof, under a valid record, that does not match the recorded query.
    let other = export(&ledger, "kind:run.request", Format::Jsonl);
    let mut mixed = whole.clone();
    mixed[1] = other.lines().nth(1).expect("a line").to_owned();
    refuse(&joined(&mixed), "a line of another export");
    let mut mixed = whole.clone();
    mixed[0] = other.lines().next().expect("a line").to_owned();
    refuse(&joined(&mixed), "the head of another export");
    assert!(refused > 100, "{refused}");
}

/// Each way to change one value within `line`.
fn changes(line: &Value) -> Vec<(String, Value)> {
    fn walk(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| walk(value, &format!("{path}/{name}"), found));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| walk(item, &format!("{path}/{at}"), found));
            }
            Value::String(text) => {
                for at in [0, text.len() / 2, text.len().saturating_sub(2)] {
                    let mut bytes = text.clone().into_bytes();
                    let Some(byte) = bytes.get_mut(at) else { continue };
                    *byte = if *byte == b'0' { b'1' } else { b'0' };
                    found.push((path.to_owned(), json!(String::from_utf8_lossy(&bytes))));
                }
                found.push((path.to_owned(), json!(7)));
            }
            _ => found.push((path.to_owned(), json!("x"))),
        }
    }
    let mut found = Vec::new();
    walk(line, "", &mut found);
    let with = |(path, value): (String, Value)| {
        let mut changed = line.clone();
        *changed.pointer_mut(&path).expect("there") = value;
        (path, changed)
    };
    found.into_iter().map(with).filter(|(_, changed)| changed != line).collect()
}

/// A payload that is erased is not in a later export, and an earlier export still proves it.
#[test]
fn an_erased_payload_is_not_exported() {
    let (_home, ledger) = ledger(3);
    let before = export(&ledger, "kind:run.request", Format::Jsonl);
    let erasure = Erasure {
        targets: Targets::Entries(vec![2]),
        reason: "a name".to_owned(),
        principal: "os:root".to_owned(),
        power: None,
    };
    let _told = ledger.redact(&erasure).expect("erased");
    let found = checked(&export(&ledger, "kind:run.request", Format::Jsonl)).expect("checks");
    assert_eq!((found.entries, found.payloads), (3, 2));
    assert_eq!(checked(&before).expect("checks").payloads, 3);
}

#[test]
fn a_table_has_one_row_per_entry_and_no_formula() {
    let (_home, ledger) = ledger(1);
    let odd = Draft {
        tool: Some("=cmd|' /C calc'!A0".to_owned()),
        ..Draft::untyped(Kind::Start, json!({ "x": "a,\"b\"" }))
    };
    let _receipts = ledger.append_blocking(vec![odd]).expect("appended");
    let table = export(&ledger, "", Format::Csv);
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head = reader.headers().expect("a head").clone();
    assert_eq!((head.len(), &head[0], &head[16]), (17, "seq", "payload"));
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows.len(), 8);
    assert_eq!(&rows[7][8], "'=cmd|' /C calc'!A0");
    assert_eq!(&rows[7][16], r#"{"v":1,"x":"a,\"b\""}"#);
    assert_eq!(&rows[1][16], "", "the payload of a key");
    assert_eq!(&rows[4][2], "call.decision");
    assert!(table.lines().count() == 9 && table.ends_with("\r\n"));
}
