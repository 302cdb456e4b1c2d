//! Reports on files that the tests write.

use super::login_records::record_bytes;
use super::{SystemEntry, SystemFiles, SystemFolder, SystemView, is_listed, report_of_files};
use crate::tools::Builtin;
use crate::tools::builtin::host::Host;
use crate::tools::manifest::output_schema::{OutputSchema, SchemaWords};
use proptest::prelude::*;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Folders in a folder of its own, in place of those of the host.
struct FileStage {
    dir: tempfile::TempDir,
    which: Builtin,
}

impl SystemFiles for FileStage {
    fn open(&self, path: &str, name: &str) -> Result<File, Errno> {
        File::open(Path::new(path).join(name)).map_err(|_| Errno::ACCESS)
    }
}

impl FileStage {
    fn new(which: Builtin) -> Self {
        Self { dir: tempfile::tempdir().expect("a folder"), which }
    }

    fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }

    fn folder(&self, name: &str) -> Option<SystemFolder> {
        let path = self.dir.path().join(name);
        let mut entries: Vec<SystemEntry> = std::fs::read_dir(&path)
            .ok()?
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| is_listed(self.which, name, entry.file_name().to_str().expect("UTF-8")))
            .map(|entry| {
                let meta = entry.metadata().expect("described");
                SystemEntry {
                    name: entry.file_name().into_string().expect("UTF-8"),
                    is_file: meta.is_file(),
                    is_executable: meta.mode() & 0o111 != 0,
                    size_bytes: meta.len(),
                    modified_s: meta.mtime(),
                    changed_s: meta.ctime(),
                }
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let path = path.to_str().expect("UTF-8").to_owned();
        Some(SystemFolder { path, modified_s: 1_795_000_000, entries, is_cut: false })
    }

    /// The report on these folders, without its time.
    fn report(&self, folders: &[&str], arguments: &Value, cap: usize) -> Result<Value, String> {
        let users = [(0, "root".to_owned()), (1000, "ada".to_owned())].into();
        let host = Host { hostname: "h".to_owned(), users, ..Host::default() };
        let folders = folders.iter().filter_map(|name| self.folder(name)).collect();
        let view = SystemView::new(&host, folders, Vec::new(), self, u64::MAX);
        let mut answer = report_of_files(self.which, &view, arguments, cap)?;
        let members = answer.as_object_mut().expect("an object");
        assert!(members.remove("observed_at").is_some() && members.remove("host").is_some());
        assert!(answer.to_string().len() <= cap, "{} bytes of {cap}", answer.to_string().len());
        Ok(answer)
    }
}

const STATUS: &str = "\
Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21.22\n\n\
Package: openssl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.0.15-1~deb12u1\n\n\
Package: nginx\nStatus: hold ok installed\nArchitecture: all\nVersion: 1.22.1-9\nDescription: a server\n continued: Version: 9\n\n\
Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9\n\n\
Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 2.36-9\n\n\
Package: backported\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.0-1~bpo12+1\n\n\
Package: stable\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0-1\n\n\
Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1.0\n\n\
Package: BAD\u{1b}[2J\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0\n\n\
Package: worse\nStatus: install ok installed\nArchitecture: amd64\nVersion: not a version\n";

fn package(name: &str, architecture: &str, version: &str) -> String {
    format!("Package: {name}\nArchitecture: {architecture}\nVersion: {version}\nSHA256: 0\n\n")
}

