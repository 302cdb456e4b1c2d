//! Searches with the index agree with the ledger, however far it is and whatever was done to it.

use super::query::{drafts, typed};
use super::{LedgerHome, call_drafts, connect};
use crate::ledger::{Draft, Erasure, Filter, HeaderPage, Index, Kind, Ledger, Order, Targets};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

/// Every number of a result, page by page.
fn pages(order: Order, limit: usize, page: impl Fn(u64, usize) -> HeaderPage) -> Vec<u64> {
    let mut seqs = Vec::new();
    let mut at = Some(if order == Order::Ascending { 0 } else { u64::MAX });
    while let Some(from) = at {
        let found = page(from, limit);
        assert!(found.headers.len() <= limit);
        seqs.extend(found.headers.iter().map(|header| header.seq));
        at = found.next;
    }
    seqs
}

fn by_index(index: &Index, query: &str, order: Order, limit: usize, scan_max: usize) -> Vec<u64> {
    let filter = Filter::parse(query).expect("a query");
    pages(order, limit, |from, limit| index.headers(&filter, from, order, limit, scan_max).expect("read"))
}

fn by_scan(ledger: &Ledger, query: &str, order: Order) -> Vec<u64> {
    let filter = Filter::parse(query).expect("a query");
    pages(order, 1_000, |from, limit| {
        let (headers, next) = ledger.reader().headers(&filter, from, order, limit, usize::MAX).expect("read");
        HeaderPage { headers, next, index: None }
    })
}

/// Indexes at least `entries` entries.
fn follow(index: &Index, entries: u64) {
    let mut done = 0;
    while done < entries {
        match index.follow().expect("followed") {
            0 => break,
            more => done += more,
        }
    }
}

/// A ledger of some blocks, with different entries.
fn some_blocks() -> (LedgerHome, Ledger) {
    blocks(150)
}

/// A ledger of `runs` runs.
fn blocks(runs: usize) -> (LedgerHome, Ledger) {
    let home = LedgerHome::empty();
    let ledger = home.open();
    for at in 0..runs {
        let mut run = call_drafts(at);
        if at % 7 == 0 {
            run[2].decision = Some("deny");
            run[2].tool = Some("list_dir".to_owned());
        }
        let _receipts = ledger.append_blocking(run).expect("appended");
    }
    (home, ledger)
}

proptest! {
    #![proptest_config(crate::types::laws::cases(24))]

    /// For every query and ledger: index and scan agree, in either order and with pages of any
    /// size, also if the index lags.
    #[test]
    fn index_and_scan_agree(
        entries in vec(vec(drafts(), 1..40), 1..8), queries in vec(vec(typed(), 1..4), 1..24),
        followed in 0_usize..8, limit in 1_usize..50, scan_max in 3_usize..400,
    ) {
        let home = LedgerHome::empty();
        let ledger = home.open();
        let index = Index::open(&home.files()).expect("index");
        for (at, batch) in entries.into_iter().enumerate() {
            let _receipts = ledger.append_blocking(batch).expect("appended");
            if at < followed {
                follow(&index, 1);
            }
        }
        for query in queries {
            let query = query.join(" ");
            for order in [Order::Ascending, Order::Descending] {
                prop_assert_eq!(
                    by_index(&index, &query, order, limit, scan_max), by_scan(&ledger, &query, order), "{}", query
                );
            }
        }
    }
}

const QUERIES: [&str; 5] =
    ["tool:list_dir", "decision:allow line", "\"line 77\"", "kind:run.reply -line", "seq:250-270 tool:*"];

fn assert_agrees(index: &Index, ledger: &Ledger, what: &str) {
    for query in QUERIES {
        for order in [Order::Ascending, Order::Descending] {
            let scanned = by_scan(ledger, query, order);
            assert_eq!(by_index(index, query, order, 40, 20_000), scanned, "{what}: {query}");
        }
    }
}

fn coverage(index: &Index, query: &str) -> (u64, Vec<u64>) {
    let filter = Filter::parse(query).expect("a query");
    let found = index.headers(&filter, 0, Order::Ascending, 10_000, 20_000).expect("read");
    let coverage = found.index.expect("the index was used");
    (coverage.covered, coverage.unsound)
}

