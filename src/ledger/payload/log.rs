//! The log's own entries: keys, segments, anchors, exports, erasures and damage.

use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::Digest;
use serde::{Deserialize, Serialize};

/// The payload of `genesis`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenesisPayload {
    /// The log's name, which its checkpoints carry as their origin.
    pub origin: String,
    /// Verifier key of the log key.
    pub log_key: String,
    /// Verifier key of epoch 1.
    pub epoch_key: String,
    /// The version of PAR that began the log.
    pub program: String,
    /// The log that this one succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PreviousLog>,
}

/// What a genesis entry records about the previous log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousLog {
    /// Its id if an entry could be read; otherwise an id made from the digests of its files.
    pub log: String,
    /// Its verifier key, if the first entry could be read.
    pub key: Option<String>,
    /// Number of entries that could be followed from the first on.
    pub size: u64,
    /// The Merkle root over them, in hexadecimal.
    pub root: String,
    /// Its newest checkpoint, if one could be read.
    pub checkpoint: Option<String>,
    /// The verdict on it, as `par audit verify` writes it.
    pub verdict: String,
    /// `restore` or `damage`.
    pub why: String,
    /// The reason that a person gave.
    pub reason: String,
    /// When it was set aside, in microseconds since 1970.
    pub aside_us: u64,
    /// Its files at that time.
    pub files: Vec<SetAsideFile>,
}

/// A file of the previous log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAsideFile {
    /// The file's name.
    pub name: String,
    /// The file's length.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// The payload of `key.epoch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEpochPayload {
    /// Number of the epoch that begins.
    pub epoch: u64,
    /// The verifier key of the new epoch.
    pub key: String,
    /// The checkpoint that ends the previous epoch.
    pub seal: String,
}

/// The payload of `segment.seal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSealPayload {
    /// First entry of this segment.
    pub first: u64,
    /// First entry of the next segment.
    pub next: u64,
}

/// The payload of `payload.drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadDropPayload {
    /// First entry whose payload is gone.
    pub first: u64,
    /// Last entry whose payload is gone.
    pub last: u64,
    /// The maximum age that they had passed, in milliseconds.
    pub age_ms_max: u64,
}

/// The payload of `anchor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnchorPayload {
    /// `journal`, `file:PATH` or a URL.
    #[serde(rename = "where")]
    pub place: String,
    /// Number of entries that the checkpoint covers.
    pub size: u64,
    /// The Merkle root over them.
    pub root: Digest,
    /// The checkpoint, as a signed note.
    pub note: String,
    /// The witness's signature line, with its newline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosignature: Option<String>,
    /// The witness's verifier key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
}

/// The payload of `export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportPayload {
    /// The query as it was parsed, with its times written out.
    pub query: String,
    /// `jsonl` or `csv`.
    pub format: String,
    /// Number of entries in the ledger at that time.
    pub size: u64,
    /// Number of entries that matched.
    pub entries: u64,
    /// SHA-256 of their sequence numbers.
    pub seqs: Digest,
    /// The power that the exporter used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// The payload of `redaction`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactionPayload {
    /// The reason that a person gave.
    pub reason: String,
    /// Kind of the entry whose payload was erased.
    pub kind: String,
    /// Length of the erased payload, in bytes.
    pub bytes: u64,
    /// The power that the requester used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// Which verification of a server found damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyPass {
    /// The one that reads what was appended since the last.
    New,
    /// The one that reads every entry.
    Whole,
}

/// The payload of `ledger.damage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerDamagePayload {
    /// The first entry that does not verify, if one can be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// What does not hold, at most [`crate::types::limits::REASON_BYTES_MAX`] bytes.
    pub found: String,
    /// The verification that found it.
    pub pass: VerifyPass,
    /// Number of entries in the ledger at that time.
    pub size: u64,
}

impl Payload for GenesisPayload {
    const KIND: Kind = Kind::Genesis;
}
impl Payload for KeyEpochPayload {
    const KIND: Kind = Kind::KeyEpoch;
}
impl Payload for SegmentSealPayload {
    const KIND: Kind = Kind::SegmentSeal;
}
impl Payload for PayloadDropPayload {
    const KIND: Kind = Kind::PayloadDrop;
}
impl Payload for AnchorPayload {
    const KIND: Kind = Kind::Anchor;
}
impl Payload for ExportPayload {
    const KIND: Kind = Kind::Export;
}
impl Payload for LedgerDamagePayload {
    const KIND: Kind = Kind::LedgerDamage;
}
impl Payload for RedactionPayload {
    const KIND: Kind = Kind::Redaction;
}
