//! The dashboard in a real browser: Debian's `chromium`, driven by `playwright-core` and checked by
//! `axe-core`; both come from npm into a temporary folder.
//!
//! Without a browser, Node.js or the registry this is skipped with a message, unless
//! `PAR_REQUIRE_BROWSER` is set. `PAR_SCREENSHOTS` names a folder for pictures of every page.

#![expect(clippy::disallowed_methods, reason = "tests start a browser")]

use crate::approval::{People, key, post};
use crate::support::{Server, TestHome, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.1"];

#[test]
fn every_page_in_a_browser() {
    if std::env::var_os("PAR_TEST_BIN").is_some() {
        return eprintln!("SKIPPED: the browser looks once, in the run as the first user");
    }
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(what) if std::env::var_os("PAR_REQUIRE_BROWSER").is_some() => panic!("no browser test: {what}"),
        Err(what) => return eprintln!("\nSKIPPED: the dashboard was looked at in NO browser: {what}\n"),
    };
    let (empty, full) = (TestHome::init(), TestHome::init());
    tools.look(&orders(&empty, None, "empty"));
    let operator = full.key("ops-ci", "operator");
    tools.look(&orders(&full, Some(&operator), "full"));
    tools.look(&question(&People::new()));
    tools.look(&own(&TestHome::init()));
}

/// The browser and its driver.
struct Tools {
    chromium: PathBuf,
    folder: tempfile::TempDir,
}

/// A server, kept as long as its pages are visited, and the pages to visit.
struct Orders {
    _server: Server,
    told: Value,
}

/// Pages of a home, with an operator's key, after use.
fn orders(home: &TestHome, operator: Option<&str>, name: &str) -> Orders {
    let viewer = home.key("reviewer", "viewer");
    let server = home.serve();
    let mut pages: Vec<(String, String)> =
        [("overview", ""), ("runs", "runs"), ("audit", "audit"), ("tools", "tools"), ("health", "health")]
            .map(|(page, path)| (page.to_owned(), format!("/ui/{path}")))
            .to_vec();
    let mut add = |page: &str, path: String| pages.push((page.to_owned(), path));
    if let Some(operator) = operator {
        let run = work(&server, operator);
        for view in ["timeline", "reader", "json"] {
            add(&format!("run-{view}"), format!("/ui/runs/{run}?view={view}"));
        }
        add("filtered", "/ui/audit?q=kind:call.decision+decision:deny".to_owned());
        add("follow", "/ui/audit?follow=1&q=kind:call.*".to_owned());
        add("entry-decision", "/ui/audit/16".to_owned());
    }
    add("entry", "/ui/audit/1".to_owned());
    add("none", "/ui/audit?q=kind:nothing".to_owned());
    add("wrong-query", "/ui/audit?q=nonsense".to_owned());
    let shots = std::env::var_os("PAR_SCREENSHOTS").map(|folder| Path::new(&folder).join(name));
    let told = json!({
        "base": format!("http://{}", server.address),
        "viewer": viewer, "operator": operator, "pages": pages, "entry": 2, "shots": shots,
    });
    Orders { _server: server, told }
}

/// The pages of an approver, with something to approve.
fn question(people: &People) -> Orders {
    people.add_note();
    let server = people.home.serve();
    let page_of = |asked: &Value| format!("/ui/approvals/{}", asked["id"].as_str().expect("id"));
    // One question is open for an object at a time: this one is answered before the next is asked.
    let (_, endless) = people.ask(&server, &format!("note(words={})", json!("W".repeat(60_000))));
    let no = json!({ "answer": "refuse", "card": endless["card"] });
    assert_eq!(post(&server, &people.ben, &endless, &no).status, 200);
    let endless = page_of(&endless);
    let [page, markup] = [
        people.list(),
        format!(
            "note(words={})",
            json!("<script>alert(1)</script> \u{202e}exe.txt <img src=x onerror=alert(1)>")
        ),
    ]
    .map(|message| page_of(&people.ask(&server, &message).1));
    let run_page = format!("{page}/run");
    let other = "not for those who approve";
    let run = server.run(&people.asker, other).json();
    let foreign = format!("/ui/runs/{}", run["run"].as_str().expect("run"));
    let denied = ["/ui/runs", &foreign, "/ui/audit", "/ui/audit/1", "/ui/tools", "/ui/health", "/ui/events"];
    let link = people.home.expect(0, &["login"]);
    let pages = [
        ("approvals", "/ui/approvals"),
        ("approvals-none", "/ui/approvals?state=expired"),
        ("approval", &page),
        ("approval-markup", &markup),
        ("approval-endless", &endless),
        ("approval-run", &run_page),
    ];
    let shots = std::env::var_os("PAR_SCREENSHOTS").map(|folder| Path::new(&folder).join("approver"));
    let base = format!("http://{}", server.address);
    let told = json!({
        "base": base, "viewer": people.ben, "pages": pages, "approve": page, "risky": markup, "link": link.trim(),
        "denied": denied, "hidden": [other], "shots": shots,
    });
    Orders { _server: server, told }
}

