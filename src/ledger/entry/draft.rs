//! An entry to be: what its writer knows, and its payload written down with the commitment to it.

use super::kind::Kind;
use crate::types::json::canonical;
use crate::types::{CallId, Digest, RunId, SessionId, limits, text};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The payload of one kind of entry. Each kind has one struct, in `payload`.
pub trait Payload: Serialize + DeserializeOwned {
    /// The kind.
    const KIND: Kind;
}

/// What a draft says: a kind with the members of its payload. Made of a [`Payload`] alone, so that no entry is of one kind
/// and says what another one says.
#[derive(Clone, Debug)]
pub struct Body {
    kind: Kind,
    members: Map<String, Value>,
}

impl Body {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// The same kind, whose members went through `change`: what the words of a person or a program are replaced by.
    #[must_use]
    pub fn changed(self, change: impl FnOnce(Map<String, Value>) -> Map<String, Value>) -> Self {
        Self { members: change(self.members), ..self }
    }
}

impl<P: Payload> From<P> for Body {
    fn from(payload: P) -> Self {
        let members = match serde_json::to_value(payload) {
            Ok(Value::Object(members)) => members,
            // No struct of `payload` comes to this. An entry that says so is better than none.
            other => Map::from_iter([("unwritten".to_owned(), json!(format!("{other:?}")))]),
        };
        Self { kind: P::KIND, members }
    }
}

/// The entry that another one answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ref {
    /// By its sequence number.
    Seq(u64),
    /// By its place in the same append, from 0.
    Sibling(usize),
}

/// An entry to be: what its writer knows. Sequence, chain and times are the ledger's to add.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What is recorded; `"v": 1` is added.
    pub body: Body,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// The entry that this one answers.
    pub answers: Option<Ref>,
    /// Who acted, such as `key:Ab3dEf9h` or `os:root`.
    pub principal: Option<String>,
    /// Digest of the policy bundle.
    pub policy: Option<Digest>,
    /// Digest of the tool's manifest.
    pub manifest: Option<Digest>,
    /// `allow`, `deny`, `needs_approval` or `invalid`.
    pub decision: Option<&'static str>,
    /// Determining policies.
    pub policies: Vec<String>,
    /// Status of a result or a reply.
    pub status: Option<&'static str>,
    /// The tool's name, as proposed.
    pub tool: Option<String>,
}

impl Draft {
    /// A draft of the payload's kind that says what `payload` says.
    #[must_use]
    pub fn new(payload: impl Payload) -> Self {
        Self::from_body(payload.into())
    }

    /// As [`Draft::new`], of members that no struct holds to their kind.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn untyped(kind: Kind, payload: Value) -> Self {
        let members = match payload {
            Value::Object(members) => members,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self::from_body(Body { kind, members })
    }

    fn from_body(body: Body) -> Self {
        Self {
            body,
            run: None,
            session: None,
            call: None,
            answers: None,
            principal: None,
            policy: None,
            manifest: None,
            decision: None,
            policies: Vec::new(),
            status: None,
            tool: None,
        }
    }
}

/// Why a draft cannot become an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DraftError(pub String);

/// A draft with its payload written down: all of an entry but its place in the log. Made by who appends, so that the
/// one writer has little left to do.
#[derive(Debug)]
pub struct Written {
    pub(super) draft: Draft,
    /// 32 random bytes.
    pub salt: [u8; 32],
    /// The payload's bytes.
    pub body: Vec<u8>,
    pub(super) commitment: Digest,
}

impl Written {
    /// Writes the payload of `draft` down, with a random salt.
    pub fn from_draft(draft: Draft) -> Result<Self, DraftError> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(|e| DraftError(format!("no randomness: {e}")))?;
        Self::salted(draft, salt)
    }

    /// The same with a salt of somebody's own.
    pub fn salted(mut draft: Draft, salt: [u8; 32]) -> Result<Self, DraftError> {
        let body = payload_bytes(std::mem::take(&mut draft.body.members))?;
        Ok(Self { commitment: commitment(&salt, &body), draft, salt, body })
    }
}

/// The payload's bytes: canonical JSON with `"v": 1`. One longer than [`limits::PAYLOAD_BYTES_MAX`]
/// is replaced by its head, its length and its SHA-256.
fn payload_bytes(mut members: Map<String, Value>) -> Result<Vec<u8>, DraftError> {
    members.insert("v".to_owned(), json!(1));
    let whole = canonical(&Value::Object(members)).map_err(|e| DraftError(format!("payload: {e}")))?;
    if whole.len() <= limits::PAYLOAD_BYTES_MAX {
        return Ok(whole.into_bytes());
    }
    let cut = json!({
        "v": 1,
        "cut": true,
        "bytes": whole.len(),
        "sha256": Digest::sha256(whole.as_bytes()).hex(),
        // Escaping may double the head; a quarter keeps the whole within the limit.
        "head": text::prefix(&whole, limits::PAYLOAD_BYTES_MAX / 4),
    });
    canonical(&cut).map(String::into_bytes).map_err(|e| DraftError(format!("payload: {e}")))
}

/// Commitment to a payload: SHA-256("par/payload/1\0" ‖ salt ‖ payload). The salt keeps a redacted
/// text from being guessed.
#[must_use]
pub fn commitment(salt: &[u8; 32], body: &[u8]) -> Digest {
    Digest::sha256_parts(&[b"par/payload/1\0", salt, body])
}