#[test]
fn a_changed_index_is_detected_and_changes_no_answer() {
    let (home, ledger) = some_blocks();
    let size = ledger.head().size;
    let reference = Index::open(&home.files()).expect("index");
    assert_eq!(reference.complete().expect("complete").covered, size);
    assert_eq!(coverage(&reference, "tool:list_dir"), (size, vec![]));
    assert_agrees(&reference, &ledger, "as it is");
    let denied = by_scan(&ledger, "tool:list_dir", Order::Ascending)[20];
    let block = denied / 256;
    // The digests are SHA-256, which SQL cannot compute: an edit of lines takes the digest of
    // another block.
    let changes = [
        format!("DELETE FROM line WHERE seq = {denied}"),
        format!("DELETE FROM line WHERE seq >= {denied}"),
        format!("UPDATE line SET tool = 'read_file' WHERE seq = {denied}"),
        format!("UPDATE line SET tool = NULL WHERE seq = {denied}"),
        format!("UPDATE line SET tool = 'list_dir' WHERE seq = {}", denied + 1),
        format!("UPDATE line SET leaf = x'00' WHERE seq = {denied}"),
        format!("UPDATE line SET seq = seq + 100000 WHERE seq = {denied}"),
        format!(
            "INSERT INTO line SELECT {size}, leaf, wall_us, kind, run, session, call, principal, decision, status, \
             tool, policy, text FROM line WHERE seq = {denied}"
        ),
        format!("UPDATE block SET digest = (SELECT digest FROM block WHERE id = 0) WHERE id = {block}"),
        format!("DELETE FROM block WHERE id = {block}"),
        "DELETE FROM line; DELETE FROM block".to_owned(),
    ];
    for change in &changes {
        connect(&home.files().index()).execute_batch(change).expect(change);
        let (covered, unsound) = coverage(&reference, "tool:list_dir");
        assert!(covered == 0 || !unsound.is_empty(), "{change}: seen");
        assert_agrees(&reference, &ledger, change);
        // The block is rebuilt, and matches at the next check.
        while reference.follow().expect("followed") > 0 {}
        assert_eq!(coverage(&reference, "tool:list_dir"), (size, vec![]), "{change}");
        assert_agrees(&reference, &ledger, change);
    }
    for change in [
        format!("DELETE FROM words WHERE rowid = {}", 77 * 5 + 1),
        format!("UPDATE words SET text = 'another' WHERE rowid = {}", 77 * 5 + 1),
        "DELETE FROM words".to_owned(),
    ] {
        connect(&home.files().index()).execute_batch(&change).expect(&change);
        assert!(!coverage(&reference, "\"line 77\"").1.is_empty(), "{change}: seen");
        assert_agrees(&reference, &ledger, &change);
        assert!(!reference.complete().expect("complete").unsound.is_empty());
        assert_eq!(coverage(&reference, "\"line 77\""), (size, vec![]), "{change}");
    }
}

/// Queries for each column, and for words.
const EACH_COLUMN: [&str; 14] = [
    "kind:call.decision",
    "kind:model.*",
    "run:run_*",
    "session:ses_*",
    "call:call_*",
    "principal:key:*",
    "key:Ab3dEf9h",
    "decision:deny",
    "status:ok",
    "tool:list_dir",
    "policy:*",
    "seq:250-270 tool:*",
    "\"line 7\"",
    "decision:allow syslog -list_dir",
];

fn assert_all_agree(index: &Index, ledger: &Ledger, what: &str) {
    for (query, order) in EACH_COLUMN.iter().zip([Order::Ascending, Order::Descending].into_iter().cycle()) {
        let scanned = by_scan(ledger, query, order);
        assert_eq!(by_index(index, query, order, 100, 20_000), scanned, "{what}: {query}");
    }
}

/// The attack: a line of the block that still grows is edited while no server runs. The next append
/// must not write a digest over it.
#[test]
fn an_append_does_not_vouch_for_a_line_that_was_edited() {
    for column in
        ["kind", "decision", "tool", "run", "session", "call", "principal", "status", "policy", "wall_us"]
    {
        let (home, ledger) = blocks(55);
        let size = ledger.head().size;
        assert!(!size.is_multiple_of(256), "the last block is not full");
        drop(Index::open(&home.files()).expect("index").complete().expect("complete"));
        let value = if column == "wall_us" { "7" } else { "'start'" };
        let edit = format!(
            "UPDATE line SET {column} = {value} WHERE {column} IS NOT NULL AND seq >= {}",
            size - size % 256
        );
        assert!(connect(&home.files().index()).execute(&edit, []).expect(&edit) > 0);
        let _more = ledger.append_blocking(call_drafts(7)).expect("appended");
        let index = Index::open(&home.files()).expect("index");
        assert_all_agree(&index, &ledger, &format!("{column}, before it follows"));
        while index.follow().expect("followed") > 0 {}
        assert_all_agree(&index, &ledger, column);
        let _more = ledger.append_blocking(call_drafts(8)).expect("appended");
        while index.follow().expect("followed") > 0 {}
        assert_all_agree(&Index::reading(&home.files()).expect("index"), &ledger, column);
        assert_eq!(coverage(&index, "kind:call.decision"), (ledger.head().size, vec![]), "{column}: rebuilt");
    }
}

