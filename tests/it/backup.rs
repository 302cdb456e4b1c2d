//! Backups of homes, logs that follow damaged ones, and a ledger of several files on a real server.

use crate::attacks::settle;
use crate::attacks::split::{segments, split};
use crate::forge::connect;
use crate::support::{TestHome, text, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

fn verify(home: &TestHome, code: i32, args: &[&str]) -> Value {
    let args = [&["audit", "verify", "--json"], args].concat();
    serde_json::from_str(&home.expect(code, &args)).expect("JSON")
}

/// Every file below a folder, by its relative path.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below").display().to_string();
                found.insert(name, std::fs::read(&path).expect("file"));
            }
        }
    }
    found
}

#[test]
fn a_home_is_copied_beside_its_server_and_restored_with_another_log() {
    let home = TestHome::init();
    let (kept, gone) = (home.key("runner", "operator"), home.key("other", "operator"));
    let id = gone.split('_').nth(1).expect("id").to_owned();
    home.expect(0, &["key", "revoke", &id]);
    let server = home.serve();
    assert_eq!(server.run(&kept, r#"list_dir(path="/var/log")"#).status, 200);
    let folder = home.beside("backup");
    let folder = folder.to_str().expect("path");
    let told = home.expect(0, &["backup", folder]);
    assert!(told.contains("without the signing keys"), "{told}");
    assert_eq!(server.run(&kept, r#"list_dir(path="/var/log")"#).status, 200);
    // An existing folder is not written to.
    home.expect(1, &["backup", folder]);
    let _code = server.stop();

    let copied = files(Path::new(folder));
    for name in ["data/log.key", "data/epoch.key", "data/state.db"] {
        assert!(!copied.contains_key(name), "{name}");
    }
    let secrets = [home.path("data/log.key"), home.path("data/epoch.key")]
        .map(|path| std::fs::read(path).expect("key"));
    for (name, bytes) in &copied {
        for secret in &secrets {
            assert!(!bytes.windows(32).any(|window| secret.windows(32).any(|part| part == window)), "{name}");
        }
    }

    let restored = TestHome::empty();
    let told = restored.expect(0, &["restore", folder]);
    assert!(told.contains("no API key was restored"), "{told}");
    let report = verify(&restored, 0, &[]);
    assert_eq!(report["entries"], 1);
    let before = restored.entry(0)["payload"]["before"].clone();
    let log = before["log"].as_str().expect("log");
    assert_eq!(
        (before["why"].as_str(), before["verdict"].as_str()),
        (Some("restore"), Some("verified_unanchored"))
    );
    let old = verify(&restored, 0, &["--before", log]);
    assert_eq!((&old["entries"], &old["root"]), (&before["size"], &before["root"]));
    restored.expect(2, &["audit", "verify", "--before", "../data"]);
    // What is in it is read as in any log, and an entry names the log that it is in.
    let listed = restored.expect(0, &["audit", "show", "--before", log, "kind:run.request"]);
    let seq = listed.lines().last().and_then(|row| row.split_whitespace().next()).expect("a run").to_owned();
    let card = restored.expect(0, &["audit", "show", "--before", log, &seq]);
    assert!(card.contains(&format!("par audit show {seq} --before {log} --json")), "{card}");
    let unknown = restored.par(&["audit", "show", "--before", "none"]);
    assert!(crate::support::text(&unknown.stderr).contains(&format!("it has {log}")));
    let server = restored.serve();
    assert_eq!(server.run(&kept, "hello").status, 401);
    let _code = server.stop();
    restored.expect(2, &["restore", folder]);

    // With its keys, except for the one revoked before.
    let again = TestHome::empty();
    again.expect(0, &["restore", folder, "--keep-keys"]);
    let server = again.serve();
    assert_eq!(server.run(&kept, r#"list_dir(path="/var/log")"#).status, 200);
    assert_eq!(server.run(&gone, "hello").status, 401);
    let _code = server.stop();
    assert_eq!(verify(&again, 0, &[])["verdict"], "verified_unanchored");

    // A backup that was changed after it was written.
    let name = copied.keys().find(|name| name.ends_with("ledger.db")).expect("ledger.db");
    let path = Path::new(folder).join(name);
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("file");
    let last = copied[name].len() as u64 - 1;
    file.write_all_at(&[copied[name][copied[name].len() - 1] ^ 1], last).expect("flipped");
    let refused = TestHome::empty();
    refused.expect(5, &["restore", folder]);
    assert!(!refused.root().exists());
    file.write_all_at(&[copied[name][copied[name].len() - 1]], last).expect("flipped back");
    std::fs::write(
        Path::new(folder).join("etc/policies/99-more.cedar"),
        "permit(principal, action, resource);",
    )
    .expect("file");
    refused.expect(5, &["restore", folder]);
}

#[test]
fn a_damaged_log_is_set_aside_whole_and_another_begins() {
    let home = TestHome::init();
    let key = home.key("runner", "operator");
    home.expect(0, &["run", r#"list_dir(path="/var/log")"#]);
    // A user who knows the log, and will learn the next one.
    let met = home.beside("met");
    std::fs::create_dir(&met).expect("folder");
    let by = |args: &[&str]| home.command(args).env("HOME", &met).output().expect("par starts");
    assert_eq!(by(&["audit", "verify"]).status.code(), Some(0));
    // An intact ledger is not set aside.
    home.expect(2, &["audit", "renew", "--reason", "nothing is wrong"]);
    let db = connect(&home.path("data/ledger.db"));
    db.execute("UPDATE entry SET header = (SELECT header FROM entry WHERE seq = 2) WHERE seq = 3", [])
        .expect("damaged");
    drop(db);
    assert_eq!(verify(&home, 5, &[])["verdict"], "invalid");

    let before = files(&home.path("data"));
    home.expect(2, &["audit", "renew", "--reason", " "]);
    let renewed = by(&["audit", "renew", "--reason", "a bit flipped on the disk"]);
    let told = text(&renewed.stdout);
    assert!(renewed.status.success() && told.contains("the old log is in"), "{told}");
    assert_eq!(by(&["audit", "verify"]).status.code(), Some(0));
    let after = files(&home.path("data/before"));
    let genesis = home.entry(0)["payload"]["before"].clone();
    let log = genesis["log"].as_str().expect("log");
    assert_eq!(
        (genesis["why"].as_str(), genesis["reason"].as_str()),
        (Some("damage"), Some("a bit flipped on the disk"))
    );
    // Nothing is lost: every file of the log is there byte for byte, under the digest that the new
    // log names.
    let named = genesis["files"].as_array().expect("files");
    assert!(named.len() >= 2, "{named:?}");
    for file in named {
        let name = file["name"].as_str().expect("name");
        let bytes = &after[&format!("{log}/{name}")];
        assert_eq!(Some(bytes), before.get(name), "{name}");
        assert_eq!(file["sha256"].as_str(), Some(par::types::Digest::sha256(bytes).hex().as_str()));
    }
    assert_eq!(verify(&home, 5, &["--before", log])["verdict"], "invalid");
    home.expect(0, &["audit", "show", "--before", log, "kind:genesis"]);
    assert_eq!(verify(&home, 0, &[])["entries"], 1);
    // Keys are not carried over: nothing shows which were revoked.
    let server = home.serve();
    assert_eq!(server.run(&key, "hello").status, 401);
    let _code = server.stop();
    home.expect(0, &["run", r#"list_dir(path="/var/log")"#]);
    home.expect(2, &["audit", "renew", "--reason", "again"]);
}

/// The next start completes what a crash left between moving the files and creating the new log.
#[test]
fn a_log_that_was_set_aside_is_named_whoever_begins_the_next() {
    let home = TestHome::init();
    home.expect(0, &["run", r#"list_dir(path="/var/log")"#]);
    settle(&home);
    std::fs::write(home.path("data/ledger.db"), b"no database").expect("damaged");
    let told = home.expect(0, &["audit", "renew", "--reason", "gone"]);
    assert!(told.contains("unread-"), "{told}");
    let log = home.entry(0)["payload"]["before"]["log"].as_str().expect("log").to_owned();
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm", "state.db", "high-water", "epoch.key"] {
        drop(std::fs::remove_file(home.path("data").join(name)));
    }
    home.expect(0, &["run", r#"list_dir(path="/var/log")"#]);
    assert_eq!(home.entry(0)["payload"]["before"]["log"].as_str(), Some(log.as_str()));
}

#[test]
fn a_server_moves_from_file_to_file_and_drops_expired_payloads() {
    let home = TestHome::init();
    let key = home.key("runner", "operator");
    let file = home.path("etc/par.toml");
    let shipped = std::fs::read_to_string(&file).expect("par.toml").replace("expire_s = 900", "expire_s = 1");
    std::fs::write(&file, shipped).expect("par.toml");
    split(&home, "payload_s_max = 1\n");
    let server = home.serve();
    while segments(&home).len() < 3 {
        assert_eq!(
            server.run(&key, r#"list_dir(path="/var/log") read_file(path="/etc/shadow")"#).status,
            200
        );
    }
    // Next to the server.
    assert!(verify(&home, 0, &[])["segments"].as_u64() >= Some(3));
    until("payloads go", || home.entries(&["kind:payload.drop"]).len() >= 2);
    until("they are gone", || verify(&home, 0, &[])["dropped"].as_u64() > Some(10));
    let answer = server.run(&key, r#"list_dir(path="/var/log")"#).json();
    let run = answer["run"].as_str().expect("run");
    let _code = server.stop();
    let log_key = home.expect(0, &["audit", "key"]);
    let proof = home.beside("proof");
    std::fs::write(&proof, home.expect(0, &["audit", "prove", "--run", run])).expect("proof");
    home.expect(0, &["audit", "check-proof", proof.to_str().expect("path"), "--key", log_key.trim()]);
    std::fs::write(&proof, home.expect(0, &["audit", "prove", "7"])).expect("proof");
    home.expect(0, &["audit", "check-proof", proof.to_str().expect("path"), "--key", log_key.trim()]);
    let told = text(&home.par(&["audit", "verify"]).stdout);
    assert!(told.contains(" segments:") && told.contains("dropped by age"), "{told}");
    // What was dropped cannot be decided again, which is not an alarm.
    home.expect(0, &["policy", "replay"]);
    home.expect(0, &["backup", home.beside("backup").to_str().expect("path")]);
}
