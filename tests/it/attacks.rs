//! What an attacker can do to the files of a ledger: a list of changes, each applied to a copy of
//! one of a few homes.

pub(crate) mod anew;
mod copies;
pub(crate) mod split;

use crate::forge::connect;
use crate::history;
use crate::support::{TestHome, copy_folder, until};
use par::ledger::Reader;
use par::types::Digest;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The homes that are copied and changed.
pub(crate) struct Homes {
    /// A few runs of one epoch, the newest of them in `-wal` only.
    young: TestHome,
    /// `young` as it was before its last run.
    yesterday: TestHome,
    /// `yesterday` and another run.
    fork: TestHome,
    /// Three epochs; made on first use.
    old: OnceLock<TestHome>,
    /// One epoch and a full tile; made on first use.
    tall: OnceLock<TestHome>,
    /// Several segments; made on first use.
    split: OnceLock<TestHome>,
    /// Another log, with more entries than `young`.
    other: TestHome,
    /// The reply of the last run of `young`, which holds a checkpoint.
    pub(crate) kept: PathBuf,
    /// A checkpoint of `other`.
    pub(crate) foreign: PathBuf,
}

/// Which of the homes is changed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Base {
    Young,
    Old,
    Tall,
    Split,
}

/// What the changed ledger is verified against.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Against {
    Nothing,
    Kept,
    Foreign,
}

/// One change, by the name that the table shows.
pub(crate) struct Attack {
    pub(crate) name: String,
    pub(crate) base: Base,
    pub(crate) against: Against,
    /// Applied to state.db too, which otherwise only PAR could compare.
    has_state: bool,
    act: Act,
}

type Act = Box<dyn Fn(&TestHome, &Homes) + Send + Sync>;

impl Attack {
    fn new(base: Base, name: &str, act: impl Fn(&TestHome, &Homes) + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), base, against: Against::Nothing, has_state: false, act: Box::new(act) }
    }

    fn with_state(self) -> Self {
        Self { has_state: true, ..self }
    }

    fn against(self, against: Against) -> Self {
        Self { against, ..self }
    }

    /// A copy of its home with this change. Usually without state.db: only PAR can compare one.
    pub(crate) fn done(&self, homes: &Homes) -> TestHome {
        let copy = copied(homes.base(self.base));
        (self.act)(&copy, homes);
        if !self.has_state {
            forget_state(&copy);
        }
        copy
    }
}

