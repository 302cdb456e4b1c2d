//! What can be done to a ledger of several files.

use super::{Attack, Base};
use crate::forge::connect;
use crate::support::TestHome;
use std::path::{Path, PathBuf};

/// The files of the segments, by rising number.
pub(crate) fn segments(home: &TestHome) -> Vec<PathBuf> {
    let names = std::fs::read_dir(home.path("data")).expect("data/");
    let paths = names.map(|entry| entry.expect("entry").path());
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        name.starts_with("ledger") && name.ends_with(".db")
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_segment).collect();
    // `ledger.db` comes behind the others by its bytes, and is the first.
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

pub(super) fn all() -> Vec<Attack> {
    let one = |name: &str, act: fn(&TestHome)| Attack::new(Base::Split, name, move |home, _| act(home));
    vec![
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
    ]
}