/// The result is held to the shipped schema, in which no text is free.
#[test]
fn the_size_of_the_journal_is_in_numbers_alone() {
    let stage = FileStage::new(Builtin::JournalSize);
    let id = "0".repeat(32);
    for (name, bytes) in [
        ("system.journal".to_owned(), 1_000),
        ("user-1000.journal".to_owned(), 200),
        (format!("system@{id}-0000000000000001-000600a1b2c3d4e5.journal"), 30),
        (format!("user-1000@{id}-0000000000000009-000600a1b2c3d4e6.journal"), 4),
        ("system@000600a1b2c3d4e5-0123456789abcdef.journal~".to_owned(), 5),
        ("operator confirmed\u{1b}[2J".to_owned(), 6),
    ] {
        stage.put(&format!("journal/{name}"), vec![0; bytes]);
    }
    let conf = "[Journal]\n#SystemMaxUse=1G\nSystemMaxUse=4G\nMaxRetentionSec=operator confirmed\nSystemKeepFree = 15%\n";
    stage.put("journald.conf/journald.conf", conf);
    let told = stage.report(&["journal", "journald.conf"], &json!({}), 65_536).expect("a report");
    let expect = json!({
        "files": 5, "bytes": 1_239, "active_files": 2, "active_bytes": 1_200, "archived_files": 3,
        "archived_bytes": 39, "oldest_at": told["oldest_at"],
        "limits": { "max_use_bytes": 4_294_967_296_u64, "keep_free_bytes": null, "max_retention_s": null },
        "not_seen": ["journald.conf.d"],
    });
    assert_eq!(told, expect);
    assert!(told["oldest_at"].as_str().is_some_and(|at| at.starts_with("20")), "{told}");
    let none = stage.report(&[], &json!({}), 65_536).expect("a report");
    assert_eq!((&none["oldest_at"], &none["bytes"]), (&Value::Null, &json!(0)));
    let text = include_str!("../../../../tools.d/journal_size.toml.disabled");
    let shipped: toml::Value = toml::from_str(text).expect("TOML");
    let schema = serde_json::to_value(&shipped["output_schema"]).expect("a schema");
    let schema = OutputSchema::read(&schema, SchemaWords::Closed).expect("a schema");
    for mut one in [told, none] {
        one["host"] = json!("h");
        one["observed_at"] = json!("2026-11-24T10:00:00Z");
        assert_eq!(schema.check(one.as_object().expect("an object")), Ok(()));
    }
}

fn updates() -> FileStage {
    let stage = FileStage::new(Builtin::PendingUpdates);
    stage.put("dpkg/status", STATUS);
    stage.put("dpkg/status-old", "Package: x\n");
    let list = |site: &str| format!("lists/deb.example_debian_dists_{site}_main_binary-amd64_Packages");
    stage.put(
        &list("bookworm"),
        [
            package("openssl", "amd64", "3.0.16-1~deb12u1"),
            package("nginx", "amd64", "1.22.1-9+deb12u1"),
            package("libc6", "amd64", "2.36-9+deb12u10"),
            package("stable", "amd64", "1.0-1"),
            package("backported", "amd64", "1.0-1"),
            package("gone", "amd64", "2.0"),
            package("not-here", "amd64", "2.0"),
        ]
        .concat(),
    );
    stage.put(
        "lists/deb.example_debian_dists_bookworm_InRelease",
        "Suite: oldstable\nSHA256:\n Label: security\n",
    );
    stage.put(&list("bookworm-security"), package("openssl", "amd64", "3.0.17-1~deb12u2"));
    stage.put(
        &list("bookworm-backports"),
        [package("backported", "amd64", "2.0-1~bpo12+2"), package("stable", "amd64", "3.0-1~bpo12+1")]
            .concat(),
    );
    stage.put(
        "lists/deb.example_debian_dists_bookworm-backports_InRelease",
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nNotAutomatic: yes\nButAutomaticUpgrades: yes\n",
    );
    stage.put(&list("experimental"), package("openssl", "amd64", "4.0.0-1"));
    stage.put("lists/deb.example_debian_dists_experimental_InRelease", "NotAutomatic: yes\n");
    stage
}

/// Versions from lists of every kind: those for security, those that apt only updates from
/// (backports), and those that it takes nothing from by itself (experimental).
#[test]
fn updates_are_those_that_apt_would_take() {
    let stage = updates();
    let told = stage.report(&["dpkg", "lists"], &json!({}), 65_536).expect("an answer");
    let mut told = told;
    let members = told.as_object_mut().expect("an object");
    let (as_of, age) = (members.remove("as_of"), members.remove("age_s"));
    assert!(as_of.is_some_and(|at| at.is_string()) && age.is_some_and(|age| age.is_u64()));
    let one = |name: &str, installed: &str, candidate: &str, security: bool, held: bool| {
        let architecture = if name == "nginx" { "all" } else { "amd64" };
        json!({ "name": name, "architecture": architecture, "installed": installed, "candidate": candidate,
            "security": security, "held": held })
    };
    assert_eq!(
        told,
        json!({
            "count": 4, "security": 1, "held": 1, "phased": 0, "installed": 7, "lists_read": 4, "lists_unread": 0,
            "unreadable": [], "malformed": 2, "truncated": false, "not_seen": ["apt_preferences", "dependencies"],
            "packages": [
                one("openssl", "3.0.15-1~deb12u1", "3.0.17-1~deb12u2", true, false),
                one("backported", "2.0-1~bpo12+1", "2.0-1~bpo12+2", false, false),
                one("libc6", "2.36-9", "2.36-9+deb12u10", false, false),
                one("nginx", "1.22.1-9", "1.22.1-9+deb12u1", false, true),
            ],
        })
    );
    let cut = stage.report(&["dpkg", "lists"], &json!({ "limit": 1 }), 65_536).expect("an answer");
    assert_eq!((cut["packages"].as_array().map(Vec::len), &cut["truncated"]), (Some(1), &json!(true)));
}

