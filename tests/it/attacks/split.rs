//! Changes to a ledger of several files.

use super::{Attack, Base};
use crate::forge::connect;
use crate::support::TestHome;
use par::ledger::Reader;
use par::types::Digest;
use rusqlite::params;
use std::path::{Path, PathBuf};

/// The files of the segments, in ascending order.
pub(crate) fn segments(home: &TestHome) -> Vec<PathBuf> {
    let names = std::fs::read_dir(home.path("data")).expect("data/");
    let paths = names.map(|entry| entry.expect("entry").path());
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        name.starts_with("ledger") && name.ends_with(".db")
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_segment).collect();
    // `ledger.db` sorts after the others, but is the first.
    paths.sort();
    let behind = paths.len().min(1);
    paths.rotate_right(behind);
    paths
}

/// Makes the segments of a home small; `more` are further lines of `[ledger]`.
pub(crate) fn split(home: &TestHome, more: &str) {
    let path = home.path("etc/par.toml");
    let shipped = std::fs::read_to_string(&path).expect("par.toml");
    std::fs::write(&path, format!("{shipped}\n[ledger]\nsegment_bytes_max = 65536\n{more}"))
        .expect("par.toml");
}

/// A home whose ledger has several segments.
pub(super) fn make() -> TestHome {
    let home = TestHome::init();
    split(&home, "");
    while segments(&home).len() < 4 {
        home.expect(0, &["run", r#"list_dir(path="/var/log") read_file(path="/etc/shadow")"#]);
    }
    home.expect(0, &["run", r#"list_dir(path="/var/log")"#]);
    home
}

fn first_of(path: &Path) -> i64 {
    connect(path).query_row("SELECT min(seq) FROM entry", [], |row| row.get(0)).expect("first")
}

fn swap(a: &Path, b: &Path) {
    let aside = a.with_extension("aside");
    std::fs::rename(a, &aside).expect("renamed");
    std::fs::rename(b, a).expect("renamed");
    std::fs::rename(&aside, b).expect("renamed");
}

/// Puts all of a segment into the file of the one before it.
fn merge(first: &Path, second: &Path) {
    let db = connect(first);
    db.execute("ATTACH ?1 AS other", [second.to_str()]).expect("attached");
    db.execute_batch(
        "INSERT INTO main.entry SELECT * FROM other.entry; INSERT INTO main.payload SELECT * FROM other.payload;
         INSERT INTO main.tile SELECT * FROM other.tile;
         INSERT OR REPLACE INTO main.checkpoint SELECT * FROM other.checkpoint",
    )
    .expect("copied");
    drop(db);
    std::fs::remove_file(second).expect("removed");
}

fn newest_of(home: &TestHome) -> PathBuf {
    segments(home).pop().expect("newest")
}

fn drop_newest_checkpoint(home: &TestHome) {
    let deleted = connect(&newest_of(home)).execute("DELETE FROM checkpoint", []).expect("deleted");
    assert_eq!(deleted, 1, "the segments before keep theirs");
}

/// Changes each header of the newest segment and rechains it, with its mark: no key is needed.
fn rebuild_newest(home: &TestHome, change: impl Fn(String) -> String) {
    let path = newest_of(home);
    let db = connect(&path);
    let rows: Vec<(i64, Vec<u8>)> = {
        let mut all = db.prepare("SELECT seq, header FROM entry ORDER BY seq").expect("select");
        let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        rows.map(|row| row.expect("row")).collect()
    };
    assert!(rows.len() > 2, "something is there to be changed");
    let mut before: Option<String> = None;
    for (seq, header) in rows {
        let mut text = change(String::from_utf8(header).expect("text"));
        if let Some(before) = before {
            let at = text.find("\"prev\":\"").expect("prev") + 8;
            text.replace_range(at..at + 64, &before);
        }
        before = Some(Digest::sha256_parts(&[&[0], text.as_bytes()]).hex());
        db.execute("UPDATE entry SET header = ?2 WHERE seq = ?1", params![seq, text.as_bytes()])
            .expect("header");
    }
    drop(db);
    let reader = Reader::open(&home.path("data/ledger.db")).expect("reader");
    let head = reader.head_at(reader.size().expect("size")).expect("root");
    std::fs::write(home.path("data/high-water"), format!("{:020} {}\n", head.size, head.root)).expect("mark");
}

fn add(home: &TestHome, name: &str, bytes: &[u8]) {
    std::fs::write(home.path("data").join(name), bytes).expect("written");
}

/// The name of a segment that begins this many entries after the last one.
fn past_the_end(home: &TestHome, gap: u64) -> String {
    let size = Reader::open(&home.path("data/ledger.db")).expect("reader").size().expect("size");
    format!("ledger-{:012}.db", size + gap)
}

/// A segment with a schema and no entries, although the one before has no seal.
fn empty_segment(home: &TestHome, gap: u64) {
    let path = home.path("data").join(past_the_end(home, gap));
    std::fs::copy(newest_of(home), &path).expect("copied");
    connect(&path)
        .execute_batch("DELETE FROM entry; DELETE FROM payload; DELETE FROM tile; DELETE FROM checkpoint")
        .expect("emptied");
}

pub(super) fn all() -> Vec<Attack> {
    let one = |name: &str, act: fn(&TestHome)| Attack::new(Base::Split, name, move |home, _| act(home));
    let moved = vec![
        one("the first segment gone", |home| std::fs::remove_file(&segments(home)[0]).expect("removed")),
        one("a segment gone", |home| std::fs::remove_file(&segments(home)[1]).expect("removed")),
        one("the newest segment gone", |home| {
            std::fs::remove_file(segments(home).last().expect("newest")).expect("removed");
        }),
        one("two segments swapped", |home| swap(&segments(home)[1], &segments(home)[2])),
        one("a segment twice", |home| {
            let second = &segments(home)[1];
            let again = format!("ledger-{:012}.db", first_of(second) + 1);
            std::fs::copy(second, home.path("data").join(again)).expect("copied");
        }),
        one("a segment under a number that is too small", |home| {
            let second = &segments(home)[1];
            let before = format!("ledger-{:012}.db", first_of(second) - 1);
            std::fs::rename(second, home.path("data").join(before)).expect("renamed");
        }),
        one("two segments in one file", |home| merge(&segments(home)[0], &segments(home)[1])),
        one("the newest segment in the file before it", |home| {
            let segments = segments(home);
            merge(&segments[segments.len() - 2], &segments[segments.len() - 1]);
        }),
        one("a seal gone", |home| {
            connect(&segments(home)[1])
                .execute_batch(
                    "DELETE FROM payload WHERE seq = (SELECT max(seq) FROM entry);
                     DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
                )
                .expect("deleted");
        }),
        one("an entry of a sealed segment changed", |home| {
            connect(&segments(home)[1])
                .execute_batch(
                    "UPDATE entry SET header = (SELECT header FROM entry ORDER BY seq LIMIT 1 OFFSET 2)
                     WHERE seq = (SELECT min(seq) + 3 FROM entry)",
                )
                .expect("changed");
        }),
        one("a payload of a sealed segment erased and no entry that says so", |home| {
            connect(&segments(home)[1])
                .execute_batch(
                    "UPDATE payload SET salt = NULL, body = NULL WHERE seq = (SELECT min(seq) + 3 FROM entry)",
                )
                .expect("erased");
        }),
        one("a view in a sealed segment", |home| {
            connect(&segments(home)[1]).execute_batch("CREATE VIEW extra AS SELECT 1").expect("view");
        }),
        one("checkpoints of a sealed segment gone, and the newest", |home| {
            for path in segments(home) {
                connect(&path).execute_batch("DELETE FROM checkpoint").expect("deleted");
            }
        }),
    ];
    moved.into_iter().chain(ends()).collect()
}

/// Changes at the end of a ledger, and files next to its segments.
fn ends() -> Vec<Attack> {
    let one = |name: &str, act: fn(&TestHome)| Attack::new(Base::Split, name, move |home, _| act(home));
    vec![
        one("the newest checkpoint gone", drop_newest_checkpoint),
        one("the newest checkpoint gone, all it covered rebuilt, and the mark", |home| {
            drop_newest_checkpoint(home);
            rebuild_newest(home, |header| header.replacen("\"wall_us\":1", "\"wall_us\":2", 1));
        }),
        one("the newest checkpoint gone, all it covered rebuilt in one moment, and the mark", |home| {
            drop_newest_checkpoint(home);
            rebuild_newest(home, |header| {
                let at = header.find("\"mono_us\":").expect("a time") + 10;
                let end = at + header[at..].find(',').expect("more");
                format!("{}1{}", &header[..at], &header[end..])
            });
        }),
        one("a copy of a segment under the number 0", |home| {
            std::fs::copy(&segments(home)[1], home.path("data/ledger-000000000000.db")).expect("copied");
        }),
        one("an empty file of the number 0", |home| add(home, "ledger-000000000000.db", b"")),
        one("an empty file of a number with thirteen digits", |home| {
            add(home, "ledger-0000000000007.db", b"");
        }),
        one("an empty file of a number with three digits", |home| add(home, "ledger-007.db", b"")),
        one("an empty file of an invalid number", |home| {
            add(home, &format!("ledger-{}.db", "9".repeat(30)), b"")
        }),
        one("an empty file past the end", |home| add(home, &past_the_end(home, 0), b"")),
        one("an empty segment past the end", |home| empty_segment(home, 0)),
        one("an empty segment after a gap", |home| empty_segment(home, 7)),
    ]
}
