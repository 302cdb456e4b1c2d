//! The ledger as users see it: `par audit verify` on changed files, under load, and after a `kill
//! -9`.

use crate::support::{TestHome, copy_folder, is_root, text};
use rusqlite::{Connection, params};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "tests write without the ledger's writer")]
fn connect(path: &Path) -> Connection {
    Connection::open(path).expect("database")
}

/// A home with a few runs on its ledger.
fn filled() -> TestHome {
    let home = TestHome::empty();
    let shown = home.expect(0, &["quickstart", "--once"]);
    assert!(shown.contains("entries: chain, tree"), "{shown}");
    home
}

/// `par audit show` uses the index if there is one, and trusts it no more than the ledger.
#[test]
fn show_asks_the_index_and_is_not_misled_by_it() {
    let home = TestHome::init();
    let key = home.key("show", "operator");
    let server = home.serve();
    for _ in 0..3 {
        assert_eq!(server.run(&key, r#"read_file(path="/etc/shadow")"#).status, 200);
    }
    server.stop();
    home.expect(0, &["audit", "index"]);
    let asked = |what: &str, said: &str| {
        let output = home.par(&["audit", "show", "--json", "decision:deny", "shadow"]);
        let (found, told) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), found.lines().count()), (Some(0), 3), "{what}: {found}{told}");
        assert!(if said.is_empty() { told.is_empty() } else { told.contains(said) }, "{what}: {told}");
        assert!(told.lines().count() <= 1, "{what}: {told}");
    };
    let index = home.path("data/index.db");
    let change = |sql: &str| connect(&index).execute_batch(sql).expect(sql);
    asked("as it is", "");
    change("UPDATE line SET decision = 'allow'");
    asked("a column", "was read instead");
    home.expect(0, &["audit", "index"]);
    asked("rebuilt", "");
    change("DELETE FROM words");
    asked("no words", "was read instead");
    change("CREATE VIEW extra AS SELECT 1");
    asked("another schema", "every entry is read");
    for end in ["-wal", "-shm", ""] {
        let _gone = std::fs::remove_file(home.path(&format!("data/index.db{end}")));
    }
    std::fs::write(&index, [0x55; 9_000]).expect("written");
    asked("noise", "every entry is read");
    std::fs::remove_file(&index).expect("removed");
    asked("no index", "");
    assert!(!index.exists(), "nothing is made by asking");
    home.expect(0, &["audit", "index", "--rebuild"]);
    asked("made by hand", "");
}

/// Verifies a copy of `home` with one change in it: exit 5, and the findings as JSON.
fn changed(home: &TestHome, change: impl FnOnce(&Path)) -> Value {
    let copy = TestHome::empty();
    copy_folder(&home.root(), &copy.root());
    change(&copy.path("data"));
    // The same in words and as JSON.
    let words = copy.expect(5, &["audit", "verify"]);
    let report: Value = serde_json::from_str(&copy.expect(5, &["audit", "verify", "--json"])).expect("JSON");
    for finding in report["findings"].as_array().expect("findings") {
        if let Some(seq) = finding["seq"].as_u64() {
            assert!(words.contains(&format!("seq {seq}: ")), "{words}");
        }
    }
    assert_ne!(report["verdict"], "verified");
    report["findings"].clone()
}

fn named(findings: &Value) -> BTreeSet<u64> {
    findings.as_array().expect("findings").iter().filter_map(|finding| finding["seq"].as_u64()).collect()
}

#[test]
fn one_changed_bit_is_exit_5_and_names_the_entry() {
    let home = filled();
    let size = home.entries(&[]).len() as u64;
    assert!(size > 12);
    for seq in [0, 1, size / 2, size - 2, size - 1] {
        assert_eq!(home.entry(seq)["header"]["seq"], seq);
        for (table, column) in [("entry", "header"), ("payload", "salt"), ("payload", "body")] {
            let findings = changed(&home, |data| {
                let db = connect(&data.join("ledger.db"));
                let read = format!("SELECT {column} FROM {table} WHERE seq = ?1");
                let mut bytes: Vec<u8> = db.query_row(&read, [seq as i64], |row| row.get(0)).expect("bytes");
                let byte = (seq as usize * 37) % bytes.len();
                bytes[byte] ^= 1 << (seq % 8);
                let write = format!("UPDATE {table} SET {column} = ?2 WHERE seq = ?1");
                db.execute(&write, params![seq as i64, bytes]).expect("flipped");
            });
            assert_eq!(named(&findings), BTreeSet::from([seq]), "{column} of {seq}: {findings}");
        }
    }
}