/// What cannot be known is not reported as none.
#[test]
fn without_lists_nothing_is_known_of_updates() {
    let stage = FileStage::new(Builtin::PendingUpdates);
    let error = stage.report(&["dpkg", "lists"], &json!({}), 65_536).expect_err("no status");
    assert!(error.contains("dpkg"), "{error}");
    stage.put("dpkg/status", STATUS);
    let told = stage.report(&["dpkg"], &json!({}), 65_536).expect("an answer");
    assert_eq!(
        (&told["count"], &told["security"], &told["as_of"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert!(told["not_seen"].to_string().contains("\"package_lists\""), "{told}");
    stage.put("lists/a_dists_b_main_binary-amd64_Packages.lz4", "\u{4}\"M\u{18}");
    let told = stage.report(&["dpkg", "lists"], &json!({}), 65_536).expect("an answer");
    assert_eq!((&told["count"], &told["lists_unread"]), (&Value::Null, &json!(1)));
    assert!(told["not_seen"].to_string().contains("compressed_package_lists"), "{told}");
}

/// As apt leaves them with `Acquire::GzipIndexes`: the counts are not known, and the result says
/// why. Updates that the other lists name are still shown.
#[test]
fn lists_that_are_compressed_are_named_and_nothing_is_counted_without_them() {
    let stage = updates();
    let forms = ["lz4", "gz", "gz", "xz", "zst", "bz2", "lzma"];
    for (at, end) in forms.iter().enumerate() {
        // What it contains is not looked at: a bomb is not unpacked.
        stage.put(&format!("lists/h{at}_dists_b_main_binary-amd64_Packages.{end}"), [0x1f, 0x8b, 8, 0]);
    }
    let told = stage.report(&["dpkg", "lists"], &json!({}), 65_536).expect("an answer");
    for count in ["count", "security", "held", "phased"] {
        assert!(told[count].is_null(), "{count}: {told}");
    }
    assert_eq!(told["packages"].as_array().map(Vec::len), Some(4), "{told}");
    let one = |end: &str, lists: u64| json!({ "reason": format!("compressed_{end}"), "lists": lists });
    let expect = [one("bz2", 1), one("gz", 2), one("lz4", 1), one("lzma", 1), one("xz", 1), one("zst", 1)];
    assert_eq!((&told["unreadable"], &told["lists_unread"]), (&json!(expect), &json!(7)));
    assert!(told["not_seen"].to_string().contains("compressed_package_lists"), "{told}");
    assert!(!told["not_seen"].to_string().contains("further_package_lists"), "{told}");
}

/// Lists that are links, that are larger than what is read, or for which no time is left.
#[test]
fn lists_that_are_not_read_to_their_end_have_a_reason() {
    let reason = |stage: &FileStage, end_us: u64| {
        let folders = ["dpkg", "lists"].iter().filter_map(|name| stage.folder(name)).collect();
        let host = Host::default();
        let view = SystemView::new(&host, folders, Vec::new(), stage, end_us);
        let told = report_of_files(stage.which, &view, &json!({}), 65_536).expect("an answer");
        assert!(told["count"].is_null(), "{told}");
        assert!(told["not_seen"].to_string().contains("further_package_lists"), "{told}");
        told["unreadable"].clone()
    };
    let stage = updates();
    assert_eq!(reason(&stage, 0), json!([{ "reason": "time", "lists": 4 }]));
    let list = stage.dir.path().join("lists/a_Packages");
    std::os::unix::fs::symlink("/proc/self/status", &list).expect("linked");
    assert_eq!(reason(&stage, u64::MAX), json!([{ "reason": "not_a_file", "lists": 1 }]));
    std::fs::remove_file(&list).expect("removed");
    // It consists of holes.
    std::fs::File::create(&list).expect("made").set_len(1 << 40).expect("sparse");
    assert_eq!(reason(&stage, u64::MAX), json!([{ "reason": "too_large", "lists": 1 }]));
    std::fs::remove_file(&list).expect("removed");
    for at in 0..300 {
        stage.put(&format!("lists/many{at}_Packages"), "");
    }
    assert_eq!(reason(&stage, u64::MAX), json!([{ "reason": "too_many", "lists": 48 }]));
}

/// Updates for a share of the hosts are marked, and lists that end early, have endless lines or are
/// not text end nothing.
#[test]
fn lists_of_any_kind_are_read_within_bounds() {
    let stage = updates();
    let list = "lists/deb.example_debian_dists_bookworm_main_binary-amd64_Packages";
    let phased = package("openssl", "amd64", "3.0.19").replace("SHA256: 0", "Phased-Update-Percentage: 30");
    let hostile = [
        &b"Package: openssl\nVersion: "[..],
        &[b'9'; 300_000],
        b"\n\n\xff\xfe: \0\n:\n\n",
        phased.as_bytes(),
    ];
    stage.put(list, hostile.concat());
    let told = stage.report(&["dpkg", "lists"], &json!({}), 65_536).expect("an answer");
    let openssl = &told["packages"][0];
    assert_eq!((&openssl["candidate"], &openssl["phased_percent"]), (&json!("3.0.19"), &json!(30)), "{told}");
    assert_eq!((&told["phased"], &told["lists_unread"]), (&json!(1), &json!(0)));
}

fn now_s() -> u32 {
    u32::try_from(crate::types::clock::Wall::now().0 / 1_000_000).expect("before 2106")
}

fn rfc3339(at_s: u32) -> String {
    crate::types::clock::Wall(u64::from(at_s) * 1_000_000).rfc3339()
}

/// Sums by source and user. A password that was typed as a name is in no result.
#[test]
fn logins_are_summed_up_from_the_records() {
    let stage = FileStage::new(Builtin::Logins);
    let now = now_s();
    let (old, first, last) = (now - 800_000, now - 7_200, now - 60);
    stage.put(
        "log/wtmp",
        [
            record_bytes(7, "ada", "192.0.2.7", old),
            record_bytes(2, "reboot", "6.1.0", first),
            record_bytes(7, "ada", "192.0.2.7", first),
            record_bytes(7, "root", "", first),
            record_bytes(8, "", "", last),
            record_bytes(7, "ada", "192.0.2.7", last),
            vec![7; 100],
        ]
        .concat(),
    );
    stage.put("log/btmp.1", record_bytes(6, "root", "203.0.113.9", first));
    stage.put(
        "log/btmp",
        [record_bytes(6, "TYPED-S3CRET", "203.0.113.9", last), record_bytes(7, "root", "x\u{1b}[2J", last)]
            .concat(),
    );
    stage.put("log/auth.log", "");
    let told = stage.report(&["log"], &json!({}), 65_536).expect("an answer");
    let times = |count: u32, first: u32, last: u32| json!({ "count": count, "first_at": rfc3339(first), "last_at": rfc3339(last) });
    let named = |names: Value, times: Value| {
        let mut one = names.as_object().expect("names").clone();
        one.extend(times.as_object().expect("times").clone());
        Value::Object(one)
    };
    assert_eq!(
        told,
        json!({
            "hours": 168, "logins_total": 3, "failed_total": 3, "failed_for_unknown_users": 1, "host_starts": 1,
            "read_from": { "logins": "wtmp", "failed": "btmp" }, "records_since": rfc3339(old),
            "truncated": false, "not_seen": [],
            "logins": [
                named(json!({ "user": "ada", "from": "192.0.2.7" }), times(2, first, last)),
                named(json!({ "user": "root", "from": "local" }), times(1, first, first)),
            ],
            "failed_by_source": [
                named(json!({ "from": "203.0.113.9" }), times(2, first, last)),
                named(json!({ "from": "x\\u{1b}[2J" }), times(1, last, last)),
            ],
            "failed_by_user": [named(json!({ "user": "root" }), times(2, first, last))],
        })
    );
    let cut = stage.report(&["log"], &json!({ "limit": 1, "hours": 1 }), 65_536).expect("an answer");
    assert_eq!((&cut["logins"][0]["count"], &cut["truncated"]), (&json!(1), &json!(true)), "{cut}");
}

/// Without records the log of sshd is read, in both forms of times; without either nothing is
/// known.
#[test]
fn logins_come_from_the_log_where_there_are_no_records() {
    let stage = FileStage::new(Builtin::Logins);
    let told = stage.report(&["log"], &json!({}), 65_536).expect("an answer");
    assert_eq!(
        (&told["logins_total"], &told["failed_total"], &told["host_starts"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(told["not_seen"], json!(["auth_log", "btmp", "wtmp"]));
    let at = rfc3339(now_s() - 600);
    stage.put(
        "log/auth.log",
        format!(
            "{at} web1 sshd[7]: Accepted publickey for ada from 192.0.2.7 port 50100 ssh2: ED25519 SHA256:x\n\
             {at} web1 sshd[7]: Failed password for invalid user LOG-S3CRET from 203.0.113.9 port 1 ssh2\n\
             {at} web1 sshd[7]: message repeated 4 times: [ Failed password for root from 203.0.113.9 port 1 ssh2]\n\
             {at} web1 app[7]: Accepted password for root from 203.0.113.9 port 1 ssh2\n\
             2020-01-01T00:00:00Z web1 sshd[7]: Accepted password for root from 203.0.113.9 port 1 ssh2\n"
        ),
    );
    let told = stage.report(&["log"], &json!({}), 65_536).expect("an answer");
    assert_eq!(
        (&told["logins_total"], &told["failed_total"], &told["failed_for_unknown_users"]),
        (&json!(1), &json!(5), &json!(1))
    );
    assert_eq!(
        (&told["logins"][0]["user"], &told["failed_by_source"][0]["count"]),
        (&json!("ada"), &json!(5)),
        "{told}"
    );
    assert_eq!(told["read_from"], json!({ "logins": "auth_log", "failed": "auth_log" }));
    assert!(!told.to_string().contains("S3CRET"), "{told}");
}

/// Programs and users, but neither commands nor variables, which hold secrets.
#[test]
fn jobs_are_listed_without_their_commands() {
    let stage = FileStage::new(Builtin::CronList);
    stage.put(
        "cron.d/backup",
        "MAILTO=root\nTOKEN=ENV-S3CRET\n5 2 * * * ada /opt/backup --password=ARG-S3CRET\nnonsense\n",
    );
    stage.put("cron.d/left.dpkg-old", "5 2 * * * root /opt/old\n");
    stage.put("cron.daily/logrotate", "#!/bin/sh\n");
    stage.put("crontabs/bob", "@reboot curl -H 'X: ARG-S3CRET' http://h%INPUT-S3CRET\n");
    let all = ["cron.d", "cron.daily", "crontabs"];
    let told = stage.report(&all, &json!({}), 65_536).expect("an answer");
    let root = stage.dir.path().display();
    assert_eq!(
        told,
        json!({
            "jobs_found": 3, "variables_left_out": 2, "malformed_lines": 1, "truncated": false,
            "not_seen": ["anacron", "arguments", "at", "systemd_timers"],
            "jobs": [
                { "file": format!("{root}/cron.d/backup"), "schedule": "5 2 * * *", "user": "ada", "program": "/opt/backup" },
                { "file": format!("{root}/cron.daily/logrotate"), "schedule": "daily", "enabled": false,
                    "program": format!("{root}/cron.daily/logrotate") },
                { "file": format!("{root}/crontabs/bob"), "schedule": "@reboot", "user": "bob", "program": "curl" },
            ],
        })
    );
    let whole = stage.report(&all, &json!({ "arguments": true, "limit": 1 }), 65_536).expect("an answer");
    assert_eq!(whole["jobs"][0]["command"], "/opt/backup --password=[left out]", "{whole}");
    assert_eq!(whole["truncated"], true);
    let many = "* * * * * root /opt/x\n".repeat(20_000);
    stage.put("cron.d/many", many);
    let told = stage.report(&["cron.d"], &json!({ "limit": 500 }), 8_192).expect("an answer");
    assert_eq!((&told["jobs_found"], &told["truncated"]), (&json!(20_001), &json!(true)));
}

proptest! {
    #[test]
    fn any_list_gives_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..2_000), text in "((Package|Version|Architecture|Status): ?[ a-z0-9.-]{0,9}\n){0,9}") {
        let stage = FileStage::new(Builtin::PendingUpdates);
        stage.put("dpkg/status", [STATUS.as_bytes(), b"\n", text.as_bytes()].concat());
        stage.put("lists/a_Packages", [text.as_bytes(), &bytes].concat());
        stage.put("lists/a_InRelease", &bytes);
        let told = stage.report(&["dpkg", "lists"], &json!({}), 4_096);
        prop_assert!(told.is_ok());
    }
    #[test]
    fn any_records_and_lines_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..2_000), line in ".{0,200}") {
        let stage = FileStage::new(Builtin::Logins);
        stage.put("log/wtmp", &bytes);
        stage.put("log/auth.log", [&bytes, line.as_bytes()].concat());
        let told = stage.report(&["log"], &json!({}), 8_192);
        prop_assert!(told.is_ok());
    }
    #[test]
    fn any_table_gives_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..500), line in "([0-9*/@%=\\\\ a-z]{0,60}\n){0,9}") {
        let stage = FileStage::new(Builtin::CronList);
        stage.put("cron.d/a", &bytes);
        stage.put("crontabs/b", &line);
        let told = stage.report(&["cron.d", "crontabs"], &json!({ "arguments": true }), 8_192);
        prop_assert!(told.is_ok());
    }
}
