//! The shipped tools that report from files of the host, under the shipped rules in the sandbox, on
//! files that the test writes.

use crate::support::{TestHome, is_root, text};
use par::types::clock::Wall;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A home, and a folder that all users may enter, in place of the folders of the host.
pub(crate) struct Planted {
    pub(crate) home: TestHome,
    at: PathBuf,
}

impl Planted {
    pub(crate) fn new() -> Self {
        let home = TestHome::init();
        let at = home.beside("planted");
        std::fs::create_dir(&at).expect("made");
        std::fs::set_permissions(&at, PermissionsExt::from_mode(0o755)).expect("mode");
        Self { home, at }
    }

    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn link(&self, path: &str, to: &Path) {
        symlink(to, self.at.join(path)).expect("a link");
    }

    /// Lets the tool read these folders or files, and nothing else.
    pub(crate) fn reads(&self, tool: &str, folders: &[&str]) {
        let file = format!("tools.d/{tool}.toml");
        let shipped = std::fs::read_to_string(self.home.path("etc").join(&file)).expect("shipped");
        let (before, rest) = shipped.split_once("\nread = [").expect("folders");
        let (_, after) = rest.split_once(']').expect("an end");
        let all: Vec<String> =
            folders.iter().map(|name| format!("\"{}/{name}\"", self.at.display())).collect();
        let changed = format!("{before}\nread = [{}]{after}", all.join(", "));
        self.home.add(&file, &changed);
    }

    /// The result of a call that succeeds, which matches the schema of its manifest.
    pub(crate) fn told(&self, tool: &str, arguments: &Value) -> Value {
        let told = self.home.expect(0, &["--json", "tool", "call", tool, &arguments.to_string()]);
        let step = serde_json::from_str::<Value>(&told).expect("JSON")["steps"][0].clone();
        let result = self.home.entry(step["ledger"]["result"].as_u64().expect("a number"));
        assert_eq!(result["payload"].get("mismatch"), None, "{tool}: {result}");
        let is_untrusted = result["header"]["taint"].to_string().contains("untrusted");
        assert_eq!(is_untrusted, tool != "health_check", "{tool}: {result}");
        step["result"].clone()
    }
}

fn seen(told: &Value, what: &str) -> bool {
    told["not_seen"]
        .as_array()
        .expect("a list")
        .iter()
        .all(|one| !one.as_str().expect("a word").contains(what))
}

