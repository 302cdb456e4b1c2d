//! A draft of an entry: what the caller knows, and its payload as bytes with the commitment to
//! them.

use super::kind::Kind;
use crate::types::json::canonical;
use crate::types::{CallId, DataLabels, Digest, RunId, SessionId, limits, text};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The payload of one kind of entry. Each kind has one struct, in `payload`.
pub trait Payload: Serialize + DeserializeOwned {
    /// The kind that the struct belongs to.
    const KIND: Kind;
}

/// The content of a draft: a kind and the members of its payload. It is made only from a
/// [`Payload`], so that no entry of one kind carries the content of another.
#[derive(Clone, Debug)]
pub struct Body {
    kind: Kind,
    members: Map<String, Value>,
}

impl Body {
    /// The kind of the entry.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The members of the payload, without `v`.
    #[must_use]
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// The same kind with its members passed through `change`, which replaces secrets in texts of
    /// people and programs.
    #[must_use]
    pub fn changed(self, change: impl FnOnce(Map<String, Value>) -> Map<String, Value>) -> Self {
        Self { members: change(self.members), ..self }
    }
}

impl<P: Payload> From<P> for Body {
    fn from(payload: P) -> Self {
        let members = match serde_json::to_value(payload) {
            Ok(Value::Object(members)) => members,
            // No struct of `payload` reaches this arm. An entry that reports it is better than no
            // entry.
            other => Map::from_iter([("unwritten".to_owned(), json!(format!("{other:?}")))]),
        };
        Self { kind: P::KIND, members }
    }
}

/// The entry that another entry answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ref {
    /// By its sequence number.
    Seq(u64),
    /// By its index in the same append, from 0.
    Sibling(usize),
}

/// An entry before it has a position: what the caller knows. The ledger adds the sequence number,
/// the chain and the times.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What is recorded; the ledger adds `"v": 1`.
    pub body: Body,
    /// The run that the entry belongs to.
    pub run: Option<RunId>,
    /// The session that the entry belongs to.
    pub session: Option<SessionId>,
    /// The call that the entry belongs to.
    pub call: Option<CallId>,
    /// The entry that this one answers.
    pub answers: Option<Ref>,
    /// The principal that acted, such as `key:Ab3dEf9h` or `os:root`.
    pub principal: Option<String>,
    /// Digest of the policy bundle.
    pub policy: Option<Digest>,
    /// Digest of the tool's manifest.
    pub manifest: Option<Digest>,
    /// `allow`, `deny`, `needs_approval` or `invalid`.
    pub decision: Option<&'static str>,
    /// The determining policies.
    pub policies: Vec<String>,
    /// The status of a result or a reply.
    pub status: Option<&'static str>,
    /// The tool's name, as the model proposed it.
    pub tool: Option<String>,
    /// The name of the runbook that a run was given.
    pub runbook: Option<String>,
    /// The labels of what the entry stores. An entry without labels counts as untrusted.
    pub labels: Option<DataLabels>,
}

impl Draft {
    /// A draft of the payload's kind with `payload` as its content.
    #[must_use]
    pub fn new(payload: impl Payload) -> Self {
        Self::from_body(payload.into())
    }

    /// As [`Draft::new`], from members that no struct checks.
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
            runbook: None,
            labels: None,
        }
    }
}

/// Why a draft cannot become an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DraftError(pub String);

/// A draft with its payload as bytes: all of an entry but its position in the log. The appending
/// thread makes it, so that the one writer has little left to do.
#[derive(Debug)]
pub struct Written {
    pub(super) draft: Draft,
    /// 32 random bytes.
    pub salt: [u8; 32],
    /// The payload's bytes.
    pub body: Vec<u8>,
    /// The name of the model that a `model.ask` is about, for the counters.
    pub model: Option<String>,
    pub(super) commitment: Digest,
}

impl Written {
    /// The kind of the entry.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.draft.body.kind
    }

    /// Writes the payload of `draft` as bytes, with a random salt.
    pub fn from_draft(draft: Draft) -> Result<Self, DraftError> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(|e| DraftError(format!("no randomness: {e}")))?;
        Self::salted(draft, salt)
    }

    /// As [`Written::from_draft`], with a given salt.
    pub fn salted(mut draft: Draft, salt: [u8; 32]) -> Result<Self, DraftError> {
        let members = std::mem::take(&mut draft.body.members);
        let name = members.get("name").filter(|_| draft.body.kind == Kind::ModelAsk);
        let model = name.and_then(Value::as_str).map(str::to_owned);
        let body = payload_bytes(members)?;
        Ok(Self { commitment: commitment(&salt, &body), draft, salt, body, model })
    }
}

/// The payload's bytes: canonical JSON with `"v": 1`. A payload longer than
/// [`limits::PAYLOAD_BYTES_MAX`] is replaced by its head, its length and its SHA-256.
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
        // Escaping may double the head; a quarter keeps the result within the limit.
        "head": text::prefix(&whole, limits::PAYLOAD_BYTES_MAX / 4),
    });
    canonical(&cut).map(String::into_bytes).map_err(|e| DraftError(format!("payload: {e}")))
}

/// Commitment to a payload: SHA-256("par/payload/1\0" ‖ salt ‖ payload). Without the salt, a reader
/// could guess a redacted text.
#[must_use]
pub fn commitment(salt: &[u8; 32], body: &[u8]) -> Digest {
    Digest::sha256_parts(&[b"par/payload/1\0", salt, body])
}