/// The pages of an operator: own runs, and nothing of another operator.
fn own(home: &TestHome) -> Orders {
    let (ana, ben) = (key(home, "ana-1", "operator", "ana"), key(home, "ben-1", "operator", "ben"));
    let server = home.serve();
    let (mine, other) = ("what ana asked", "what ben asked");
    let ask = |key: &str, message: &str| {
        let run = server.run(key, message).json();
        run["run"].as_str().expect("run").to_owned()
    };
    let (mine, foreign) = (ask(&ana, mine), ask(&ben, other));
    let first = |run: &str| {
        let entry = &home.entries(&[&format!("run:{run}")])[0];
        format!("/ui/audit/{}", entry["seq"].as_u64().expect("seq"))
    };
    let pages = [
        ("runs".to_owned(), "/ui/runs".to_owned()),
        ("run".to_owned(), format!("/ui/runs/{mine}")),
        ("audit".to_owned(), "/ui/audit".to_owned()),
        ("entry".to_owned(), first(&mine)),
        ("tools".to_owned(), "/ui/tools".to_owned()),
        ("health".to_owned(), "/ui/health".to_owned()),
    ];
    let denied = [
        format!("/ui/runs/{foreign}"),
        first(&foreign),
        "/ui/audit/1".to_owned(),
        "/ui/approvals".to_owned(),
        "/ui/export".to_owned(),
        "/ui/events".to_owned(),
    ];
    let shots = std::env::var_os("PAR_SCREENSHOTS").map(|folder| Path::new(&folder).join("operator"));
    let told = json!({
        "base": format!("http://{}", server.address), "viewer": ana, "pages": pages,
        "denied": denied, "hidden": [other, &foreign], "shots": shots,
    });
    Orders { _server: server, told }
}

/// Runs with every outcome; returns the one with the most to show.
fn work(server: &Server, operator: &str) -> String {
    let mut first = None;
    for message in [
        "how is this server doing?",
        "read_file(path=\"/etc/shadow\")",
        "<script>alert(document.domain)</script> \u{202e}txt.exe <img src=x onerror=alert(1)>",
        "list_dir(path=\"/var/log\") read_file(path=\"/etc/passwd\") read_file(path=\"/etc/shadow\") health_check()",
        &"a-word-without-an-end-".repeat(400),
    ] {
        let told = server.run(operator, message).json();
        if message.starts_with("list_dir") {
            first = told["run"].as_str().map(str::to_owned);
        }
    }
    first.expect("a run")
}

impl Tools {
    fn find() -> Result<Self, String> {
        let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        let chromium = chromium.into_iter().map(PathBuf::from).find(|path| path.exists());
        let chromium = chromium.ok_or("chromium is not installed (Debian: `apt-get install chromium`)")?;
        let folder = tempfile::Builder::new().prefix("par-browser-").tempdir().map_err(|e| e.to_string())?;
        std::fs::write(folder.path().join("look.mjs"), include_str!("../browser/look.mjs"))
            .map_err(|e| e.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"])
            .args(PACKAGES);
        let got = npm.current_dir(folder.path()).stdin(Stdio::null()).output();
        let got = got.map_err(|e| format!("npm: {e}"))?;
        if !got.status.success() {
            return Err(format!("npm cannot get {}: {}", PACKAGES.join(", "), text(&got.stderr)));
        }
        Ok(Self { chromium, folder })
    }

    fn look(&self, orders: &Orders) {
        let output = Command::new("node")
            .arg("look.mjs")
            .current_dir(self.folder.path())
            .env("PAR_LOOK", orders.told.to_string())
            .env("PAR_CHROMIUM", &self.chromium)
            .stdin(Stdio::null())
            .output()
            .expect("node");
        let told = text(&output.stdout);
        assert!(output.status.success(), "{told}{}", text(&output.stderr));
        println!("{}", told.trim_end());
    }
}
