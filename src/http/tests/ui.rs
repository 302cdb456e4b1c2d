//! The dashboard: who may log in, what a page contains, and what becomes of hostile text.

use super::TestApp;
use super::client::{RawResponse, Tail};
use crate::auth::Role;
use crate::ledger::payload::{
    CallDecisionPayload, CallResultPayload, ModelErrorPayload, ModelReplyPayload, RunReplyPayload,
    RunRequestPayload, StopPayload,
};
use crate::ledger::{Body, Draft, Payload, Ref};
use crate::types::{CallId, Digest, RunId, SessionId};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(super) const OWN: &str = "Sec-Fetch-Site: same-origin\r\n";
const PAGES: [&str; 6] =
    ["/ui/", "/ui/runs", "/ui/audit", "/ui/audit?follow=1&q=kind:key.*", "/ui/tools", "/ui/health"];

impl TestApp {
    /// Posts a form like a page of ours, with `more` header lines.
    pub(super) async fn form(&self, path: &str, more: &str, fields: &str) -> RawResponse {
        let more = format!("{more}Content-Type: application/x-www-form-urlencoded\r\nAccept: text/html\r\n");
        self.send("POST", path, &more, fields.as_bytes()).await
    }

    /// Logs in and returns the header line of the login.
    async fn log_in(&self, key: &str) -> String {
        let answer = self.form("/ui/login", OWN, &format!("key={key}")).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/ui/")), "{answer:?}");
        cookie(&answer)
    }

    /// Requests a page as a browser with this login.
    pub(super) async fn page(&self, path: &str, login: &str) -> RawResponse {
        self.send("GET", path, &format!("{login}Accept: text/html,*/*\r\n"), b"").await
    }
}

pub(super) fn cookie(answer: &RawResponse) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    format!("Cookie: {}\r\n", set.split(';').next().expect("pair"))
}

pub(super) fn token(page: &RawResponse) -> String {
    let (_, rest) = page.body.split_once("name=\"token\" value=\"").expect("a token");
    rest.split('"').next().expect("value").to_owned()
}

#[tokio::test]
async fn a_login_begins_with_a_key_and_ends_with_the_form() {
    let app = TestApp::start().await;
    let key = app.key(Role::Viewer).await;
    let answer = app.form("/ui/login", OWN, &format!("key=%20{key}%0A&next=/ui/runs?status=done")).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/ui/runs?status=done")));
    let set = answer.header("set-cookie").expect("cookie").to_owned();
    assert!(set.starts_with("par_login=") && set.contains("HttpOnly; SameSite=Strict"), "{set}");
    assert!(!answer.body.contains(&key) && !set.contains(&key));
    let login = cookie(&answer);
    for path in PAGES {
        let page = app.page(path, &login).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(page.body.len() < 100_000, "{path}");
        assert!(page.body.contains("The same with curl"), "{path}");
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(page.header(name), Some(value), "{path}");
        }
        let policy = page.header("content-security-policy").expect("policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(policy.ends_with("require-trusted-types-for 'script'") && !policy.contains("unsafe"));
        assert!(!page.body.contains(" style=") && !page.body.contains("<style"), "{path}");
    }
    let token = token(&app.page("/ui/", &login).await);
    let away = app.form("/ui/logout", &format!("{login}{OWN}"), &format!("token={token}")).await;
    assert_eq!((away.status, away.header("location")), (303, Some("/ui/login")));
    assert!(away.header("set-cookie").expect("cookie").contains("Max-Age=0"));
    let page = app.page("/ui/audit?q=kind:start", &login).await;
    let login = Some("/ui/login?next=/ui/audit%3Fq%3Dkind:start");
    assert_eq!((page.status, page.header("location")), (303, login));
}

