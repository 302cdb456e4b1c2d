//! The log's own entries: its keys, its segments, what was told outside, taken out and erased.

use super::power::PowerUsed;
use crate::ledger::entry::{Kind, Payload};
use crate::types::Digest;
use serde::{Deserialize, Serialize};

/// The payload of `genesis`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenesisPayload {
    /// The log's name.
    pub origin: String,
    /// Verifier key of the log key.
    pub log_key: String,
    /// Verifier key of epoch 1.
    pub epoch_key: String,
    /// PAR's version.
    pub program: String,
    /// The log that this one takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// What a genesis entry says of the log before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Its id, where an entry could be read; else made of the files' digests.
    pub log: String,
    /// Its verifier key, where the first entry could be read.
    pub key: Option<String>,
    /// Entries that were followed from the first on.
    pub size: u64,
    /// The root over them, in hexadecimal.
    pub root: String,
    /// Its newest checkpoint, where one could be read.
    pub checkpoint: Option<String>,
    /// The judgement over it, in the word of `par audit verify`.
    pub verdict: String,
    /// `restore` or `damage`.
    pub why: String,
    /// What a person said to it.
    pub reason: String,
    /// When it was set aside, in microseconds since 1970.
    pub aside_us: u64,
    /// Its files as they were then.
    pub files: Vec<Aside>,
}

/// A file of the log before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// The payload of `key.epoch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEpochPayload {
    /// Number of the epoch that begins.
    pub epoch: u64,
    /// Its verifier key.
    pub key: String,
    /// The checkpoint that ends the epoch before.
    pub seal: String,
}

/// The payload of `segment.seal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSealPayload {
    /// First entry of this segment.
    pub first: u64,
    /// First entry of the next one.
    pub next: u64,
}

/// The payload of `payload.drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadDropPayload {
    /// First entry whose payload is gone.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// The age that they were over, in milliseconds.
    pub age_ms_max: u64,
}

/// The payload of `anchor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnchorPayload {
    /// `journal`, `file:PATH` or a URL.
    #[serde(rename = "where")]
    pub place: String,
    /// Number of entries that were anchored.
    pub size: u64,
    /// The root over them.
    pub root: Digest,
    /// The checkpoint.
    pub note: String,
    /// A witness's line, with the newline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosignature: Option<String>,
    /// The witness's verifier key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
}

/// The payload of `export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportPayload {
    /// The query as it was read, times written out.
    pub query: String,
    /// `jsonl` or `csv`.
    pub format: String,
    /// Entries that there were.
    pub size: u64,
    /// How many of them matched.
    pub entries: u64,
    /// SHA-256 over their numbers.
    pub seqs: Digest,
    /// What let in who took them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
}

/// The payload of `redaction`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactionPayload {
    /// What a person said to it.
    pub reason: String,
    /// Kind of the entry whose payload was erased.
    pub kind: String,
    /// Length of that payload.
    pub bytes: u64,
    /// What let in who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUsed>,
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
impl Payload for RedactionPayload {
    const KIND: Kind = Kind::Redaction;
}