#[test]
fn what_was_taken_or_added_is_exit_5() {
    let home = filled();
    let last = home.entries(&[]).len() - 1;
    let sql = |statement: &str| {
        let statement = statement.to_owned();
        changed(&home, move |data| {
            connect(&data.join("ledger.db")).execute_batch(&statement).expect("changed")
        })
    };
    let gone = sql(&format!("DELETE FROM entry WHERE seq = {last}; DELETE FROM payload WHERE seq = {last};"));
    assert_eq!(named(&gone), BTreeSet::from([last as u64]), "{gone}");
    for (statement, word) in [
        ("CREATE VIEW v AS SELECT * FROM entry;", "view"),
        ("CREATE TRIGGER t AFTER INSERT ON entry BEGIN SELECT 1; END;", "trigger"),
        ("ALTER TABLE entry ADD COLUMN note TEXT;", "entry"),
        ("CREATE INDEX i ON payload(body);", "index"),
    ] {
        let findings = sql(statement);
        assert!(findings.to_string().contains(word), "{statement}: {findings}");
    }
    let findings = changed(&home, |data| {
        let edit = "UPDATE api_key SET role = 'admin', revoked_seq = NULL;";
        connect(&data.join("state.db")).execute_batch(edit).expect("changed");
    });
    assert!(findings.to_string().contains("api_key"), "{findings}");
    changed(&home, |data| std::fs::remove_file(data.join("ledger.db")).expect("removed"));
    changed(&home, |data| std::fs::write(data.join("ledger.db"), b"").expect("emptied"));
}

/// A server does not open a ledger that lost entries, nor does a command that would write to it.
#[test]
fn a_cut_ledger_is_not_written_to() {
    let home = filled();
    let cut = "DELETE FROM entry WHERE seq > 3; DELETE FROM payload WHERE seq > 3;";
    connect(&home.path("data/ledger.db")).execute_batch(cut).expect("cut");
    for args in [&["key", "create", "x", "--role", "viewer"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let output = home.par(args);
        assert_eq!(output.status.code(), Some(5), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("incomplete"), "{}", text(&output.stderr));
    }
}

/// A trigger could suppress what is appended: a ledger with one is not opened, nor is one with an
/// invalid mark.
#[test]
fn a_ledger_under_another_schema_is_not_written_to() {
    for change in [
        "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM payload; END;",
        "CREATE VIEW v AS SELECT * FROM entry;",
        "ALTER TABLE payload ADD COLUMN x TEXT;",
        "PRAGMA user_version = 0;",
    ] {
        let home = filled();
        let path = home.path("data/ledger.db");
        connect(&path).execute_batch(change).expect("changed");
        let before = stranger(&path);
        let output = home.par(&["run", "health_check()"]);
        assert!(matches!(output.status.code(), Some(2 | 5)), "{change}: {}", text(&output.stderr));
        assert_eq!(stranger(&path), before, "{change}");
        assert_eq!(home.par(&["audit", "verify"]).status.code(), Some(5), "{change}");
    }
    let home = filled();
    std::fs::write(home.path("data/high-water"), "garbage").expect("written");
    home.expect(5, &["run", "health_check()"]);
    home.expect(5, &["audit", "verify"]);
}

/// A pipe in place of a file is refused, and blocks nothing.
#[test]
fn a_pipe_in_etc_is_refused() {
    let home = TestHome::init();
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
    for place in ["etc/tools.d/pipe.toml", "etc/policies/pipe.cedar"] {
        nix::unistd::mkfifo(&home.path(place), mode).expect("pipe");
        let told = home.par(&["config", "check"]);
        assert_eq!(told.status.code(), Some(2), "{}", text(&told.stderr));
        assert!(text(&told.stderr).contains("is not a regular file"), "{}", text(&told.stderr));
        std::fs::remove_file(home.path(place)).expect("removed");
    }
}

/// If no process reads the messages, the command still ends as it should.
#[test]
fn a_full_standard_error_does_not_panic() {
    let home = TestHome::init();
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("device");
    let mut command = home.command(&["key", "revoke", "nobody"]);
    let status = command.stderr(full()).status().expect("par starts");
    assert_eq!(status.code(), Some(1));
}

fn load(address: &str, key: &str, tasks: usize, stop: &AtomicBool) -> BTreeSet<String> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..tasks)
            .map(|_| {
                scope.spawn(|| {
                    let mut acknowledged = BTreeSet::new();
                    while !stop.load(Ordering::SeqCst) {
                        acknowledged.extend(acknowledged_run(address, key));
                    }
                    acknowledged
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("client")).collect()
    })
}

