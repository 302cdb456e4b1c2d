//! A ledger and an authority in a temporary folder, for tests.

use super::authority::Authority;
use super::key::MintedKey;
use super::keys::{KeyView, NewKey};
use super::os_users::OsUsers;
use super::principal::Principal;
use super::record::{Created, PROJECTION};
use super::subject::Role;
use super::verifier::{Verifier, make_pepper};
use crate::ledger::{Files, Filter, Ledger, Lock, Order, Projection, Stored, key};
use crate::store;
use crate::types::Ceiling;
use std::time::Duration;

static PROJECTIONS: [Projection; 1] = [PROJECTION];

/// A home that contains only `data/`.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) data: tempfile::TempDir,
    pub(crate) ledger: Ledger,
    pub(crate) authority: Authority,
    pub(crate) owner: Principal,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        Self::open_with(&PROJECTIONS).await
    }

    /// Like [`Fixture::open`], with the tables of the rooms above.
    pub(crate) async fn open_with(projections: &'static [Projection]) -> Self {
        let data = tempfile::tempdir().expect("folder");
        let files = Files::below(data.path());
        key::make(&files.log_key()).expect("log key");
        make_pepper(&data.path().join("pepper")).expect("pepper");
        let lock = Lock::take(&files, Duration::ZERO).expect("lock");
        let opened = tokio::task::spawn_blocking(move || Ledger::open(files, lock, projections)).await;
        let ledger = opened.expect("thread").expect("ledger");
        let authority =
            Authority::open(ledger.clone(), &data.path().join("pepper"), OsUsers::owner_only(Role::Operator));
        let authority = authority.expect("authority");
        let owner = super::local(data.path(), Role::Admin).expect("owner");
        Self { data, ledger, authority, owner }
    }

    pub(crate) async fn key(&self, name: &str, role: Role) -> (MintedKey, KeyView) {
        let new = NewKey { name: name.to_owned(), role, user: None, expires: None, tools: Ceiling::OPEN };
        self.authority.create(&self.owner, new, None).await.expect("key")
    }

    /// A key that expired long ago.
    pub(crate) async fn expired_key(&self) -> String {
        let minted = MintedKey::mint().expect("key");
        let created = Created {
            id: minted.id().clone(),
            name: "expired".to_owned(),
            role: Role::Admin,
            user: None,
            expires_us: Some(1),
            tools: Ceiling::OPEN,
            verifier: Verifier::make(&self.authority.0.pepper, minted.secret()).expect("verifier"),
            seq: 0,
            wall_us: 0,
        };
        let _receipt = self.ledger.append_one(created.draft(&self.owner.id(), None)).await.expect("appended");
        minted.expose().to_owned()
    }

    /// A key whose HMAC matches and whose argon2id hash is that of another secret.
    pub(crate) async fn damaged_key(&self) -> String {
        let minted = MintedKey::mint().expect("key");
        let pepper = &self.authority.0.pepper;
        let argon2 = Verifier::make(pepper, "another").expect("verifier").argon2;
        let created = Created {
            id: minted.id().clone(),
            name: "damaged".to_owned(),
            role: Role::Viewer,
            user: None,
            expires_us: None,
            tools: Ceiling::OPEN,
            verifier: Verifier { hmac: pepper.mac(minted.secret()), argon2 },
            seq: 0,
            wall_us: 0,
        };
        let _receipt = self.ledger.append_one(created.draft(&self.owner.id(), None)).await.expect("appended");
        minted.expose().to_owned()
    }

    /// Changes state.db without the ledger.
    pub(crate) fn edit_state(&self, sql: &str) {
        let state =
            store::open_writer(&self.ledger.files().state(), store::Database::State).expect("state.db");
        assert_eq!(state.execute(sql, []).expect("edit"), 1, "{sql}");
    }

    pub(crate) fn entries(&self, query: &str) -> Vec<Stored> {
        let filter = Filter::parse(query).expect("query");
        let reader = self.ledger.reader();
        let (headers, _) = reader.headers(&filter, 0, Order::Ascending, 1_000, 10_000).expect("headers");
        let entry = |seq| reader.entry(seq).expect("entry").expect("there");
        headers.iter().map(|header| entry(header.seq)).collect()
    }
}

/// A well-formed key that was never created.
pub(crate) fn unknown_key() -> String {
    MintedKey::mint().expect("key").expose().to_owned()
}

/// The id of `key` with the secret of another key, and a correct checksum.
pub(crate) fn with_another_secret(key: &str) -> String {
    MintedKey::mint().expect("key").with_id(key.get(4..12).expect("id"))
}
