//! Reads the ledger and the state of health.

use super::TestApp;
use crate::auth::Role;
use crate::types::Digest;
use serde_json::json;

#[tokio::test]
async fn the_ledger_is_read_in_pages() {
    let app = TestApp::start().await;
    let key = app.key(Role::Viewer).await;
    app.key(Role::Operator).await;
    let seqs = |page: &serde_json::Value| -> Vec<u64> {
        page["items"].as_array().expect("items").iter().filter_map(|item| item["seq"].as_u64()).collect()
    };
    for (order, expect) in [("asc", [0, 1, 2]), ("desc", [2, 1, 0])] {
        let (mut after, mut all) = (String::new(), Vec::new());
        loop {
            let page = app.get(&format!("/audit/entries?limit=1&order={order}{after}"), &key).await.json();
            all.extend(seqs(&page));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(all, expect, "{order}");
    }
    let found = app.get("/audit/entries?q=kind:key.*%20principal:os:*", &key).await.json();
    assert_eq!(seqs(&found), [1, 2]);
    for bad in ["limit=0", "limit=1001", "limit=x", "after=-1", "order=up", "q=-", "q=body:x", "x=1", "q=&q="]
    {
        let answer = app.get(&format!("/audit/entries?{bad}"), &key).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, "unfit"), "{bad}");
    }
}

#[tokio::test]
async fn an_entry_is_returned_with_its_bytes_and_hash() {
    let app = TestApp::start().await;
    let key = app.key(Role::Viewer).await;
    let genesis = app.get("/audit/entries/0", &key).await.json();
    assert_eq!(genesis["payload_state"], "shown");
    assert_eq!(genesis["payload"]["program"], crate::types::VERSION);
    let bytes = genesis["header_bytes"].as_str().expect("bytes");
    assert_eq!(genesis["leaf"], Digest::sha256_parts(&[&[0], bytes.as_bytes()]).hex());
    let made = app.get("/audit/entries/1", &key).await;
    assert!(!made.body.contains("argon2") && !made.body.contains("hmac"), "{}", made.body);
    let made = made.json();
    assert_eq!(made["header"]["kind"], "key.create");
    assert_eq!(made["header"]["prev"], genesis["leaf"]);
    assert_eq!((&made["payload_state"], &made["payload"]), (&json!("withheld"), &json!(null)));
    for missing in ["99", "-1", "x", "18446744073709551616", "1%2f2"] {
        let answer = app.get(&format!("/audit/entries/{missing}"), &key).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"), "{missing}");
    }
}

#[tokio::test]
async fn health_is_one_word_without_a_key_and_json_with_one() {
    let app = TestApp::start().await;
    let key = app.key(Role::Operator).await;
    assert_eq!(app.send("GET", "/livez", "", b"").await.body, "live\n");
    let health = app.get("/health", &key).await.json();
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(health["ledger"]["size"], 2);
    let ready = app.send("GET", "/readyz", "", b"").await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\nledger: verifying\n"));
    app.app.ready.set(Some("policy"));
    let ready = app.send("GET", "/readyz", "", b"").await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "policy\n"));
    assert_eq!(app.get("/health", &key).await.json()["why"], "policy");
}

#[tokio::test]
async fn a_missing_run_is_named_in_the_problem() {
    let app = TestApp::start().await;
    let key = app.key(Role::Operator).await;
    let answer = app.get("/runs/run_01JD0000000000000000000000", &key).await;
    assert_eq!((answer.status, answer.problem().as_str()), (404, "not_found"));
    assert_eq!(answer.json()["run"], "run_01JD0000000000000000000000");
    assert_eq!(app.get("/runs/..%2f..%2fetc", &key).await.status, 404);
}