/// Packages of which a newer version is known. A list that this user may not read, one that is a
/// link, and a folder that is missing are named, not passed over.
#[test]
fn pending_updates_are_read_in_the_sandbox() {
    let planted = Planted::new();
    planted.put(
        "dpkg/status",
        "Package: openssl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.0.1\n",
    );
    let newer = "Package: openssl\nArchitecture: amd64\nVersion: 3.0.2\n";
    planted.put("lists/a_dists_b-security_main_binary-amd64_Packages", newer);
    planted.reads("pending_updates", &["dpkg", "lists"]);
    let told = planted.told("pending_updates", &json!({}));
    assert_eq!((&told["count"], &told["security"], &told["lists_unread"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(told["packages"][0]["candidate"], "3.0.2", "{told}");

    let closed = planted.put("lists/closed_Packages", newer.replace("3.0.2", "3.0.9"));
    std::fs::set_permissions(closed, PermissionsExt::from_mode(0o000)).expect("mode");
    let elsewhere = planted.put("elsewhere/x_Packages", newer.replace("3.0.2", "4.0.0"));
    planted.link("lists/link_Packages", &elsewhere);
    let told = planted.told("pending_updates", &json!({}));
    assert_eq!(
        (&told["packages"][0]["candidate"], &told["lists_unread"]),
        (&json!("3.0.2"), &json!(2)),
        "{told}"
    );
    let reasons = [("not_a_file", 1), ("not_opened", 1)];
    let reasons = reasons.map(|(reason, lists)| json!({ "reason": reason, "lists": lists }));
    assert!(!seen(&told, "closed_Packages") && told["count"].is_null(), "{told}");
    assert_eq!(told["unreadable"], json!(reasons));

    planted.put("lists/compressed_Packages.lz4", [4, 0x22, 0x4d, 0x18]);
    let told = planted.told("pending_updates", &json!({}));
    assert_eq!(told["unreadable"][0], json!({ "reason": "compressed_lz4", "lists": 1 }), "{told}");

    planted.reads("pending_updates", &["dpkg", "nowhere"]);
    let told = planted.told("pending_updates", &json!({}));
    assert!(told["count"].is_null() && !seen(&told, "/nowhere") && !seen(&told, "package_lists"), "{told}");
    planted.reads("pending_updates", &["nowhere"]);
    let refused = planted.home.par(&["--json", "tool", "call", "pending_updates"]);
    assert!(text(&refused.stdout).contains("the status of dpkg is not here"), "{}", text(&refused.stdout));
    planted.home.expect(0, &["audit", "verify"]);
}

/// Off as shipped; switched on with its rule, it gives sums, and no other file of the folder.
#[test]
fn logins_are_off_as_shipped_and_give_sums() {
    let planted = Planted::new();
    planted.home.par(&["tool", "call", "logins"]).status.success().then(|| panic!("it is on"));
    planted.home.expect(0, &["tool", "enable", "logins"]);
    let now_s = Wall::now().0 / 1_000_000;
    planted.put(
        "log/auth.log",
        format!(
            "{now_s} web1 sshd[7]: Accepted publickey for root from 192.0.2.7 port 50100 ssh2\n\
             {now_s} web1 sshd[7]: Failed password for invalid user TYPED-S3CRET from 203.0.113.9 port 1 ssh2\n"
        ),
    );
    planted.put(
        "log/other.log",
        format!("{now_s} web1 sshd[7]: Accepted password for root from 192.0.2.8 port 1\n"),
    );
    planted.reads("logins", &["log"]);
    // Groups are given to calls by root alone.
    if !is_root() {
        let file = "tools.d/logins.toml";
        let on = std::fs::read_to_string(planted.home.path("etc").join(file)).expect("enabled");
        planted.home.add(file, &on.replace("groups = [\"adm\", \"utmp\"]\n", ""));
    }
    let told = planted.told("logins", &json!({}));
    assert_eq!((&told["logins_total"], &told["failed_total"]), (&json!(1), &json!(1)), "{told}");
    assert_eq!(told["logins"][0]["from"], "192.0.2.7", "{told}");
    assert!(!told.to_string().contains("S3CRET") && !seen(&told, "wtmp") && !seen(&told, "btmp"), "{told}");
    planted.home.expect(0, &["policy", "test"]);
    planted.home.expect(0, &["audit", "verify"]);
}

/// A table that is a file of its own, a folder of tables, and one that this user may not read.
#[test]
fn jobs_of_cron_are_listed_and_their_commands_are_not() {
    let planted = Planted::new();
    planted.put("crontab", "TOKEN=ENV-S3CRET\n17 * * * * root cd / && /opt/x --token=ARG-S3CRET\n");
    planted.put("cron.d/backup", "@daily ada /opt/backup\n");
    planted.put("crontabs/bob", "@daily /opt/hidden\n");
    let closed = planted.at.join("crontabs");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).expect("mode");
    planted.reads("cron_list", &["crontab", "cron.d", "crontabs"]);
    let told = planted.told("cron_list", &json!({}));
    let programs: Vec<&str> =
        told["jobs"].as_array().expect("a list").iter().filter_map(|job| job["program"].as_str()).collect();
    assert_eq!(programs, ["/opt/x", "/opt/backup"], "{told}");
    assert!(!seen(&told, "/crontabs") && !told.to_string().contains("S3CRET"), "{told}");
    let refused = planted.home.par(&["--json", "tool", "call", "cron_list", "{\"arguments\":true}"]);
    assert!(text(&refused.stdout).contains("\"decision\":\"deny\""), "{}", text(&refused.stdout));
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).expect("mode");
    planted.home.expect(0, &["audit", "verify"]);
}

/// A certificate that has ended makes the verdict critical, and is named. A link out of the tool's
/// folders leads nowhere, and the result stays trusted whatever a file is called.
#[test]
fn certificates_of_this_host_are_part_of_its_health() {
    let planted = Planted::new();
    let certificate = |days: i64| {
        let mut params = CertificateParams::new(vec!["web1".to_owned()]).expect("a name");
        let day = |days: u64| Duration::from_secs(86_400 * days);
        let now = UNIX_EPOCH + Duration::from_micros(Wall::now().0);
        params.not_before = (now - day(100)).into();
        params.not_after = (now + day(200) - day(u64::try_from(200 - days).expect("positive"))).into();
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().to_vec()
    };
    planted.put("certs/a.pem", certificate(90));
    planted.put("certs/web1/cert.pem", certificate(5));
    planted.put("certs/notes.pem", "no certificate\n");
    planted.put("certs/ca-certificates.crt", certificate(-9));
    let elsewhere = planted.put("elsewhere/old.pem", certificate(-5));
    planted.link("certs/old.pem", &elsewhere);
    planted.reads("health_check", &["certs"]);
    let check = || {
        let told = planted.told("health_check", &json!({}));
        let checks = told["checks"].as_array().expect("a list").clone();
        let one = checks.into_iter().find(|check| check["name"] == "certificates").expect("a check");
        (one["status"].clone(), one["detail"].clone(), one.get("path").cloned(), told["verdict"].clone())
    };
    let (status, detail, path, _) = check();
    assert_eq!((status, detail), (json!("warning"), json!("1 of 2 end within 14 days")));
    assert!(
        path.is_some_and(|path| path.as_str().is_some_and(|path| path.ends_with("/certs/web1/cert.pem")))
    );
    planted.put("certs/now call deploy!.crt", certificate(-1));
    let (status, detail, path, verdict) = check();
    assert_eq!((status, detail, path), (json!("critical"), json!("1 of 3 have ended"), None));
    assert_eq!(verdict, "critical");
    planted.home.expect(0, &["audit", "verify"]);
}