/// An error page has the navigation for a visitor who is logged in, and offers a login only to
/// others (A9).
#[tokio::test]
async fn an_error_page_keeps_the_navigation_of_a_login() {
    let app = TestApp::start().await;
    let login = app.log_in(&app.key(Role::Viewer).await).await;
    for (path, status) in [
        ("/ui/runs?nope=1", 422),
        ("/ui/runs?limit=0", 422),
        ("/ui/runs/run_01JD0000000000000000000000", 404),
        ("/ui/audit/999", 404),
        ("/ui/nowhere", 404),
    ] {
        let page = app.page(path, &login).await;
        assert_eq!(page.status, status, "{path}: {page:?}");
        assert!(page.body.contains("aria-label=\"Pages\"") && page.body.contains("Log out"), "{path}");
        assert!(!page.body.contains("/ui/login"), "{path} offers a login: {}", page.body);
        let page = app.page(path, "").await;
        assert!(!page.body.contains("aria-label=\"Pages\""), "{path}");
    }
    // A search with a mistake is a page with the reason, not an error.
    let page = app.page("/ui/runs?q=decision:denied", &login).await;
    assert!(page.status == 200 && page.body.contains("did you mean `deny`?"), "{page:?}");
    let page = app.page("/ui/audit?q=tool:deploy", &login).await;
    assert!(page.body.contains("par audit show tool:deploy"), "{}", page.body);
}

/// Tables show keys by their names, and an entry by what it is about (C1).
#[tokio::test]
async fn tables_show_names_and_objects() {
    let app = TestApp::start_whole().await;
    let operator = app.key(Role::Operator).await;
    let login = app.log_in(&app.key(Role::Viewer).await).await;
    let asked = json!({ "message": "read_file(path=\"/etc/shadow\")" }).to_string();
    assert_eq!(app.run(&operator, asked.as_bytes()).await.status, 200);
    for (path, words) in [
        ("/ui/audit?q=kind:key.create", &["operator, operator", "viewer, viewer"][..]),
        ("/ui/audit?q=kind:run.request", &[">operator<", "/etc/shadow"]),
        ("/ui/audit?q=kind:call.decision", &[">operator<", "/etc/shadow", "read_file"]),
    ] {
        let page = app.page(path, &login).await;
        for word in words {
            assert!(page.body.contains(word), "{path} does not show {word}: {}", page.body);
        }
    }
    assert!(app.page("/ui/", &login).await.body.contains("needs approval"));
}

#[tokio::test]
async fn forms_of_other_sites_do_nothing() {
    let app = TestApp::start().await;
    let key = app.key(Role::Viewer).await;
    let login = app.log_in(&key).await;
    let token = format!("token={}", token(&app.page("/ui/", &login).await));
    let own = format!("http://{}", app.address);
    let origin = |origin: &str| format!("{login}Origin: {origin}\r\n");
    for (name, headers, fields) in [
        ("cross-site", format!("{login}Sec-Fetch-Site: cross-site\r\n"), token.as_str()),
        ("a sibling", format!("{login}Sec-Fetch-Site: same-site\r\n"), &token),
        ("no origin", login.clone(), &token),
        ("another origin", origin("http://evil.example"), &token),
        ("a sandboxed frame", origin("null"), &token),
        ("no token", format!("{login}{OWN}"), ""),
        ("another token", format!("{login}{OWN}"), "token=00"),
    ] {
        let answer = app.form("/ui/logout", &headers, fields).await;
        assert_eq!(answer.status, 403, "{name}: {answer:?}");
        assert_eq!(app.page("/ui/", &login).await.status, 200, "{name}: the login is still there");
    }
    for headers in ["", "Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
        let answer = app.form("/ui/login", headers, &format!("key={key}")).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{headers}");
    }
    let host = "POST /ui/login HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n";
    let answer = app.raw(format!("{host}{OWN}Content-Length: 0\r\n\r\n")).await;
    assert_eq!((answer.status, answer.problem().as_str()), (421, "unknown_host"));
    let out = app.form("/ui/logout", &origin(&own), &token).await;
    assert_eq!(out.status, 303, "our own origin is enough if a browser sends nothing else");
}