impl Homes {
    pub(crate) fn make() -> Self {
        let young = TestHome::init();
        young.expect(0, &["run", r#"read_file(path="/etc/shadow")"#]);
        settle(&young);
        let (yesterday, fork) = (copied(&young), copied(&young));
        let reply = killed_after(&young, r#"list_dir(path="/var/log")"#);
        let kept = young.beside("kept.json");
        std::fs::write(&kept, reply).expect("kept");
        for _ in 0..3 {
            fork.expect(0, &["run", r#"read_file(path="/var/log/btmp")"#]);
        }
        let other = TestHome::init();
        for _ in 0..4 {
            other.expect(0, &["run", r#"read_file(path="/etc/shadow")"#]);
        }
        let _reply = killed_after(&other, r#"read_file(path="/etc/shadow")"#);
        assert!(newest(&other) > newest(&young) + 5, "the other log has more entries");
        let foreign = other.beside("foreign.note");
        std::fs::write(&foreign, other.expect(0, &["audit", "checkpoint"])).expect("kept");
        Self {
            young,
            yesterday,
            fork,
            old: OnceLock::new(),
            tall: OnceLock::new(),
            split: OnceLock::new(),
            other,
            kept,
            foreign,
        }
    }

    pub(crate) fn base(&self, base: Base) -> &TestHome {
        match base {
            Base::Young => &self.young,
            Base::Old => self.old.get_or_init(three_epochs),
            Base::Split => self.split.get_or_init(split::make),
            Base::Tall => self.tall.get_or_init(|| {
                let tall = TestHome::init();
                history::write(&tall.root(), 260);
                // Its threads close their connections later; the last of them removes the log.
                until("the writer is gone", || !tall.path("data/ledger.db-wal").exists());
                tall
            }),
        }
    }
}

/// A run on a server that is killed right after its answer: its last writes are certainly in
/// `-wal`.
fn killed_after(home: &TestHome, message: &str) -> Vec<u8> {
    let key = home.key("late", "operator");
    let server = home.serve();
    let answer = server.run(&key, message);
    assert_eq!(answer.status, 200);
    let _all = server.kill();
    answer.body
}

fn three_epochs() -> TestHome {
    let home = TestHome::init();
    for _ in 0..3 {
        home.expect(0, &["run", r#"read_file(path="/etc/shadow")"#]);
        age(&home);
    }
    home
}

/// Every change except the flipped bits.
pub(crate) fn all() -> Vec<Attack> {
    let rebuilt = [anew::checkpoints(), anew::rewrites(), anew::headers(), anew::epochs()];
    [schemas(), rows(), files(), copies::tails(), copies::forks(), split::all(), states()]
        .into_iter()
        .chain(rebuilt)
        .flatten()
        .collect()
}

/// Statements on the database of a home; `LAST` is the number of its last entry, `SIZE` one more.
fn sql(base: Base, list: &[(&str, &'static str)]) -> Vec<Attack> {
    let one = |(name, sql): &(&str, &'static str)| {
        let sql: &'static str = sql;
        Attack::new(base, name, move |home, _| {
            let db = db(home);
            let size = size(&db);
            let sql = sql.replace("LAST", &(size - 1).to_string()).replace("SIZE", &size.to_string());
            db.execute_batch(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        })
    };
    list.iter().map(one).collect()
}

fn schemas() -> Vec<Attack> {
    sql(
        Base::Young,
        &[
            ("a view beside the tables", "CREATE VIEW extra AS SELECT 1"),
            (
                "a view in the place of a table",
                "ALTER TABLE entry RENAME TO hidden; CREATE VIEW entry AS SELECT seq, header FROM hidden",
            ),
            (
                "a table that is not strict",
                "ALTER TABLE payload RENAME TO hidden;
                 CREATE TABLE payload(seq INTEGER PRIMARY KEY, salt BLOB, body BLOB);
                 INSERT INTO payload SELECT * FROM hidden; DROP TABLE hidden",
            ),
            ("a trigger", "CREATE TRIGGER extra AFTER INSERT ON entry BEGIN SELECT 1; END"),
            ("a further column", "ALTER TABLE entry ADD COLUMN note TEXT"),
            ("a column renamed", "ALTER TABLE payload RENAME COLUMN body TO words"),
            ("an index", "CREATE INDEX extra ON entry(header)"),
            ("a foreign table", "CREATE TABLE extra(a)"),
            ("statistics of SQLite", "ANALYZE"),
            ("the table of checkpoints dropped", "DROP TABLE checkpoint"),
            ("the table of tiles dropped", "DROP TABLE tile"),
            ("user_version 0", "PRAGMA user_version = 0"),
            ("user_version 2", "PRAGMA user_version = 2"),
            (
                "a schema's text with one blank more",
                "PRAGMA writable_schema = 1;
                 UPDATE sqlite_master SET sql = replace(sql, ' STRICT', '  STRICT') WHERE name = 'tile'",
            ),
        ],
    )
}

fn rows() -> Vec<Attack> {
    let young = sql(
        Base::Young,
        &[
            ("the first entry gone", "DELETE FROM entry WHERE seq = 0"),
            ("an entry gone", "DELETE FROM entry WHERE seq = 7"),
            (
                "an entry gone with its payload",
                "DELETE FROM entry WHERE seq = 7; DELETE FROM payload WHERE seq = 7",
            ),
            ("a payload's row gone", "DELETE FROM payload WHERE seq = 7"),
            ("all gone", "DELETE FROM entry; DELETE FROM payload"),
            ("the last entry gone, not its payload", "DELETE FROM entry WHERE seq = LAST"),
            (
                "two entries swapped",
                "UPDATE entry SET seq = -seq WHERE seq IN (5, 6); UPDATE entry SET seq = 11 + seq WHERE seq < 0",
            ),
            ("an entry under a negative number", "UPDATE entry SET seq = -5 WHERE seq = 5"),
            (
                "a copy under a negative number",
                "INSERT INTO entry SELECT -1, header FROM entry WHERE seq = 1",
            ),
            ("an entry moved after a gap", "UPDATE entry SET seq = 1000 WHERE seq = 9"),
            ("the last entry twice", "INSERT INTO entry SELECT SIZE, header FROM entry WHERE seq = LAST"),
            (
                "another entry's header",
                "UPDATE entry SET header = (SELECT header FROM entry WHERE seq = 2) WHERE seq = 8",
            ),
            ("a payload of no entry", "INSERT INTO payload VALUES (77, zeroblob(32), x'7b7d')"),
            ("a payload under a negative number", "INSERT INTO payload VALUES (-7, zeroblob(32), x'7b7d')"),
            (
                "two payloads swapped",
                "UPDATE payload SET seq = -3 WHERE seq = 3; UPDATE payload SET seq = 3 WHERE seq = 4;
                 UPDATE payload SET seq = 4 WHERE seq = -3",
            ),
            (
                "a payload erased and no entry that says so",
                "UPDATE payload SET salt = NULL, body = NULL WHERE seq = 8",
            ),
            ("a salt gone", "UPDATE payload SET salt = NULL WHERE seq = 8"),
            ("a body gone", "UPDATE payload SET body = NULL WHERE seq = 8"),
            ("a salt of one byte", "UPDATE payload SET salt = x'00' WHERE seq = 8"),
            ("an empty body", "UPDATE payload SET body = x'' WHERE seq = 8"),
            ("an empty header", "UPDATE entry SET header = x'' WHERE seq = 8"),
            ("the genesis' payload erased", "UPDATE payload SET salt = NULL, body = NULL WHERE seq = 0"),
        ],
    );
    let tall = sql(
        Base::Tall,
        &[
            ("a tile gone", "DELETE FROM tile"),
            ("a tile twice", "INSERT INTO tile SELECT k + 1, hashes FROM tile"),
            ("a tile of another level", "INSERT INTO tile SELECT 1 << 48, hashes FROM tile WHERE k = 0"),
            ("a tile under a negative number", "UPDATE tile SET k = -1 WHERE k = 0"),
            ("an empty tile", "UPDATE tile SET hashes = x'' WHERE k = 0"),
            ("a tile of one byte more", "UPDATE tile SET hashes = CAST(hashes || x'00' AS BLOB) WHERE k = 0"),
            ("a tile of nothing", "UPDATE tile SET hashes = zeroblob(8192) WHERE k = 0"),
        ],
    );
    young.into_iter().chain(tall).collect()
}

/// Files that are missing, truncated, or from another ledger.
fn files() -> Vec<Attack> {
    let act = |name: &str, act: fn(&TestHome, &Homes)| Attack::new(Base::Young, name, act);
    let mark = |name: &str, text: fn(u64, Digest) -> String| {
        Attack::new(Base::Young, name, move |home, _| {
            let reader = Reader::open(&home.path("data/ledger.db")).expect("reader");
            let size = reader.size().expect("size");
            let root = reader.head_at(size).expect("root").root;
            std::fs::write(home.path("data/high-water"), text(size, root)).expect("mark");
        })
    };
    vec![
        act("-wal deleted", |home, _| remove(home, &["ledger.db-wal", "ledger.db-shm"])),
        act("-wal deleted, -shm left", |home, _| remove(home, &["ledger.db-wal"])),
        act("-wal cut in half, -shm deleted", |home, _| {
            remove(home, &["ledger.db-shm"]);
            let path = home.path("data/ledger.db-wal");
            let bytes = std::fs::read(&path).expect("log");
            std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("log");
        }),
        act("-wal of another log", |home, homes| {
            remove(home, &["ledger.db-shm"]);
            let foreign = homes.other.path("data/ledger.db-wal");
            std::fs::copy(foreign, home.path("data/ledger.db-wal")).expect("copied");
        }),
        act("ledger.db gone", |home, _| remove(home, &["ledger.db", "ledger.db-wal", "ledger.db-shm"])),
        act("ledger.db and the mark gone", |home, _| {
            remove(home, &["ledger.db", "ledger.db-wal", "ledger.db-shm", "high-water"]);
        }),
        act("ledger.db emptied", |home, _| overwrite(home, b"")),
        act("ledger.db is noise", |home, _| overwrite(home, &[0x55; 8_192])),
        act("the first page zeroed after its head", |home, _| {
            settle(home);
            let mut bytes = std::fs::read(home.path("data/ledger.db")).expect("file");
            bytes[100..4_096].fill(0);
            overwrite(home, &bytes);
        }),
        act("ledger.db cut in half", |home, _| {
            settle(home);
            let bytes = std::fs::read(home.path("data/ledger.db")).expect("file");
            overwrite(home, &bytes[..bytes.len() / 8_192 * 4_096]);
        }),
        mark("a mark that is not a mark", |_, _| "hello".to_owned()),
        mark("a mark without digits", |size, _| format!("{size} xyz\n")),
        mark("a mark without its newline", |size, root| format!("{size:020} {root}")),
        mark("a mark of fewer digits", |size, root| format!("{size} {root}\n")),
        mark("a mark and another line", |size, root| format!("{size:020} {root}\nmore\n")),
        mark("a mark ahead", |size, root| format!("{:020} {root}\n", size + 3)),
        mark("a mark of another root", |size, _| format!("{size:020} {:064}\n", 0)),
        mark("an older mark of another root", |size, _| format!("{:020} {:064}\n", size - 5, 0)),
        mark("a mark of nothing with a root", |_, root| format!("{:020} {root}\n", 0)),
    ]
}

/// The part of state.db that both verifiers see: how many entries it has followed.
fn states() -> Vec<Attack> {
    let state = |name: &str, sql: &'static str| {
        Attack::new(Base::Young, name, move |home, _| {
            let db = connect(&home.path("data/state.db"));
            db.execute_batch("PRAGMA ignore_check_constraints = 1").expect("as it is");
            db.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        })
        .with_state()
    };
    vec![
        state("a second row of `applied`", "INSERT INTO applied VALUES (2, 3)"),
        state("a second row of `applied` in front", "INSERT INTO applied SELECT -2, size FROM applied"),
        state("`applied` under another number", "UPDATE applied SET one = 2"),
        state("no row of `applied`", "DELETE FROM applied"),
        state("a negative `applied`", "UPDATE applied SET size = -1"),
        state("`applied` ahead of the ledger", "UPDATE applied SET size = size + 1000"),
    ]
}

/// Replaces the newest checkpoint by yesterday's, and truncates the tail to `behind` entries after
/// it.
pub(crate) fn cut_from_older(home: &TestHome, homes: &Homes, behind: u64) {
    let db = db(home);
    let yesterday = homes.yesterday.path("data/ledger.db").display().to_string();
    db.execute("ATTACH ?1 AS yesterday", [yesterday]).expect("yesterday");
    let sql = format!(
        "DELETE FROM checkpoint; INSERT INTO checkpoint SELECT * FROM yesterday.checkpoint;
         DELETE FROM entry WHERE seq >= (SELECT max(size) FROM checkpoint) + {behind};
         DELETE FROM payload WHERE seq >= (SELECT max(size) FROM checkpoint) + {behind};"
    );
    db.execute_batch(&sql).expect("cut");
}

/// Sets the beginning of the epoch in force to 1970, so that the next start ends it.
fn age(home: &TestHome) {
    let path = home.path("data/epoch.key");
    let line = std::fs::read_to_string(&path).expect("epoch key");
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words[2] = "0";
    std::fs::write(&path, words.join(" ") + "\n").expect("epoch key");
}

pub(crate) fn copied(home: &TestHome) -> TestHome {
    let copy = TestHome::empty();
    copy_folder(&home.root(), &copy.root());
    copy
}

pub(crate) fn db(home: &TestHome) -> Connection {
    connect(&home.path("data/ledger.db"))
}

/// The size of the newest checkpoint.
fn newest(home: &TestHome) -> u64 {
    let newest = "SELECT max(size) FROM checkpoint";
    db(&copied(home)).query_row(newest, [], |row| row.get::<_, i64>(0)).expect("size") as u64
}

fn size(db: &Connection) -> u64 {
    db.query_row("SELECT count(*) FROM entry", [], |row| row.get::<_, i64>(0)).expect("size") as u64
}

/// Moves what `-wal` holds into the database.
pub(crate) fn settle(home: &TestHome) {
    let left: i64 =
        db(home).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("settled");
    assert_eq!(left, 0, "no reader is in the way");
}

pub(crate) fn forget_state(home: &TestHome) {
    remove(home, &["state.db", "state.db-wal", "state.db-shm"]);
}

/// Removes files of `data/`, if they exist.
fn remove(home: &TestHome, names: &[&str]) {
    for name in names {
        let _gone = std::fs::remove_file(home.path("data").join(name));
        assert!(!home.path("data").join(name).exists(), "{name}");
    }
}

/// Replaces this home's `data/` by another's.
fn put(home: &TestHome, other: &TestHome) {
    std::fs::remove_dir_all(home.path("data")).expect("removed");
    copy_folder(&other.path("data"), &home.path("data"));
}

/// Overwrites the database.
fn overwrite(home: &TestHome, bytes: &[u8]) {
    remove(home, &["ledger.db-wal", "ledger.db-shm"]);
    std::fs::write(home.path("data/ledger.db"), bytes).expect("written");
}