/// Requests a run; returns its id if the complete answer came and was a 200. A killed server sends
/// no answer, or half of one.
#[expect(clippy::disallowed_methods, reason = "tests talk to the product's server")]
fn acknowledged_run(address: &str, key: &str) -> Option<String> {
    let body = serde_json::json!({ "message": "list_dir(path=\"/var/log\")" }).to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!(
        "POST /agent/run HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let reply: Value = serde_json::from_str(body).ok()?;
    head.starts_with("HTTP/1.1 200").then(|| reply["run"].as_str().map(str::to_owned))?
}

#[test]
fn verifying_beside_a_busy_server_raises_no_false_alarm() {
    let home = TestHome::init();
    let key = home.key("load", "operator");
    let server = home.serve();
    let stop = AtomicBool::new(false);
    let runs = std::thread::scope(|scope| {
        let runs = scope.spawn(|| load(&server.address, &key, 3, &stop));
        for _ in 0..20 {
            let report: Value =
                serde_json::from_str(&home.expect(0, &["audit", "verify", "--json"])).expect("JSON");
            assert_eq!(report["warnings"], serde_json::json!([]), "{report}");
        }
        stop.store(true, Ordering::SeqCst);
        runs.join().expect("load")
    });
    assert!(!runs.is_empty(), "the server was busy");
    // Another reader of the file removes nothing when it closes.
    assert!(stranger(&home.path("data/ledger.db")) > 0);
    let last = server.run(&key, "list_dir(path=\"/var/log\")");
    assert_eq!(last.status, 200, "{}\n{}", text(&last.body), server.log());
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
    let told: BTreeSet<String> = replies(&home);
    assert!(runs.is_subset(&told), "every acknowledged run is there");
}

/// Like `sqlite3 ledger.db 'SELECT …'`: opens for writing, reads, closes.
fn stranger(path: &Path) -> i64 {
    connect(path).query_row("SELECT count(*) FROM entry", [], |row| row.get(0)).expect("entries")
}

fn replies(home: &TestHome) -> BTreeSet<String> {
    let entries = home.entries(&["kind:run.reply"]);
    entries.iter().filter_map(|entry| entry["run"].as_str().map(str::to_owned)).collect()
}

/// `kill -9` of every process at some point of a run: what was acknowledged is there after the next
/// start, everything is closed, and the ledger verifies.
#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let home = TestHome::init();
    let key = home.key("load", "operator");
    let mut acknowledged = BTreeSet::new();
    for round in 0..20_u64 {
        let server = home.serve();
        let stop = AtomicBool::new(false);
        // The first check of a key takes time; the kill must come during runs.
        acknowledged.extend(acknowledged_run(&server.address, &key));
        assert!(acknowledged.len() as u64 > round, "the server answers: {}", server.log());
        let address = server.address.clone();
        let runs = std::thread::scope(|scope| {
            let runs = scope.spawn(|| load(&address, &key, 3, &stop));
            // This waits for nothing: it varies the moment of the kill.
            std::thread::sleep(Duration::from_millis(15 + (round * 37) % 160));
            let _all = server.kill();
            stop.store(true, Ordering::SeqCst);
            runs.join().expect("load")
        });
        acknowledged.extend(runs);
        wait_until_free(&home);
        home.expect(0, &["audit", "verify"]);
    }
    let server = home.serve();
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
    let told = replies(&home);
    assert!(acknowledged.is_subset(&told), "{:?}", acknowledged.difference(&told).collect::<Vec<_>>());
    let count = |query: &[&str]| home.entries(query).len();
    assert_eq!(
        count(&["kind:call.decision", "decision:allow"]),
        count(&["kind:call.result"]),
        "every allowed call has one result"
    );
    assert_eq!(count(&["kind:run.request"]), count(&["kind:run.reply"]), "every run has one reply");
}