#[tokio::test]
async fn a_stolen_cookie_is_worth_nothing_once_the_key_is_revoked() {
    let app = TestApp::start().await;
    let key = app.key(Role::Viewer).await;
    let login = app.log_in(&key).await;
    assert_eq!(app.page("/ui/", &login).await.status, 200);
    // A live stream is open while the key is revoked: it ends too.
    let asking = format!("GET /ui/events?after=0 HTTP/1.1\r\nHost: {}\r\n{login}\r\n", app.address);
    let tail = Tail::open(app.address, asking, "\r\n\r\n").await;
    app.home.authority.revoke(&app.home.owner, "viewer", None).await.expect("revoked");
    let page = app.page("/ui/", &login).await;
    assert_eq!((page.status, page.header("location")), (303, Some("/ui/login")));
    let events = app.send("GET", "/ui/events", &login, b"").await;
    assert_eq!((events.status, events.problem().as_str()), (401, "unauthenticated"));
    let answer = tokio::time::timeout(Duration::from_secs(15), tail.end()).await.expect("ends");
    assert_eq!(answer.status, 200);
    assert_eq!(app.form("/ui/login", OWN, &format!("key={key}")).await.status, 401);
}

/// A browser sends the cookie to every port of its host: another server on the loopback receives
/// it, and reads the token of every form with it.
#[tokio::test]
async fn a_cookie_without_its_tab_cannot_answer() {
    let app = TestApp::start().await;
    let key = app.key(Role::Approver).await;
    let proof = "5a".repeat(32);
    let answer = app.form("/ui/login", OWN, &format!("key={key}&proof={proof}")).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let with_script = cookie(&answer);
    let without = app.log_in(&key).await;
    for (login, given, is_taken) in [
        (&with_script, String::new(), false),
        (&with_script, format!("&proof={}", "a5".repeat(32)), false),
        (&with_script, format!("&proof={proof}"), true),
        (&without, "&proof=".to_owned(), false),
        (&without, format!("&proof={proof}"), false),
    ] {
        let page = app.page("/ui/approvals", login).await;
        assert!(page.status == 200 && !page.body.contains(&proof), "no page holds it");
        for word in ["grant", "refuse"] {
            let fields = format!("answer={word}&call_hash=00&token={}{given}", token(&page));
            let path = "/ui/approvals/apr_01JD0000000000000000000000";
            let answer = app.form(path, &format!("{login}{OWN}"), &fields).await;
            // After the answer is accepted, this refusal cannot occur.
            assert_eq!(answer.status, if is_taken { 404 } else { 403 }, "{word}{given}: {answer:?}");
            assert_eq!(answer.body.contains("answer in a tab where you logged in"), !is_taken, "{answer:?}");
        }
    }
    // The holder of the cookie can end the login, which reveals nothing.
    let token = token(&app.page("/ui/approvals", &with_script).await);
    let out = app.form("/ui/logout", &format!("{with_script}{OWN}"), &format!("token={token}")).await;
    assert_eq!(out.status, 303);
}

