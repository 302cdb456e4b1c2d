//! Keys on a real ledger.

use super::fixture::{Fixture, unknown_key, with_another_secret};
use super::{KeyError, KeyState, NewKey, Refusal, Role};
use crate::types::Ceiling;
use crate::types::limits::REFUSALS_PER_MINUTE_MAX;
use std::net::{IpAddr, Ipv4Addr};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[tokio::test]
async fn a_key_authenticates_its_principal_until_it_is_revoked() {
    let home = Fixture::open().await;
    let (minted, view) = home.key("ops", Role::Operator).await;
    assert_eq!(view.state, KeyState::Live);
    for _ in 0..2 {
        let principal = home.authority.authenticate(minted.expose(), HERE).await.expect("taken");
        assert_eq!((principal.id(), principal.role()), (format!("key:{}", minted.id()), Role::Operator));
    }
    let view = home.authority.revoke(&home.owner, "ops", None).await.expect("revoked");
    assert_eq!(view.state, KeyState::Revoked);
    assert!(view.revoked.is_some());
    let again = home.authority.authenticate(minted.expose(), HERE).await;
    assert_eq!(again, Err(Refusal::Revoked));
    assert!(matches!(home.authority.revoke(&home.owner, "ops", None).await, Err(KeyError::Unknown(_))));
    let (_, second) = home.key("ops", Role::Viewer).await;
    let revoked = home.authority.revoke(&home.owner, second.id.as_str(), None).await.expect("by id");
    assert_eq!(revoked.id, second.id);
    assert_eq!(home.authority.list().expect("list"), [view, revoked]);
}

#[tokio::test]
async fn every_wrong_key_is_refused_for_its_own_reason() {
    let home = Fixture::open().await;
    let (minted, _) = home.key("ops", Role::Operator).await;
    let typo = minted.expose().replacen('_', "-", 1);
    for (key, refusal) in [
        (String::new(), Refusal::Missing),
        ("hello".to_owned(), Refusal::Malformed),
        (typo, Refusal::Malformed),
        (unknown_key(), Refusal::Unknown),
        (with_another_secret(minted.expose()), Refusal::Wrong),
        (home.expired_key().await, Refusal::Expired),
    ] {
        assert_eq!(home.authority.authenticate(&key, HERE).await, Err(refusal), "{key}");
    }
    home.authority.flush().await;
    home.authority.flush().await;
    let told = home.entries("kind:auth.refused");
    assert_eq!(told.len(), 1, "one entry, and none if there is nothing to report");
    let payload: serde_json::Value =
        serde_json::from_slice(told[0].body.as_deref().expect("payload")).expect("JSON");
    assert_eq!(
        payload["reasons"],
        serde_json::json!({"expired": 1, "malformed": 2, "missing": 1, "unknown": 1, "wrong": 1})
    );
    assert_eq!(payload["sources"]["127.0.0.1"], 6);
}

#[tokio::test]
async fn a_row_that_its_entry_did_not_make_is_refused_and_reported() {
    for edit in [
        "UPDATE api_key SET role = 'admin' WHERE name = 'ops'",
        "UPDATE api_key SET user = 'root' WHERE name = 'ops'",
        "UPDATE api_key SET expires_us = 1 WHERE name = 'ops'",
        "UPDATE api_key SET created_seq = 2 WHERE name = 'ops'",
        "UPDATE api_key SET created_seq = 0 WHERE name = 'ops'",
        "UPDATE api_key SET created_seq = 99 WHERE name = 'ops'",
        "UPDATE api_key SET created_seq = -1 WHERE name = 'ops'",
        "UPDATE api_key SET revoked_seq = 1 WHERE name = 'ops'",
        "UPDATE api_key SET revoked_seq = NULL WHERE name = 'gone'",
        "UPDATE api_key SET revoked_seq = 0 WHERE name = 'gone'",
    ] {
        for is_remembered in [false, true] {
            let home = Fixture::open().await;
            let (ops, _) = home.key("ops", Role::Operator).await;
            let (gone, _) = home.key("gone", Role::Operator).await;
            let key = if edit.contains("gone") { &gone } else { &ops };
            if is_remembered {
                home.authority.authenticate(key.expose(), HERE).await.expect("taken");
            }
            home.authority.revoke(&home.owner, "gone", None).await.expect("revoked");
            home.edit_state(edit);
            let outcome = home.authority.authenticate(key.expose(), HERE).await;
            assert_eq!(outcome, Err(Refusal::Mismatch), "{edit}, remembered: {is_remembered}");
            let reported = home.authority.obstacle().expect("reported");
            assert!(reported.contains(key.id().as_str()), "{reported}");
        }
    }
}

