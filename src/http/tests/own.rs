//! What a login of an operator shows: the runs of its user.

use super::TestApp;
use super::ui::{OWN, cookie};
use crate::auth::Role;
use serde_json::{Value, json};

/// Finding B2: an operator could see nothing on the dashboard, not even what they had asked.
#[tokio::test]
async fn an_operator_sees_their_own_runs_and_nothing_of_others() {
    let app = TestApp::start_whole().await;
    let new = |name: &str, user: &str| crate::auth::NewKey {
        name: name.to_owned(),
        role: Role::Operator,
        user: Some(user.to_owned()),
        expires: None,
        tools: crate::types::Ceiling::OPEN,
    };
    let mut keys = Vec::new();
    for (name, user) in [("ana-1", "ana"), ("ana-2", "ana"), ("ben-1", "ben")] {
        let made = app.home.authority.create(&app.home.owner, new(name, user), None).await.expect("key");
        keys.push(made.0.expose().to_owned());
    }
    let mut runs = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let body = json!({ "message": format!("hello number {at}") }).to_string();
        let reply: Value = serde_json::from_str(&app.run(key, body.as_bytes()).await.body).expect("JSON");
        runs.push(reply["run"].as_str().expect("a run").to_owned());
    }
    let answer = app.form("/ui/login", OWN, &format!("key={}", keys[0])).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let login = cookie(&answer);
    let first = app.page("/ui/", &login).await;
    assert_eq!((first.status, first.header("location")), (303, Some("/ui/runs")));
    // A login is of a user: what the other key of the same user asked is one's own.
    let list = app.page("/ui/runs", &login).await;
    for (at, is_own) in [(0, true), (1, true), (2, false)] {
        assert_eq!(list.body.contains(&format!("hello number {at}")), is_own, "{at}: {}", list.body);
        let page = app.page(&format!("/ui/runs/{}", runs[at]), &login).await;
        assert_eq!(page.status, if is_own { 200 } else { 404 }, "{at}");
        let audit = app.page(&format!("/ui/audit?q=run:{}", runs[at]), &login).await;
        assert_eq!(audit.body.contains("run.request"), is_own, "{at}: {}", audit.body);
    }
    let entries = app.home.entries("kind:run.request");
    let foreign = entries.iter().find(|entry| entry.header.str("run") == Some(&runs[2])).expect("ben's run");
    let own = entries.iter().find(|entry| entry.header.str("run") == Some(&runs[0])).expect("ana's run");
    for (entry, status) in [(own, 200), (foreign, 404)] {
        assert_eq!(app.page(&format!("/ui/audit/{}", entry.header.seq), &login).await.status, status);
    }
    assert_eq!(app.page("/ui/audit/0", &login).await.status, 404, "no entry of a run");
    let bens = foreign.header.str("principal").expect("principal");
    for q in ["", "kind:run.request", &format!("principal:{bens}"), "-kind:start", "hello"] {
        let page = app.page(&crate::http::link::link("/ui/audit", &[("q", q)]), &login).await;
        assert_eq!(page.status, 200, "{q}");
        assert!(!page.body.contains(runs[2].get(20..).expect("an id")), "{q}: {}", page.body);
        assert!(!page.body.contains("Follow live") && !page.body.contains("/ui/export"), "{q}");
    }
    for path in ["/ui/events", "/ui/export", "/ui/approvals"] {
        assert_eq!(app.page(path, &login).await.status, 403, "{path}");
    }
    assert_eq!(app.page("/ui/tools", &login).await.status, 200);
}