/// Which role sees which page: the whole surface, reviewable as a diff.
#[tokio::test]
async fn the_table_of_roles_and_pages() {
    let golden = "\
log in            viewer 303  operator 303  approver 303  admin 303
/ui/              viewer 200  operator 303  approver 303  admin 200
/ui/runs          viewer 200  operator 200  approver 403  admin 200
/ui/audit         viewer 200  operator 200  approver 403  admin 200
/ui/audit/0       viewer 200  operator 404  approver 403  admin 200
/ui/audit/99      viewer 404  operator 404  approver 403  admin 404
/ui/approvals     viewer 403  operator 403  approver 200  admin 200
/ui/tools         viewer 200  operator 200  approver 403  admin 200
/ui/health        viewer 200  operator 200  approver 403  admin 200
/ui/nothing       viewer 404  operator 404  approver 404  admin 404
";
    let app = TestApp::start().await;
    let mut logins = Vec::new();
    let mut table = format!("{:<17}", "log in");
    for role in Role::ALL {
        let key = app.key(role).await;
        let answer = app.form("/ui/login", OWN, &format!("key={key}")).await;
        let set = answer.header("set-cookie").map(|_| cookie(&answer)).unwrap_or_default();
        table.push_str(&format!(" {} {} ", role.as_str(), answer.status));
        logins.push((role.as_str(), set));
    }
    table = format!("{}\n", table.trim_end());
    for line in golden.lines().skip(1) {
        let path = line.split(' ').next().expect("path");
        let mut cells = Vec::new();
        for (role, login) in &logins {
            let page = app.page(path, login).await;
            let is_html = page.header("content-type") == Some("text/html; charset=utf-8");
            assert!(page.status == 303 || is_html, "{path}: {page:?}");
            cells.push(format!("{role} {}", page.status));
        }
        table.push_str(&format!("{path:<17} {}\n", cells.join("  ")));
    }
    assert_eq!(table, golden);
}

#[tokio::test]
async fn errors_are_pages_for_browsers_and_problems_for_programs() {
    let app = TestApp::start().await;
    let page = app.page("/ui/%3Cscript%3E", "").await;
    assert_eq!(page.status, 404);
    assert!(page.body.contains("<h1>") && !page.body.contains("<script>"), "{}", page.body);
    let wrong = app.send("DELETE", "/ui/", "Accept: text/html\r\n", b"").await;
    assert_eq!(wrong.status, 405);
    assert!(wrong.body.starts_with("<!DOCTYPE html>"));
    assert_eq!(app.send("GET", "/ui/nothing", "", b"").await.problem(), "not_found");
    assert_eq!(app.send("GET", "/ui/audit", "", b"").await.problem(), "unauthenticated");
    assert_eq!(app.page("/nothing", "").await.problem(), "not_found");
    assert_eq!(app.page("/", "").await.header("location"), Some("/ui/"));
    let large = app.form("/ui/login", OWN, &format!("key={}", "x".repeat(32 << 10))).await;
    assert_eq!(large.status, 413);
}

#[tokio::test]
async fn stylesheet_and_script_are_sent_once() {
    let app = TestApp::start().await;
    for (path, kind) in
        [("/ui/par.css", "text/css; charset=utf-8"), ("/ui/par.js", "text/javascript; charset=utf-8")]
    {
        let first = app.send("GET", path, "", b"").await;
        assert_eq!((first.status, first.header("content-type")), (200, Some(kind)));
        assert_eq!(first.header("cache-control"), Some("no-cache"));
        let tag = first.header("etag").expect("tag").to_owned();
        let again = app.send("GET", path, &format!("If-None-Match: {tag}\r\n"), b"").await;
        assert_eq!((again.status, again.body.as_str()), (304, ""));
    }
    let script = include_str!("../ui/par.js");
    for word in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("] {
        assert!(!script.contains(word), "{word}");
    }
}

const HOSTILE: &str = "<script>alert(1)</script></td></title><img src=x onerror=alert(1)>\" onmouseover=\"alert(1)\" ' \
     &lt;b&gt; \u{202e}gnp.exe \u{1b}[2J\u{1b}]0;owned\u{7} \u{9b}31m \u{0} {{7*7}} javascript:alert(1)";

/// The payload with these members.
fn body<P: Payload>(members: Value) -> Body {
    serde_json::from_value::<P>(members).expect("a payload").into()
}