#[tokio::test]
async fn wrong_keys_keep_no_right_key_out() {
    let home = Fixture::open().await;
    let (fresh, _) = home.key("fresh", Role::Viewer).await;
    for _ in 0..REFUSALS_PER_MINUTE_MAX * 2 {
        assert_eq!(home.authority.authenticate("hello", HERE).await, Err(Refusal::Malformed));
        assert_eq!(home.authority.authenticate(&unknown_key(), HERE).await, Err(Refusal::Unknown));
        let wrong = with_another_secret(fresh.expose());
        assert_eq!(home.authority.authenticate(&wrong, HERE).await, Err(Refusal::Wrong));
    }
    home.authority.authenticate(fresh.expose(), HERE).await.expect("taken");
}

#[tokio::test]
async fn a_key_that_argon2_refuses_is_tried_ten_times_a_minute_and_keeps_no_other_out() {
    let home = Fixture::open().await;
    let damaged = home.damaged_key().await;
    let (fresh, _) = home.key("fresh", Role::Viewer).await;
    for _ in 0..REFUSALS_PER_MINUTE_MAX {
        assert_eq!(home.authority.authenticate(&damaged, HERE).await, Err(Refusal::Wrong));
    }
    let outcome = home.authority.authenticate(&damaged, HERE).await;
    assert!(matches!(outcome, Err(Refusal::TooMany { retry_after_s: 1..=60 })), "{outcome:?}");
    home.authority.authenticate(fresh.expose(), HERE).await.expect("taken");
}

/// The lookup of an unknown id reads the entry of the next key, and every id has a next one.
#[tokio::test]
async fn an_unknown_id_takes_the_steps_of_a_known_one() {
    let home = Fixture::open().await;
    let (one, _) = home.key("one", Role::Viewer).await;
    let (two, _) = home.key("two", Role::Viewer).await;
    let nearest = |id: &str| {
        let id = crate::types::KeyId::parse(id).expect("id");
        let found = home.ledger.state(|state| super::record::nearest_row(state, &id)).expect("state.db");
        found.map(|(is_known, row)| (is_known, row.created_seq)).expect("a row")
    };
    let mut ids = [one.id().as_str(), two.id().as_str()];
    ids.sort_unstable();
    for id in ids {
        assert!(nearest(id).0, "{id}");
    }
    let (first, last) = (nearest(ids[0]).1, nearest(ids[1]).1);
    assert_eq!(nearest("00000000"), (false, first), "before all");
    assert_eq!(nearest("zzzzzzzz"), (false, first), "after all");
    let between = format!("{}z", ids[0].get(..7).expect("an id"));
    if between.as_str() > ids[0] && between.as_str() < ids[1] {
        assert_eq!(nearest(&between), (false, last));
    }
}

#[tokio::test]
async fn invalid_properties_of_a_key_are_refused() {
    let home = Fixture::open().await;
    home.key("ops", Role::Operator).await;
    let create = async |name: &str, user: Option<&str>, expires| {
        let user = user.map(ToOwned::to_owned);
        let new = NewKey { name: name.to_owned(), role: Role::Viewer, user, expires, tools: Ceiling::OPEN };
        home.authority.create(&home.owner, new, None).await.map(|_| ())
    };
    assert!(matches!(create("ops", None, None).await, Err(KeyError::Taken(_))));
    let long = "x".repeat(65);
    for name in ["", "a b", "ä", "os:root", "../x", &long] {
        assert!(matches!(create(name, None, None).await, Err(KeyError::Invalid("name", _))), "{name}");
    }
    assert!(matches!(create("x", Some("os:root"), None).await, Err(KeyError::Invalid("user", _))));
    let past = Some(crate::types::clock::Wall(1));
    assert!(matches!(create("x", None, past).await, Err(KeyError::Invalid("expires", _))));
    assert_eq!(home.authority.list().expect("list").len(), 1, "nothing was made");
}

/// Secrets and verifiers appear in no list, state.db, header or debug text.
#[tokio::test]
async fn secrets_are_only_on_the_ledger_as_verifiers() {
    let home = Fixture::open().await;
    let (minted, view) = home.key("ops", Role::Operator).await;
    home.authority.authenticate(minted.expose(), HERE).await.expect("taken");
    let secret = minted.expose().get(13..56).expect("secret");
    let shown = format!("{minted:?} {view:?} {:?}", home.authority);
    assert!(!shown.contains(secret) && !shown.contains("argon2id"), "{shown}");
    for name in ["ledger.db", "ledger.db-wal", "state.db", "state.db-wal"] {
        let bytes = std::fs::read(home.data.path().join(name)).unwrap_or_default();
        let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!holds(secret.as_bytes()), "{name} holds the secret");
        assert!(name.starts_with("ledger") || !holds(b"argon2id"), "{name} holds a verifier");
    }
}

#[tokio::test]
async fn two_keys_of_one_name_cannot_race() {
    let home = Fixture::open().await;
    let new = || NewKey {
        name: "one".to_owned(),
        role: Role::Viewer,
        user: None,
        expires: None,
        tools: Ceiling::OPEN,
    };
    let (a, b) = tokio::join!(
        home.authority.create(&home.owner, new(), None),
        home.authority.create(&home.owner, new(), None)
    );
    assert_ne!(a.is_ok(), b.is_ok());
    assert_eq!(home.ledger.obstacle(), None);
}
