//! Creates, lists and revokes keys. The caller has already asked the policy for permission.

use super::authority::{Authority, AuthorityState};
use super::key::MintedKey;
use super::principal::Principal;
use super::record::{Created, KeyRow, named_row, state_row, state_rows};
use super::subject::Role;
use super::verifier::Verifier;
use crate::ledger::payload::{KeyRevokePayload, PowerUsed};
use crate::ledger::{AppendError, Draft, Ref};
use crate::types::clock::Wall;
use crate::types::{Ceiling, KeyId};
use serde::Serialize;

/// Longest name of a key or a user, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The properties of a key to create.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Unique among the keys that are not revoked: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// What the key permits.
    pub role: Role,
    /// The user of the key: the same characters, and `@`.
    pub user: Option<String>,
    /// When it expires.
    pub expires: Option<Wall>,
    /// The only tools that runs with it may use: at most 64 names of loaded tools, which the caller
    /// has checked.
    pub tools: Ceiling,
}

/// A key as shown to people, without secret and verifier. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyView {
    /// Its public part.
    pub id: KeyId,
    /// Its name.
    pub name: String,
    /// What the key permits.
    pub role: Role,
    /// The user of the key.
    pub user: Option<String>,
    /// Whether the key is valid.
    pub state: KeyState,
    /// When it was created.
    pub created: String,
    /// When it expires.
    pub expires: Option<String>,
    /// The only tools that runs with it may use; absent if it has no ceiling.
    #[serde(skip_serializing_if = "Ceiling::is_open")]
    pub tools: Ceiling,
    /// When it was revoked.
    pub revoked: Option<String>,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// It can be used.
    Live,
    /// It has expired.
    Expired,
    /// It was revoked.
    Revoked,
    /// Its row in state.db does not match its ledger entry. Such a key is refused.
    Mismatch,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Live, Self::Expired, Self::Revoked, Self::Mismatch];

    /// The name in lists of keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Mismatch => "mismatch",
        }
    }

    /// Parses the name of a state.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Why a key was not created, revoked or listed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A value is not valid: its name and the reason.
    #[error("`{0}`: {1}")]
    Invalid(&'static str, &'static str),
    /// A live key already has this name.
    #[error("a live key is already named `{0}`: revoke it or use another name")]
    Taken(String),
    /// No live key has this name or id.
    #[error("unknown key `{0}`, expected the name or id of a live key; `par key list` shows them")]
    Unknown(String),
    /// The key's row does not match its ledger entry.
    #[error(
        "state.db: key `{0}` does not match its ledger entry: stop the server and delete \
         state.db, which is then rebuilt from the ledger"
    )]
    Mismatch(String),
    /// The change could not be recorded, and so was not made.
    #[error(transparent)]
    Ledger(AppendError),
    /// A new id is already the id of another key.
    #[error("the new key's id is already in use: try again")]
    DrawnTwice,
    /// The keys cannot be read, or the host cannot create one.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl Authority {
    /// Creates a key for `by`. Returns after its `key.create` entry is durable. `power` records the
    /// policy decision that permitted it; `None` for the owner of `data/` without a server, for
    /// whom no policy is asked.
    pub async fn create(
        &self,
        by: &Principal,
        new: NewKey,
        power: Option<PowerUsed>,
    ) -> Result<(MintedKey, KeyView), KeyError> {
        new.check()?;
        let _turn = self.0.change.lock().await;
        let (minted, mut created) = self.blocking_key(move |inner| inner.mint(new)).await?;
        let receipt =
            self.0.ledger.append_one(created.draft(&by.id(), power)).await.map_err(KeyError::Ledger)?;
        // From here on the key is valid, whether or not its text is ever shown.
        created.seq = receipt.seq();
        let view = self.blocking_key(move |inner| inner.view_at(created.seq)).await?;
        Ok((minted, view))
    }

    /// Revokes the key with this name or id for `by`. Returns after its `key.revoke` entry is
    /// durable; from then on no request with it is admitted. `power` as in [`Authority::create`].
    pub async fn revoke(
        &self,
        by: &Principal,
        name_or_id: &str,
        power: Option<PowerUsed>,
    ) -> Result<KeyView, KeyError> {
        let wanted = name_or_id.to_owned();
        let _turn = self.0.change.lock().await;
        let created = self.blocking_key(move |inner| inner.find_live(&wanted)).await?;
        let payload = KeyRevokePayload { id: created.id.as_str().to_owned(), name: created.name, power };
        let draft =
            Draft { principal: Some(by.id()), answers: Some(Ref::Seq(created.seq)), ..Draft::new(payload) };
        let _receipt = self.0.ledger.append_one(draft).await.map_err(KeyError::Ledger)?;
        self.0.revoked.note(created.seq);
        self.0.remembered.forget(created.seq);
        self.blocking_key(move |inner| inner.view_at(created.seq)).await
    }

    /// Every key, in order of creation. Blocking.
    pub fn list(&self) -> Result<Vec<KeyView>, KeyError> {
        let rows = self.0.ledger.state(state_rows).map_err(failed)?;
        rows.iter().map(|row| self.0.view(row)).collect()
    }

    async fn blocking_key<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&AuthorityState) -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let inner = self.0.clone();
        tokio::task::spawn_blocking(move || ask(&inner)).await.map_err(failed)?
    }
}

