//! Authentication and roles.

use super::{TestApp, bearer};
use crate::auth::Role;
use crate::auth::fixture::{unknown_key, with_another_secret};
use crate::types::limits::REFUSALS_PER_MINUTE_MAX;

#[tokio::test]
async fn every_bad_key_reads_the_same() {
    let app = TestApp::start().await;
    let good = app.key(Role::Admin).await;
    let revoked = app.key(Role::Viewer).await;
    app.home.authority.revoke(&app.home.owner, "viewer", None).await.expect("revoked");
    let edited = app.key(Role::Operator).await;
    for key in [&good, &edited] {
        assert_eq!(app.get("/tools", key).await.status, 200, "before the edit");
    }
    app.home.edit_state("UPDATE api_key SET role = 'admin' WHERE name = 'operator'");
    let mut typo = good.clone();
    let last = typo.pop().expect("key");
    typo.push(if last == 'x' { 'y' } else { 'x' });
    let cases = [
        ("missing", String::new()),
        ("empty", bearer("")),
        ("malformed", bearer("hello")),
        ("another scheme", "Authorization: Basic aGVsbG86eA==\r\n".to_owned()),
        ("not ASCII", bearer("pär_")),
        ("unknown", bearer(&unknown_key())),
        ("one character wrong", bearer(&typo)),
        ("wrong secret", bearer(&with_another_secret(&good))),
        ("expired", bearer(&app.home.expired_key().await)),
        ("revoked", bearer(&revoked)),
        ("edited by hand", bearer(&edited)),
    ];
    let mut bodies = Vec::new();
    for (name, headers) in cases {
        let answer = app.send("GET", "/tools", &headers, b"").await;
        assert_eq!((answer.status, answer.problem().as_str()), (401, "unauthenticated"), "{name}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"par\""), "{name}");
        let mut body = answer.json();
        body.as_object_mut().expect("object").remove("request_id");
        bodies.push(body);
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{bodies:?}");
    let health = app.get("/health", &good).await.json();
    assert_eq!(health["status"], "degraded");
    let reported = health["obstacles"][0].as_str().expect("obstacle");
    assert!(reported.starts_with("state.db: key `"), "{reported}");
}

#[tokio::test]
async fn a_key_comes_in_either_header_and_two_must_agree() {
    let app = TestApp::start().await;
    let key = app.key(Role::Viewer).await;
    for (headers, status) in [
        (format!("X-API-Key: {key}\r\n"), 200),
        (format!("authorization: bearer {key}\r\n"), 200),
        (format!("{}X-API-Key: {key}\r\n", bearer(&key)), 200),
        (format!("{}X-API-Key: {}\r\n", bearer(&key), unknown_key()), 400),
        (format!("{}{}", bearer(&key), bearer(&key)), 400),
    ] {
        assert_eq!(app.send("GET", "/tools", &headers, b"").await.status, status, "{headers}");
    }
}

#[tokio::test]
async fn wrong_keys_lock_out_no_right_key_and_are_recorded() {
    let app = TestApp::start().await;
    let fresh = app.key(Role::Operator).await;
    for _ in 0..REFUSALS_PER_MINUTE_MAX * 2 {
        assert_eq!(app.get("/tools", &unknown_key()).await.status, 401);
    }
    assert_eq!(app.get("/tools", &fresh).await.status, 200);
    let home = app.stop().await;
    let recorded = home.entries("kind:auth.refused");
    assert_eq!(recorded.len(), 1);
    let body = String::from_utf8(recorded[0].body.clone().expect("payload")).expect("text");
    assert!(body.contains(r#""reasons":{"unknown":20}"#), "{body}");
}

#[tokio::test]
async fn a_key_that_is_damaged_is_tried_ten_times_a_minute() {
    let app = TestApp::start().await;
    let damaged = app.home.damaged_key().await;
    for _ in 0..REFUSALS_PER_MINUTE_MAX {
        assert_eq!(app.get("/tools", &damaged).await.status, 401);
    }
    let answer = app.get("/tools", &damaged).await;
    assert_eq!((answer.status, answer.problem().as_str()), (429, "too_many"));
    let wait: u64 = answer.header("retry-after").expect("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
}

/// Which role may use which route: the whole surface, reviewable as a diff.
#[tokio::test]
async fn the_table_of_roles_and_routes() {
    let golden = "\
GET /tools           viewer 200  operator 200  approver 403  admin 200
GET /health          viewer 200  operator 200  approver 403  admin 200
GET /audit/entries   viewer 200  operator 403  approver 403  admin 200
GET /audit/entries/0 viewer 200  operator 403  approver 403  admin 200
GET /runs/run_01JD0000000000000000000000 viewer 404  operator 404  approver 403  admin 404
POST /agent/run      viewer 403  operator 422  approver 403  admin 422
";
    let app = TestApp::start().await;
    let mut keys = Vec::new();
    for role in Role::ALL {
        keys.push((role.as_str(), app.key(role).await));
    }
    let mut table = String::new();
    for line in golden.lines() {
        let (method, rest) = line.split_once(' ').expect("method");
        let path = rest.split(' ').next().expect("path");
        let mut cells = Vec::new();
        for (role, key) in &keys {
            let more = format!("{}Content-Type: application/json\r\n", bearer(key));
            let answer = app.send(method, path, &more, br#"{"message":""}"#).await;
            cells.push(format!("{role} {}", answer.status));
        }
        table.push_str(&format!("{:<20} {}\n", format!("{method} {path}"), cells.join("  ")));
    }
    assert_eq!(table, golden);
}
