//! The check of a presented key.
//!
//! The order is: form and checksum; lookup of the id; the HMAC, in constant time; the state of the
//! key (row, revocation, expiry); only then argon2id. A key that passed is remembered; from then on
//! each use checks only its state.
//!
//! The steps before argon2id are not rate-limited: a wrong key costs one HMAC and one lookup, and a
//! limit on wrong keys would lock out every right key from the same address. The limit applies
//! before argon2id, for each key separately.

use super::key::KeyText;
use super::os_users::OsUsers;
use super::principal::Principal;
use super::record::{Created, nearest_row, state_row};
use super::refused::{Refusal, Refusals};
use super::remembered::Remembered;
use super::revoked::Revoked;
use super::subject::Role;
use super::verifier::MacKey;
use crate::ledger::{Draft, Ledger};
use crate::types::{KeyId, clock};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Minimum interval between two entries that report refusals.
const REFUSALS_RECORDED_EVERY: Duration = Duration::from_secs(60);
/// Concurrent argon2id checks: each takes 19 MiB.
const ARGON2_AT_ONCE_MAX: usize = 2;

/// Checks keys. Cheap to clone; one per process.
#[derive(Clone, Debug)]
pub struct Authority(pub(super) Arc<AuthorityState>);

#[derive(Debug)]
pub(super) struct AuthorityState {
    pub(super) ledger: Ledger,
    pub(super) os_users: OsUsers,
    pub(super) pepper: MacKey,
    pub(super) remembered: Remembered,
    pub(super) revoked: Revoked,
    /// Held while a key is created or revoked, so that no other change comes between the name check
    /// and the append.
    pub(super) change: tokio::sync::Mutex<()>,
    refusals: Refusals,
    argon2: Semaphore,
    mismatch: Mutex<Option<String>>,
}

/// Why keys cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The pepper file is missing, readable by others, or malformed.
    #[error("{}: {cause}", .0.display(), cause = .1)]
    Pepper(PathBuf, #[source] std::io::Error),
    /// The kernel provides no random bytes.
    #[error("the kernel gave no random bytes: {0}")]
    Random(#[source] getrandom::Error),
}

impl Authority {
    /// Reads the pepper file `pepper`, which [`super::make_pepper`] creates. `os_users` are the
    /// users of this host who may ask without a key.
    pub fn open(ledger: Ledger, pepper: &Path, os_users: OsUsers) -> Result<Self, AuthorityError> {
        Ok(Self(Arc::new(AuthorityState {
            ledger,
            os_users,
            pepper: MacKey::read(pepper).map_err(|e| AuthorityError::Pepper(pepper.to_owned(), e))?,
            remembered: Remembered::empty().map_err(AuthorityError::Random)?,
            revoked: Revoked::default(),
            change: tokio::sync::Mutex::default(),
            refusals: Refusals::default(),
            argon2: Semaphore::new(ARGON2_AT_ONCE_MAX),
            mismatch: Mutex::default(),
        })))
    }

    /// Finds the principal of the key `presented`; an empty text means that no key was sent. Every
    /// refusal is counted.
    ///
    /// A key whose HMAC matches and whose argon2id does not may be tried ten times a minute, and is
    /// then refused without an argon2id check. No other key is delayed by it.
    pub async fn authenticate(&self, presented: &str, source: IpAddr) -> Result<Principal, Refusal> {
        let outcome = self.check(presented).await;
        if let Err(refusal) = &outcome {
            self.0.refusals.count(*refusal, source);
        }
        outcome
    }

    /// Finds the principal that an entry names (`key:Ab3dEf9h`, `os:root`), in its current state:
    /// its key must not be revoked or expired, and a user of this host must be one who may ask. For
    /// work that an earlier request left to be done in that name.
    pub async fn recall(&self, named: &str) -> Result<Principal, Refusal> {
        let named = named.to_owned();
        self.blocking(move |inner| inner.recall(&named, None)).await
    }

    /// Like [`Self::recall`], but a user of this host has the role `role`.
    pub(super) async fn recall_as(&self, named: &str, role: Role) -> Result<Principal, Refusal> {
        let named = named.to_owned();
        self.blocking(move |inner| inner.recall(&named, Some(role))).await
    }

    async fn check(&self, presented: &str) -> Result<Principal, Refusal> {
        if presented.is_empty() {
            return Err(Refusal::Missing);
        }
        let text = KeyText::parse(presented);
        if text.is_some()
            && let Some(known) = self.0.remembered.find(presented)
        {
            return self.blocking(move |inner| inner.standing(&known)).await;
        }
        let KeyText { id, secret } = text.ok_or(Refusal::Malformed)?;
        let (wanted, right) = (id.clone(), secret.clone());
        let created = self.blocking(move |inner| inner.find(&wanted, &right)).await?;
        let Ok(_turn) = self.0.argon2.acquire().await else { return Err(Refusal::Unreadable) };
        // The HMAC matches, so this is an existing key. It has its own count: attempts with other
        // keys cannot lock it out.
        self.0.refusals.admit(&id, clock::mono_us())?;
        if let Some(known) = self.0.remembered.find(presented) {
            // Another request with the same key passed while this one waited for its turn.
            return self.blocking(move |inner| inner.standing(&known)).await;
        }
        let (created, is_right) = self
            .blocking(move |inner| {
                let is_right = created.verifier.has_argon2(&secret);
                // Checked again: argon2id takes time, and the key may have been revoked meanwhile.
                let standing = inner.standing(&created);
                standing.map(|principal| (created, is_right.then_some(principal)))
            })
            .await?;
        let Some(principal) = is_right else {
            self.0.refusals.failed(id, clock::mono_us());
            return Err(Refusal::Wrong);
        };
        self.0.remembered.remember(presented, created);
        Ok(principal)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&AuthorityState) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let inner = self.0.clone();
        tokio::task::spawn_blocking(move || ask(&inner)).await.unwrap_or(Err(Refusal::Unreadable))
    }

    /// The last mismatch found between a row of state.db and the entry that makes it, if any.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.0.mismatch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of refused requests since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refusals.total()
    }

    /// Reads the revocations, so that the first request does not wait for it. Blocking.
    pub fn warm(&self) {
        if let Err(e) = self.0.revoked.contains(self.0.ledger.reader(), 0) {
            tracing::error!(error = %e, "cannot read the revocations of keys");
        }
    }

    /// Records refusals on the ledger at most once a minute, and a last time when `stop` resolves.
    pub async fn record_refusals(&self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            let is_over = tokio::select! {
                () = &mut stop => true,
                () = tokio::time::sleep(REFUSALS_RECORDED_EVERY) => false,
            };
            self.flush().await;
            if is_over {
                return;
            }
        }
    }

    /// Writes the refusals not recorded yet as one entry, if there are any.
    pub async fn flush(&self) {
        let Some(payload) = self.0.refusals.payload() else { return };
        let told = serde_json::json!(payload.reasons);
        match self.0.ledger.append_one(Draft::new(payload)).await {
            Ok(receipt) => tracing::info!(seq = receipt.seq(), reasons = %told, "requests with refused keys"),
            Err(e) => tracing::error!(error = %e, reasons = %told, "cannot record the refused keys"),
        }
    }
}