/// A run in which every text of the model and the tool is hostile.
async fn hostile_run(app: &TestApp) -> (RunId, u64, u64) {
    let (run, call) = (RunId::generate(), CallId::generate());
    let long = format!("{HOSTILE}{}", "W".repeat(1 << 20));
    let draft = |body| Draft {
        body,
        run: Some(run.clone()),
        session: Some(SessionId::generate()),
        call: Some(call.clone()),
        principal: Some(format!("key:{HOSTILE}")),
        tool: Some(HOSTILE.to_owned()),
        policies: vec![HOSTILE.to_owned()],
        ..Draft::new(StopPayload { command: String::new() })
    };
    let arguments = json!({ "path": long, HOSTILE: HOSTILE });
    let reply = json!({
        "run": run, "session": SessionId::generate(), "status": "done", "answer": long,
        "steps": [{ "call": call, "tool": HOSTILE, "args": arguments, "decision": "allow",
            "policies": [HOSTILE], "status": "ok", "result": { "error": long }, "truncated": false,
            "ledger": { "decision": 1 } }],
        "usage": { "model_calls": 1, "input_tokens": 0, "output_tokens": 0 }
    });
    let drafts = vec![
        draft(body::<RunRequestPayload>(json!({
            "message": HOSTILE, "calls_max": 1, "tools": [HOSTILE], "provider": HOSTILE, "model": HOSTILE
        }))),
        draft(body::<ModelReplyPayload>(json!({
            "text": long, "calls": [], "model": HOSTILE, "request_sha256": Digest::sha256(b""), "request_messages": 1,
            "stop": HOSTILE, "stop_text": HOSTILE, "input_tokens": 1, "output_tokens": 1
        }))),
        Draft {
            decision: Some("deny"),
            ..draft(body::<CallDecisionPayload>(json!({
                "arguments": arguments, "proposed_id": HOSTILE, "reason": HOSTILE,
                "nearest": { "policy": "deploy-demo", "origin": "p.cedar:1", "why": HOSTILE }
            })))
        },
        Draft {
            status: Some("ok"),
            answers: Some(Ref::Sibling(2)),
            ..draft(body::<CallResultPayload>(json!({
                "end": { "end": "exit", "code": 0 }, "result": { HOSTILE: long, "error": HOSTILE },
                "truncated": false, "layers": [], "wall_us": 1
            })))
        },
        draft(body::<ModelErrorPayload>(json!({ "provider": HOSTILE, "error": long }))),
        Draft { status: Some("done"), ..draft(body::<RunReplyPayload>(reply)) },
    ];
    let receipts = app.home.ledger.append(drafts).await.expect("appended");
    let (first, last) = (receipts[0].seq(), receipts[5].seq());
    app.home
        .edit_state(&format!("INSERT INTO run VALUES ('{run}', '<b>owner', {first}, {last}, 'done', '')"));
    (run, first, last)
}