impl NewKey {
    fn check(&self) -> Result<(), KeyError> {
        const NAME: &str = "must be 1 to 64 characters of `A-Z a-z 0-9 . _ -`";
        if !is_name(&self.name, "") {
            return Err(KeyError::Invalid("name", NAME));
        }
        if self.user.as_ref().is_some_and(|user| !is_name(user, "@")) {
            return Err(KeyError::Invalid("user", "must be 1 to 64 characters of `A-Z a-z 0-9 . _ - @`"));
        }
        if self.expires.is_some_and(|at| at <= Wall::now()) {
            return Err(KeyError::Invalid("expires", "must be in the future"));
        }
        Ok(())
    }
}

/// Excludes `:`, so that no user of a key looks like a user of the host (`os:…`).
fn is_name(text: &str, also: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || also.contains(c);
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(fits)
}

impl AuthorityState {
    fn mint(&self, new: NewKey) -> Result<(MintedKey, Created), KeyError> {
        if self.ledger.state(|state| named_row(state, &new.name)).map_err(failed)?.is_some() {
            return Err(KeyError::Taken(new.name));
        }
        let minted = MintedKey::mint().map_err(failed)?;
        if self.ledger.state(|state| state_row(state, minted.id())).map_err(failed)?.is_some() {
            return Err(KeyError::DrawnTwice);
        }
        let created = Created {
            id: minted.id().clone(),
            name: new.name,
            role: new.role,
            user: new.user,
            expires_us: new.expires.map(|at| at.0),
            tools: new.tools,
            verifier: Verifier::make(&self.pepper, minted.secret()).map_err(failed)?,
            seq: 0,
            wall_us: 0,
        };
        Ok((minted, created))
    }

    /// A live key, by name or else by id. A name may look like the id of another key.
    fn find_live(&self, name_or_id: &str) -> Result<Created, KeyError> {
        let unknown = || KeyError::Unknown(crate::types::text::visible_line(name_or_id));
        let row =
            self.ledger.state(|state| match (named_row(state, name_or_id)?, KeyId::parse(name_or_id)) {
                (None, Some(id)) => state_row(state, &id),
                (row, _) => Ok(row),
            });
        let row = row.map_err(failed)?.filter(|row| row.revoked_seq.is_none()).ok_or_else(unknown)?;
        let created = self.created_at(row.created_seq)?;
        if row.cells != created.cells() {
            return Err(KeyError::Mismatch(created.id.to_string()));
        }
        Ok(created)
    }

    fn view_at(&self, created_seq: u64) -> Result<KeyView, KeyError> {
        let created = self.created_at(created_seq)?;
        let row = self.ledger.state(|state| state_row(state, &created.id)).map_err(failed)?;
        self.view(&row.ok_or_else(|| KeyError::Mismatch(created.id.to_string()))?)
    }

    fn view(&self, row: &KeyRow) -> Result<KeyView, KeyError> {
        let created = self.created_at(row.created_seq)?;
        let is_revoked = self.revoked.contains(self.ledger.reader(), created.seq).map_err(failed)?;
        let state = match (row.revoked_seq, created.expires_us) {
            _ if row.cells != created.cells() || row.revoked_seq.is_some() != is_revoked => {
                KeyState::Mismatch
            }
            (Some(_), _) => KeyState::Revoked,
            (None, Some(end)) if Wall::now().0 >= end => KeyState::Expired,
            (None, _) => KeyState::Live,
        };
        Ok(KeyView {
            revoked: row.revoked_seq.map(|seq| self.time_of(seq)).transpose()?,
            id: created.id,
            name: created.name,
            role: created.role,
            user: created.user,
            state,
            created: Wall(created.wall_us).rfc3339(),
            expires: created.expires_us.map(|at| Wall(at).rfc3339()),
            tools: created.tools,
        })
    }

    fn created_at(&self, seq: u64) -> Result<Created, KeyError> {
        let stored = self.ledger.reader().entry(seq).map_err(failed)?;
        stored
            .as_ref()
            .and_then(Created::from_stored)
            .ok_or_else(|| KeyError::Mismatch(format!("made by entry {seq}")))
    }

    fn time_of(&self, seq: u64) -> Result<String, KeyError> {
        let stored = self.ledger.reader().entry(seq).map_err(failed)?;
        let wall_us = stored.and_then(|stored| stored.header.u64("wall_us"));
        Ok(wall_us.map_or_else(|| "unknown".to_owned(), |at| Wall(at).rfc3339()))
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> KeyError {
    KeyError::Failed(error.into())
}