/// The same for a block whose digest is written again because an entry of it was erased, while a
/// server runs and while none does.
#[test]
fn a_redaction_does_not_vouch_for_a_line_that_was_edited() {
    for is_followed_before in [true, false] {
        let (home, ledger) = blocks(55);
        let index = Index::open(&home.files()).expect("index");
        index.complete().expect("complete");
        let edit = "UPDATE line SET decision = 'allow', tool = 'x', text = NULL WHERE seq BETWEEN 3 AND 200";
        if is_followed_before {
            assert_all_agree(&index, &ledger, "before");
        }
        connect(&home.files().index()).execute_batch(edit).expect("edited");
        let erasure = Erasure {
            targets: Targets::Entries(vec![211]),
            reason: "a password".to_owned(),
            principal: "os:root".to_owned(),
            power: None,
        };
        let _redacted = ledger.redact(&erasure).expect("erased");
        assert_all_agree(&Index::reading(&home.files()).expect("index"), &ledger, "by itself");
        while index.follow().expect("followed") > 0 {}
        assert_all_agree(&index, &ledger, "followed");
    }
}

/// A column of the index's own tables, with the rows in the order of their keys.
const COLUMNS: [(&str, &str); 19] = [
    ("line", "seq"),
    ("line", "leaf"),
    ("line", "wall_us"),
    ("line", "kind"),
    ("line", "run"),
    ("line", "session"),
    ("line", "call"),
    ("line", "principal"),
    ("line", "decision"),
    ("line", "status"),
    ("line", "tool"),
    ("line", "policy"),
    ("line", "text"),
    ("block", "id"),
    ("block", "digest"),
    ("covered", "size"),
    ("covered", "log"),
    ("words_content", "id"),
    ("words_content", "c0"),
];

/// One edit: a cell gets another row's value or a constant, or its row is deleted.
fn edit((table, column): (&str, &str), row: u16, other: u16, how: u8) -> String {
    let at =
        |n: u16| format!("(SELECT rowid FROM {table} LIMIT 1 OFFSET {n} % (SELECT count(*) FROM {table}))");
    match how {
        0 => format!("DELETE FROM {table} WHERE rowid = {}", at(row)),
        1 => format!("UPDATE OR REPLACE {table} SET {column} = 'allow' WHERE rowid = {}", at(row)),
        2 => format!("UPDATE OR REPLACE {table} SET {column} = NULL WHERE rowid = {}", at(row)),
        3 => format!("UPDATE OR REPLACE {table} SET {column} = {other} WHERE rowid = {}", at(row)),
        _ => format!(
            "UPDATE OR REPLACE {table} SET {column} = (SELECT {column} FROM {table} WHERE rowid = {}) WHERE rowid = {}",
            at(other),
            at(row)
        ),
    }
}

