//! Scripts as tools: the shipped deployment.

mod code;
mod script;

use crate::support::{TestHome, text};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PERMIT: &str = r#"
@id("test-deploy")
permit (principal in PAR::Role::"operator", action == PAR::Action::"deploy", resource == PAR::Project::"demo");
"#;

/// A home in which an operator deploys without approval.
fn home() -> TestHome {
    let home = TestHome::init();
    home.add("policies/20-deploy.cedar", PERMIT);
    home
}

fn demo(home: &TestHome) -> PathBuf {
    home.path("workspace/demo")
}

/// The live release, which must be complete.
fn live(home: &TestHome) -> Option<String> {
    let link = std::fs::read_link(demo(home).join("current")).ok()?;
    let version = link.strip_prefix("releases").expect("a release").to_str().expect("UTF-8").to_owned();
    let release = demo(home).join(link);
    let told = std::fs::read_to_string(release.join("VERSION")).expect("a whole release");
    assert_eq!(told.trim(), version, "a release under another's name");
    assert!(release.join("app").is_file(), "half a release");
    Some(version)
}

/// Calls `deploy` in a separate process, and returns its one step.
fn deploy(home: &TestHome, version: &str) -> Value {
    call(home, "deploy", &json!({ "project": "demo", "version": version }))
}

fn call(home: &TestHome, tool: &str, arguments: &Value) -> Value {
    let output = home.par(&["--json", "tool", "call", tool, &arguments.to_string()]);
    let reply: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(&output.stdout), text(&output.stderr)));
    reply["steps"][0].clone()
}