/// The kernel may hold a killed front for a moment.
fn wait_until_free(home: &TestHome) {
    let until = Instant::now() + Duration::from_secs(10);
    let lock = std::fs::File::open(home.path("data/lock")).expect("lock");
    while lock.try_lock_shared().is_err() {
        assert!(Instant::now() < until, "the ledger is still held");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn too_little_space_is_503_and_nothing_runs() {
    let home = TestHome::init();
    let key = home.key("ops", "operator");
    let path: PathBuf = home.path("etc/par.toml");
    let kept = std::fs::read_to_string(&path).expect("par.toml");
    assert!(!kept.contains("\n[ledger]"));
    home.configure(&format!("{kept}\n[ledger]\nfree_bytes_min = {}\n", i64::MAX));
    let server = home.serve();
    let before = home.entries(&[]).len();
    let answer = server.run(&key, "list_dir(path=\"/var/log\")");
    assert_eq!(answer.status, 503, "{}", text(&answer.body));
    assert!(answer.head.to_ascii_lowercase().contains("application/problem+json"), "{}", answer.head);
    assert!(answer.json()["code"].is_string());
    assert_eq!(server.send("GET", "/readyz", "", b"").status, 503);
    assert_eq!(server.send("GET", "/livez", "", b"").status, 200);
    assert_eq!(server.get(&key, "/tools").status, 200, "what writes nothing goes on");
    assert_eq!(home.entries(&[]).len(), before, "nothing was asked, nothing ran");
    assert_eq!(server.stop(), Some(0));
}

/// Only the owner can access what decides and what records.
#[test]
fn the_files_of_the_ledger_are_their_owners_alone() {
    let home = filled();
    for item in std::fs::read_dir(home.path("data")).expect("data") {
        let item = item.expect("entry");
        let meta = item.metadata().expect("metadata");
        assert_eq!(meta.mode() & 0o077, 0, "{}: {:o}", item.path().display(), meta.mode());
        assert_eq!(meta.uid() == 0, is_root(), "{}", item.path().display());
    }
    let data = std::fs::metadata(home.path("data")).expect("data");
    assert_eq!(data.mode() & 0o777, 0o700);
}

/// If nothing can be verified, the error says why: which file, or that the ledger is missing.
#[test]
fn what_cannot_be_verified_is_named() {
    let home = TestHome::init();
    let verify = |expect: &[&str], never: &[&str]| {
        let told = home.expect(5, &["audit", "verify"]);
        assert!(expect.iter().all(|words| told.contains(words)), "{expect:?}: {told}");
        assert!(!never.iter().any(|words| told.contains(words)), "{never:?}: {told}");
    };
    let new = home.par(&["audit", "verify"]);
    // Issue 15, finding B6: not 5, the code of a damaged ledger.
    assert_eq!(new.status.code(), Some(1));
    assert!(text(&new.stderr).contains("nothing is recorded yet"), "{}", text(&new.stderr));
    home.expect(0, &["run", "health_check()"]);
    let (ledger, kept) = (home.path("data/ledger.db"), home.path("data/kept"));
    std::fs::rename(&ledger, &kept).expect("moved");
    verify(&["ledger.db is missing, but the high-water mark has", "state.db has applied"], &["is empty"]);
    std::fs::create_dir(&ledger).expect("folder");
    verify(&["data/ledger.db cannot be read: not a regular file"], &["I/O"]);
    std::fs::remove_dir(&ledger).expect("folder");
    std::fs::rename(&kept, &ledger).expect("moved");
    home.expect(0, &["audit", "verify"]);
    if is_root() {
        return eprintln!("skipped: root reads every file");
    }
    for name in ["ledger.db", "state.db", "high-water"] {
        let path = home.path("data").join(name);
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("mode");
        mode(0);
        verify(&[&format!("data/{name} cannot be read: Permission denied")], &["unable to open", "warning"]);
        mode(0o600);
    }
    home.expect(0, &["audit", "verify"]);
}

/// state.db repeats the ledger: if it is garbled, the error says what helps.
#[test]
fn a_garbled_state_db_may_be_deleted_and_it_says_so() {
    let home = TestHome::init();
    home.key("one", "viewer");
    let state = home.path("data/state.db");
    for beside in ["state.db-wal", "state.db-shm"] {
        let _absent = std::fs::remove_file(home.path("data").join(beside));
    }
    std::fs::write(&state, "no database at all, but longer than the header of one".repeat(20))
        .expect("garbled");
    let advice =
        "state.db: file is not a database: stop the server and delete this file; the next start rebuilds it";
    let refused = home.par(&["key", "list"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains(advice), "{}", text(&refused.stderr));
    let told = home.expect(5, &["audit", "verify"]);
    assert!(told.contains(advice), "{told}");
    std::fs::remove_file(&state).expect("deleted");
    assert!(home.expect(0, &["key", "list"]).contains("one"));
    home.expect(0, &["audit", "verify"]);
}