proptest! {
    #![proptest_config(crate::types::laws::cases(8))]

    /// Whatever cells of the tables are edited, while the index is open or closed: no result
    /// changes, not even after the ledger has grown and the index has followed.
    #[test]
    fn no_edit_of_any_column_changes_an_answer(
        edits in vec((select(&COLUMNS), any::<u16>(), any::<u16>(), 0_u8..8), 1..6), is_open in any::<bool>(),
    ) {
        let (home, ledger) = blocks(55);
        let first = Index::open(&home.files()).expect("index");
        first.complete().expect("complete");
        let index = if is_open { first } else { drop(first); Index::open(&home.files()).expect("index") };
        if is_open {
            assert_all_agree(&index, &ledger, "as it is");
        }
        let db = connect(&home.files().index());
        db.execute_batch("PRAGMA ignore_check_constraints = 1").expect("as it is");
        let edits: Vec<String> = edits.into_iter().map(|(column, row, other, how)| edit(column, row, other, how)).collect();
        for edit in &edits {
            // SQLite itself refuses a value of another type than the column's.
            let _refused = db.execute_batch(edit);
        }
        let what = edits.join("; ");
        assert_all_agree(&index, &ledger, &what);
        let _more = ledger.append_blocking(call_drafts(7)).expect("appended");
        for _ in 0..8 {
            // Without its row, `covered` cannot be updated.
            let _odd = index.follow();
        }
        assert_all_agree(&index, &ledger, &what);
        match Index::reading(&home.files()) {
            Ok(reading) => assert_all_agree(&reading, &ledger, &what),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// A page for a range of numbers begins at the range, however many entries come before it.
#[test]
fn numbers_are_found_on_the_first_page() {
    let (home, ledger) = some_blocks();
    let index = Index::open(&home.files()).expect("index");
    index.complete().expect("complete");
    for query in ["seq:250-255", "seq:250-255 kind:*", "seq:250-252 seq:253-255", "seq:250-255 -tool:nothing"]
    {
        let filter = Filter::parse(query).expect("a query");
        for (order, from) in [(Order::Ascending, 0), (Order::Descending, u64::MAX)] {
            let mut expect: Vec<u64> = (250..=255).collect();
            if order == Order::Descending {
                expect.reverse();
            }
            let seqs =
                |headers: Vec<crate::ledger::Header>| headers.iter().map(|one| one.seq).collect::<Vec<_>>();
            let found = index.headers(&filter, from, order, 10, 20).expect("read");
            assert_eq!((seqs(found.headers), found.next), (expect.clone(), None), "{query}");
            let (headers, next) = ledger.reader().headers(&filter, from, order, 10, 20).expect("read");
            assert_eq!((seqs(headers), next), (expect, None), "{query}");
        }
    }
}

/// A file that is not an index, a missing file, an index of another log: each is rebuilt, and until
/// then the ledger is read.
#[test]
fn an_index_can_be_lost() {
    let (home, ledger) = some_blocks();
    let size = ledger.head().size;
    let index = Index::open(&home.files()).expect("index");
    follow(&index, 256);
    let covered = coverage(&index, "tool:list_dir").0;
    assert!(covered >= 256 && covered < size);
    assert_agrees(&index, &ledger, "lagging");

    std::fs::remove_file(home.files().index()).expect("removed");
    assert_agrees(&index, &ledger, "removed under it");
    assert_eq!(index.complete().expect("complete").covered, size);
    assert!(home.files().index().exists());
    drop(index);

    let other = LedgerHome::filled(400);
    let foreign = Index::open(&other.files()).expect("index");
    assert_eq!(foreign.complete().expect("complete").covered, 402);
    drop(foreign);
    std::fs::remove_file(home.files().index()).expect("removed");
    std::fs::copy(other.files().index(), home.files().index()).expect("copied");
    let index = Index::open(&home.files()).expect("index");
    assert_eq!(coverage(&index, "tool:list_dir"), (0, vec![]));
    assert_agrees(&index, &ledger, "of another log");
    assert_eq!(index.complete().expect("complete").covered, size);
    assert_agrees(&index, &ledger, "rebuilt");
    drop(index);

    std::fs::write(home.files().index(), vec![b'x'; 9_000]).expect("written");
    let index = Index::open(&home.files()).expect("index");
    assert_eq!(index.complete().expect("complete").covered, size);
    index.clear().expect("cleared");
    assert_eq!(coverage(&index, "tool:list_dir").0, 0);
    assert_eq!(index.complete().expect("complete").covered, size);
    assert_agrees(&index, &ledger, "cleared");
}

/// After a redaction the words are in no file any more, and cannot be found, even if the index
/// lagged.
#[test]
fn erased_words_leave_the_index_too() {
    const WORDS: [&str; 3] = ["Sesame7f3a", "quetzalcoatlus", "zzyzxroad2077"];
    for has_index in [true, false] {
        let (home, ledger) = some_blocks();
        let secret = |at: usize| {
            let mut run = call_drafts(at);
            let message = json!({ "message": format!("log in with {}", WORDS.join(", ")) });
            run[0].body = Draft::untyped(run[0].body.kind(), message).body;
            run
        };
        let receipts = ledger.append_blocking(secret(0)).expect("appended");
        let seq = receipts[0].seq();
        let _more = ledger.append_blocking(vec![Draft::untyped(Kind::Start, json!({ "command": "x" }))]);
        let index = Index::open(&home.files()).expect("index");
        follow(&index, if has_index { u64::MAX } else { 300 });
        assert_eq!(by_index(&index, "sesame7f3a", Order::Ascending, 9, 20_000), [seq]);
        let erasure = Erasure {
            targets: Targets::Entries(vec![seq]),
            reason: "a password".to_owned(),
            principal: "os:root".to_owned(),
            power: None,
        };
        let report = ledger.redact(&erasure).expect("erased");
        assert!(report.left.is_empty(), "{:?}", report.left);
        for name in ["index.db", "index.db-wal", "ledger.db", "ledger.db-wal"] {
            let bytes = std::fs::read(home.folder.path().join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).to_lowercase();
            for word in WORDS {
                assert!(!text.contains(&word.to_lowercase()), "{word} in {name}, {has_index}");
            }
        }
        assert!(by_index(&index, "sesame7f3a", Order::Ascending, 9, 20_000).is_empty());
        let complete = index.complete().expect("complete");
        assert_eq!((complete.covered, complete.unsound), (ledger.head().size, vec![]));
        assert_eq!(
            by_index(&index, "-sesame7f3a kind:run.request", Order::Ascending, 99, 20_000).last(),
            Some(&seq)
        );
        assert_agrees(&index, &ledger, "after a redaction");
    }
}