/// A version with many files, which takes a while to copy.
fn add_version(home: &TestHome, version: &str, files: u32) {
    let folder = demo(home).join("incoming").join(version);
    std::fs::create_dir(&folder).expect("folder");
    std::fs::write(folder.join("VERSION"), format!("{version}\n")).expect("VERSION");
    std::fs::write(folder.join("app"), "app").expect("app");
    for file in 0..files {
        std::fs::write(folder.join(format!("file-{file}")), "x").expect("file");
    }
}

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !there() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_version_is_deployed_and_is_live() {
    let home = home();
    assert_eq!(live(&home), None);
    home.expect(0, &["run", r#"deploy(project="demo", version="1.0.0")"#]);
    assert_eq!(live(&home).as_deref(), Some("1.0.0"));
    let step = deploy(&home, "1.0.1");
    assert_eq!(step["status"], "ok", "{step}");
    let expect = json!({ "project": "demo", "version": "1.0.1", "previous": "1.0.0", "current": "1.0.1",
                         "rolled_back": false, "reason": "deployed" });
    assert_eq!(step["result"], expect);
    assert_eq!(live(&home).as_deref(), Some("1.0.1"));
    // Repeating it does no harm, and rolling back is a deployment like any other.
    let again = deploy(&home, "1.0.1")["result"]["reason"].clone();
    assert!(
        again
            .as_str()
            .is_some_and(|reason| reason.starts_with("it was live already, and nothing was changed")),
        "{again}"
    );
    assert_eq!(deploy(&home, "1.0.0")["result"]["previous"], "1.0.1");
    assert_eq!(live(&home).as_deref(), Some("1.0.0"));

    // What ran is on record, with the layers that confined it.
    let script = std::fs::read(home.path("etc/jobs.d/deploy.sh")).expect("script");
    let sha256: String = Sha256::digest(&script).iter().map(|byte| format!("{byte:02x}")).collect();
    let decision = home.entry(step["ledger"]["decision"].as_u64().expect("a number"));
    assert_eq!(decision["payload"]["script"], json!({ "name": "jobs.d/deploy.sh", "sha256": sha256 }));
    assert_eq!(decision["payload"]["request"]["resource"], json!({ "type": "PAR::Project", "id": "demo" }));
    let result = home.entry(step["ledger"]["result"].as_u64().expect("a number"));
    let layers = result["payload"]["layers"].to_string();
    for layer in ["landlock", "seccomp", "no capabilities", "net namespace", "init"] {
        assert!(layers.contains(layer), "{layer}: {layers}");
    }
    home.expect(0, &["audit", "verify"]);
}

#[test]
fn the_shipped_rules_require_approval() {
    let home = TestHome::init();
    home.expect(4, &["run", r#"deploy(project="demo", version="1.0.1")"#]);
    assert_eq!(live(&home), None);
    assert!(!demo(&home).join("releases").exists(), "something ran");
    let step = call(&home, "deploy", &json!({ "project": "other", "version": "1.0.1" }));
    assert_eq!((&step["decision"], &step["status"]), (&json!("deny"), &json!("refused")), "{step}");
}

#[test]
fn a_failing_check_rolls_back_and_says_so() {
    let home = home();
    let first = deploy(&home, "1.0.2-broken");
    assert_eq!(
        (&first["status"], &first["result"]["rolled_back"]),
        (&json!("error"), &json!(true)),
        "{first}"
    );
    assert_eq!((live(&home), &first["result"]["current"]), (None, &Value::Null));
    deploy(&home, "1.0.1");
    let second = deploy(&home, "1.0.2-broken");
    let expect = json!({ "project": "demo", "version": "1.0.2-broken", "previous": "1.0.1",
                         "current": "1.0.1", "rolled_back": true,
                         "reason": "its check failed after the switch: rolled back" });
    assert_eq!((&second["status"], &second["result"]), (&json!("error"), &expect));
    assert_eq!(live(&home).as_deref(), Some("1.0.1"));
    // An incomplete release never becomes live.
    add_version(&home, "1.0.3", 0);
    std::fs::write(demo(&home).join("incoming/1.0.3/VERSION"), "1.0.4\n").expect("VERSION");
    let third = deploy(&home, "1.0.3");
    assert_eq!(third["result"]["rolled_back"], false, "{third}");
    assert_eq!((&third["status"], live(&home).as_deref()), (&json!("error"), Some("1.0.1")));
    assert_eq!(deploy(&home, "7.7.7")["result"]["reason"], "incoming/7.7.7 does not exist");
    let step = call(&home, "deploy", &json!({ "project": "demo", "version": "1.0.0" }));
    assert_eq!(step["status"], "ok", "{step}");
}

#[test]
fn killed_half_way_leaves_the_old_or_the_new() {
    let home = home();
    deploy(&home, "1.0.0");
    let releases = demo(&home).join("releases");
    let copying = || demo(&home).join("releases/.par-content").exists();
    for (version, copied) in [("2.0.0", false), ("2.0.1", true)] {
        add_version(&home, version, 3_000);
        let arguments = json!({ "project": "demo", "version": version }).to_string();
        let mut child = home.command(&["tool", "call", "deploy", &arguments]).spawn().expect("par starts");
        until("it copies", || if copied { releases.join(version).exists() } else { copying() });
        child.kill().expect("killed");
        child.wait().expect("ended");
        let before = live(&home).expect("one is live");
        assert!(before == "1.0.0" || before == version || before == "2.0.0", "{before}");
        // The lock lasts as long as any process of the killed call: the next one starts from what
        // is there.
        let next = deploy(&home, version);
        assert_eq!((&next["status"], live(&home).as_deref()), (&json!("ok"), Some(version)), "{next}");
        assert!(!copying(), "what the killed call left is cleared away");
    }
    home.expect(0, &["audit", "verify"]);
    let interrupted = home.entries(&["kind:call.result"]);
    let interrupted = interrupted.iter().filter(|entry| entry.to_string().contains("\"interrupted\""));
    assert_eq!(interrupted.count(), 2, "each killed call is on record");
}

#[test]
fn two_at_once_come_one_behind_the_other() {
    let home = home();
    add_version(&home, "3.0.0", 800);
    add_version(&home, "3.0.1", 800);
    let key = home.key("ops", "operator");
    let server = home.serve();
    let steps: Vec<Value> = std::thread::scope(|scope| {
        let run = |version: &'static str| {
            let (server, key) = (&server, &key);
            scope.spawn(move || {
                let message = format!("deploy(project=\"demo\", version=\"{version}\")");
                server.run(key, &message).json()["steps"][0].clone()
            })
        };
        let started = ["3.0.0", "3.0.1", "1.0.1"].map(run);
        started.into_iter().map(|run| run.join().expect("a run")).collect()
    });
    let done: Vec<&Value> = steps.iter().filter(|step| step["status"] == "ok").collect();
    assert!(!done.is_empty(), "{steps:?}");
    for step in &steps {
        let waited = step["result"]["error"]
            .as_str()
            .is_some_and(|e| e.starts_with("another call or a process of the host kept"));
        assert!(step["status"] == "ok" || waited, "{step}");
    }
    // One after the other: each found live what another had made so.
    let mut previous: Vec<String> = done.iter().map(|step| step["result"]["previous"].to_string()).collect();
    previous.sort();
    previous.dedup();
    assert_eq!(previous.len(), done.len(), "{steps:?}");
    assert!(live(&home).is_some());
    server.stop();
}

#[test]
fn a_folder_that_is_busy_is_a_refusal_with_its_reason() {
    let home = home();
    let folder = std::fs::File::open(demo(&home)).expect("folder");
    let _lock = nix::fcntl::Flock::lock(folder, nix::fcntl::FlockArg::LockExclusive).expect("locked");
    let step = deploy(&home, "1.0.1");
    let error = step["result"]["error"].as_str().expect("an error");
    assert_eq!(step["status"], "refused", "{step}");
    assert!(
        error.starts_with("another call or a process of the host kept `")
            && error.contains("/workspace/demo`"),
        "{error}"
    );
    assert_eq!(live(&home), None);
}

#[test]
fn a_script_that_changed_on_disk_never_runs() {
    let home = home();
    let key = home.key("ops", "operator");
    let server = home.serve();
    std::fs::write(home.path("etc/jobs.d/deploy.sh"), "printf '{}'; : >PWNED\n").expect("script");
    let message = r#"deploy(project="demo", version="1.0.1")"#;
    let step = server.run(&key, message).json()["steps"][0].clone();
    assert_eq!((&step["status"], &step["result"]["reason"]), (&json!("ok"), &json!("deployed")), "{step}");
    // Another launcher reads what is there now, and does not pass for the one that was decided
    // with.
    kill_launcher(&server.descendants());
    until("the new launcher answers", || {
        let step = server.run(&key, message).json()["steps"][0].clone();
        let reason = step["result"]["error"].as_str().unwrap_or_default().to_owned();
        assert_ne!(step["status"], "ok", "{step}");
        reason.contains("the manifest of `deploy` is not the one that this launcher loaded")
    });
    assert!(!demo(&home).join("PWNED").exists(), "changed bytes ran");
    server.stop();
}

/// The launcher proper: the grandchild of the supervisor.
pub(crate) fn launcher(descendants: &[u32]) -> u32 {
    let below = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok();
    let launcher = descendants.iter().filter_map(below).find_map(|pids| pids.trim().parse().ok());
    launcher.expect("a launcher")
}

pub(crate) fn kill_launcher(descendants: &[u32]) {
    crate::support::signal(launcher(descendants), nix::sys::signal::Signal::SIGKILL);
}

#[test]
fn an_invalid_version_is_an_invalid_call() {
    let home = home();
    for version in [
        "",
        "..",
        "../1.0.1",
        "a/../../b",
        "-x",
        "--help",
        "1.0.1 ",
        "a b",
        "1.0.1\n",
        "A",
        "1;id",
        "$(id)",
        "é",
        ".hidden",
        &"1".repeat(5_000),
    ] {
        let step = deploy(&home, version);
        assert_eq!(
            (&step["decision"], &step["status"]),
            (&json!("invalid"), &json!("refused")),
            "{version:?}"
        );
    }
    for project in ["", "..", "../demo", "-x", "Demo", "demo/..", "de mo", &"d".repeat(65)] {
        let step = call(&home, "deploy", &json!({ "project": project, "version": "1.0.1" }));
        assert_eq!(
            (&step["decision"], &step["status"]),
            (&json!("invalid"), &json!("refused")),
            "{project:?}"
        );
    }
    for arguments in [
        json!({ "project": "demo" }),
        json!({ "project": "demo", "version": 1 }),
        json!({ "project": "demo", "version": "1.0.1", "force": true }),
    ] {
        assert_eq!(call(&home, "deploy", &arguments)["decision"], "invalid", "{arguments}");
    }
    assert!(!demo(&home).join("releases").exists(), "something ran");
}

#[test]
fn a_project_that_is_a_link_is_not_followed() {
    let home = home();
    let policy = PERMIT.replace("resource == PAR::Project::\"demo\"", "resource");
    std::fs::write(home.path("etc/policies/20-deploy.cedar"), policy).expect("policy");
    symlink(home.path("workspace/demo"), home.path("workspace/link")).expect("link");
    symlink("/tmp", home.path("workspace/out")).expect("link");
    for project in ["link", "out", "absent"] {
        let step = call(&home, "deploy", &json!({ "project": project, "version": "1.0.1" }));
        assert_eq!(step["status"], "refused", "{step}");
        let error = step["result"]["error"].as_str().expect("an error");
        assert!(error.starts_with("the sandbox: cannot open the working folder"), "{error}");
        assert!(error.contains(&format!("/workspace/{project}`")), "{error}");
    }
}

#[test]
fn a_tool_that_cannot_be_loaded_says_where() {
    let home = TestHome::init();
    let path = home.path("etc/tools.d/deploy.toml");
    let good = std::fs::read_to_string(&path).expect("manifest");
    let refused = |from: &str, to: &str, why: &str| {
        assert!(good.contains(from), "{from}");
        std::fs::write(&path, good.replacen(from, to, 1)).expect("manifest");
        let output = home.par(&["tool", "list"]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{to}: {told}");
    };
    refused("jobs.d/deploy.sh", "jobs.d/absent.sh", "No such file");
    refused("jobs.d/deploy.sh", "../etc/jobs.d/deploy.sh", "is not a plain path below etc/");
    refused("jobs.d/deploy.sh", "/bin/sh", "is not a plain path below etc/");
    refused("[\"@workspace/{project}\"]", "[\"@workspace/../etc\"]", "is not an absolute path without");
    std::fs::write(&path, good).expect("manifest");
    let script = home.path("etc/jobs.d/deploy.sh");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o666)).expect("mode");
    let told = text(&home.par(&["tool", "list"]).stderr);
    assert!(told.contains("deploy.toml:6: `jobs.d/deploy.sh`: is writable by others"), "{told}");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).expect("mode");
    std::fs::set_permissions(home.path("etc/jobs.d"), PermissionsExt::from_mode(0o777)).expect("mode");
    let told = text(&home.par(&["tool", "list"]).stderr);
    assert!(told.contains("is writable by others"), "{told}");
}