impl AuthorityState {
    /// The key `id` as the ledger has it, if `secret` matches its HMAC.
    ///
    /// An unknown id takes the same steps as a known one, with the entry of another key, so that
    /// neither the answer nor its timing reveals which ids exist.
    fn find(&self, id: &KeyId, secret: &str) -> Result<Arc<Created>, Refusal> {
        let mac = self.pepper.mac(secret);
        let row = self.ledger.state(|state| nearest_row(state, id)).map_err(Refusal::unreadable)?;
        // With no key at all there is nothing to reveal.
        let (is_known, row) = row.ok_or(Refusal::Unknown)?;
        let stored = self.ledger.reader().entry(row.created_seq).map_err(Refusal::unreadable)?;
        let created = stored.as_ref().and_then(Created::from_stored);
        let has_hmac = created.as_ref().is_some_and(|created| created.verifier.has_hmac(&mac));
        if !is_known {
            return Err(Refusal::Unknown);
        }
        let created = created.filter(|created| created.id == *id).ok_or_else(|| self.mismatch(id))?;
        if !has_hmac {
            return Err(Refusal::Wrong);
        }
        self.standing(&created)?;
        Ok(Arc::new(created))
    }

    fn recall(&self, named: &str, role: Option<Role>) -> Result<Principal, Refusal> {
        if let Some(name) = named.strip_prefix("os:") {
            let data = std::fs::metadata(&self.ledger.files().data).map_err(Refusal::unreadable)?;
            let known = Principal::from_entry(name, &self.os_users, data.uid(), role);
            return known.ok_or(Refusal::Unknown);
        }
        let id = named.strip_prefix("key:").ok_or(Refusal::Unknown)?;
        let id = KeyId::parse(id).ok_or(Refusal::Unknown)?;
        let row = self.ledger.state(|state| state_row(state, &id)).map_err(Refusal::unreadable)?;
        let row = row.ok_or(Refusal::Unknown)?;
        let stored = self.ledger.reader().entry(row.created_seq).map_err(Refusal::unreadable)?;
        let created = stored.as_ref().and_then(Created::from_stored).filter(|created| created.id == id);
        self.standing(&created.ok_or_else(|| self.mismatch(&id))?)
    }

    /// The principal of a key that is valid now. A key that is not is forgotten.
    fn standing(&self, created: &Created) -> Result<Principal, Refusal> {
        let principal = Principal::from_key(created, &self.ledger, &self.revoked);
        if principal.is_err() {
            self.remembered.forget(created.seq);
        }
        principal.map_err(|refusal| match refusal {
            Refusal::Mismatch => self.mismatch(&created.id),
            other => other,
        })
    }

    fn mismatch(&self, id: &KeyId) -> Refusal {
        let what = format!("state.db: key `{id}` does not match its ledger entry");
        tracing::error!(key = %id, "{what}");
        *self.mismatch.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        Refusal::Mismatch
    }
}