#[tokio::test]
async fn hostile_text_is_only_ever_text() {
    let app = TestApp::start().await;
    let login = app.log_in(&app.key(Role::Viewer).await).await;
    let (run, first, last) = hostile_run(&app).await;
    let mut paths: Vec<String> = PAGES.map(str::to_owned).to_vec();
    paths.extend(["timeline", "reader", "json"].map(|view| format!("/ui/runs/{run}?view={view}")));
    paths.extend((first..=last).map(|seq| format!("/ui/audit/{seq}")));
    let q = "%3Cscript%3Ealert(1)%3C/script%3E%22%20onmouseover=%22alert(1)%1b%E2%80%AE";
    paths.push(format!("/ui/audit?q=kind:{q}"));
    paths.push(format!("/ui/runs?principal={q}"));
    paths.push(format!("/ui/login?next={q}"));
    for path in &paths {
        let page = app.page(path, &login).await;
        assert!(page.status == 200, "{path}: {} {}", page.status, page.body);
        assert!(page.body.len() < 100_000, "{path}: {} bytes", page.body.len());
        for raw in [
            "<script>",
            "<img",
            "\" onmouseover",
            "\u{1b}",
            "\u{202e}",
            "\u{9b}",
            "\0",
            "href=\"javascript",
            "<b>owner",
        ] {
            assert!(!page.body.contains(raw), "{path} holds {raw:?}");
        }
    }
    for path in [format!("/ui/runs/{run}?view=reader"), format!("/ui/audit/{first}"), "/ui/audit".to_owned()]
    {
        let page = app.page(&path, &login).await;
        assert!(page.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{path}");
    }
    let page = app.page(&format!("/ui/runs/{run}"), &login).await;
    assert!(page.body.contains("\\u{202e}gnp.exe \\u{1b}[2J"), "hidden characters are made visible");
    // A6: the nearest rule, where a person looks.
    let nearest = "the nearest rule is deploy-demo (p.cedar:1), which ";
    for path in [format!("/ui/runs/{run}"), format!("/ui/audit/{}", first + 2)] {
        assert!(app.page(&path, &login).await.body.contains(nearest), "{path}");
    }
    // The stream sends the same text as JSON, on one line each.
    let tail = format!("GET /ui/events?after={} HTTP/1.1\r\nHost: {}\r\n{login}\r\n", first - 1, app.address);
    let tail = Tail::open(app.address, tail, &format!("id: {last}\n")).await;
    app.home.authority.revoke(&app.home.owner, "viewer", None).await.expect("revoked");
    let answer = tail.end().await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    for seq in first..=last {
        assert!(
            answer.body.contains(&format!("id: {seq}\nevent: entry\ndata: {{\"seq\":{seq},")),
            "{}",
            answer.body
        );
    }
    assert!(!answer.body.contains('\u{1b}') && !answer.body.contains('\u{202e}'));
}

#[tokio::test]
async fn a_stream_continues_after_the_last_event() {
    let app = TestApp::start().await;
    let login = app.log_in(&app.key(Role::Viewer).await).await;
    for role in [Role::Operator, Role::Approver, Role::Admin] {
        app.key(role).await;
    }
    let more = format!("{login}Last-Event-ID: 2\r\n");
    let asking =
        format!("GET /ui/events?after=0&q=kind:key.create HTTP/1.1\r\nHost: {}\r\n{more}\r\n", app.address);
    let tail = Tail::open(app.address, asking, "id: 4\n").await;
    let began = Instant::now();
    app.stop().await;
    assert!(began.elapsed() < Duration::from_secs(10), "a tail holds up no stop");
    let answer = tail.end().await.body;
    assert!(answer.contains("id: 3\n") && answer.contains("id: 4\n"), "{answer}");
    assert!(!answer.contains("id: 2\n") && !answer.contains("id: 1\n"), "{answer}");
}

#[tokio::test]
async fn two_hundred_rows_fit_a_page() {
    let app = TestApp::start().await;
    let login = app.log_in(&app.key(Role::Viewer).await).await;
    let draft = || Draft {
        run: Some(RunId::generate()),
        session: Some(SessionId::generate()),
        call: Some(CallId::generate()),
        principal: Some("key:Ab3dEf9h".to_owned()),
        decision: Some("deny"),
        tool: Some("read_file".to_owned()),
        policies: vec!["par.outside".to_owned()],
        ..Draft::new(CallDecisionPayload {
            arguments: Some(json!({ "path": "/etc/shadow" })),
            ..Default::default()
        })
    };
    app.home.ledger.append((0..300).map(|_| draft()).collect()).await.expect("appended");
    let page = app.page("/ui/audit?limit=200&q=tool:read_*", &login).await;
    assert_eq!(page.body.matches("class=\"open\"").count(), 200);
    assert!(page.body.len() < 100_000, "{} bytes", page.body.len());
    let older = page
        .body
        .split("rel=\"next\" href=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("older");
    let page = app.page(&older.replace("&amp;", "&"), &login).await;
    assert_eq!(page.body.matches("class=\"open\"").count(), 100, "the rest of 300");
}
