//! Proof files: entries with everything that is needed to check them with only the log's verifier
//! key. Pure: no disk, no clock.
//!
//! The proof of one entry is a C2SP `tlog-proof`; that of a whole run is JSON.
//! `docs/ledger-format.md` specifies both.

use super::error::ProofError;
use super::line::only;
use crate::ledger::checkpoint::{Checkpoint, Epochs, Note, VerifierKey, origin};
use crate::ledger::entry::{Header, Kind, commitment};
use crate::ledger::payload::RunReplyPayload;
use crate::ledger::tree::leaf;
use crate::ledger::tree::proof::is_included;
use crate::types::json::{canonical, parse_strict};
use crate::types::{Digest, digest, limits, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The first line of a proof of one entry.
const TLOG_PROOF: &str = "c2sp.org/tlog-proof@v1";

/// The format of a run's proof.
const RUN_PROOF: &str = "par/run-proof/1";

/// Maximum depth of a proof file's JSON.
const DEPTH_MAX: usize = 8;

/// An entry and its position in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The header's bytes.
    pub header: Vec<u8>,
    /// Salt and bytes of the payload, if it may be shown.
    pub payload: Option<([u8; 32], Vec<u8>)>,
    /// The audit path, from the leaf up.
    pub path: Vec<Digest>,
}

/// A proof file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The verifier key of epoch 1.
    pub first: String,
    /// The seals of the epochs that ended before the checkpoint, as notes.
    pub seals: Vec<String>,
    /// The checkpoint, as a note.
    pub checkpoint: String,
    /// The run of all the entries; `None` for a single entry.
    pub run: Option<String>,
    /// The entries, by rising number.
    pub items: Vec<Item>,
}

/// The result of checking a proof file.
#[derive(Clone, Debug)]
pub struct Proven {
    /// The tree that holds the entries, and the log's name.
    pub checkpoint: Checkpoint,
    /// The epoch whose key signed the checkpoint.
    pub epoch: u64,
    /// The entries, with the payloads that the file includes.
    pub entries: Vec<(Header, Option<Value>)>,
}

impl Item {
    /// Checks the entry against the tree of `checkpoint`: its header, and its payload if it is
    /// included.
    pub(super) fn check(&self, checkpoint: &Checkpoint) -> Result<(Header, Option<Value>), ProofError> {
        let header = Header::parse(&self.header)?;
        let fail = |what: &str| Err(ProofError::Entry(header.seq, what.to_owned()));
        if origin(&header.log) != checkpoint.origin {
            return fail("it belongs to another log");
        }
        if !is_included(leaf(&self.header), header.seq, checkpoint.head, &self.path) {
            return fail("its path does not lead to the checkpoint's root");
        }
        let payload = match &self.payload {
            None => None,
            Some((salt, body)) if commitment(salt, body) == header.payload => Some(
                parse_strict(body, limits::JSON_DEPTH_MAX)
                    .map_err(|e| ProofError::Entry(header.seq, e.to_string()))?,
            ),
            Some(_) => return fail("its payload does not match the header's commitment"),
        };
        Ok((header, payload))
    }

    /// In the form of a run's proof and of an export.
    pub(super) fn json(&self) -> Result<Value, ProofError> {
        self.members("path", self.path.iter().map(written).collect())
    }

    /// Parses a line of an export.
    pub(super) fn read_line(line: &[u8]) -> Option<Self> {
        read_with_path(&only(line, &["header", "path", "payload", "salt"], "it").ok()?)
    }

    fn members(&self, name: &str, more: Value) -> Result<Value, ProofError> {
        let mut members = Map::new();
        members.insert("header".to_owned(), text(&self.header)?.into());
        if let Some((salt, body)) = &self.payload {
            members.insert("salt".to_owned(), digest::hex(salt).into());
            members.insert("payload".to_owned(), text(body)?.into());
        }
        members.insert(name.to_owned(), more);
        Ok(Value::Object(members))
    }
}

impl Evidence {
    /// Parses the first line of an export: the entry that records it, with its proof.
    pub(super) fn from_export(head: &Value) -> Option<Self> {
        let (first, seals) = read_epochs(head.get("epochs")?)?;
        let checkpoint = member(head, "checkpoint")?.to_owned();
        let record = read_with_path(head.get("record")?)?;
        Some(Self { first, seals, checkpoint, run: None, items: vec![record] })
    }

    /// The text of the file.
    pub fn write(&self) -> Result<String, ProofError> {
        let epochs = json!({ "first": self.first, "seals": self.seals });
        let Some(run) = &self.run else {
            let [item] = self.items.as_slice() else {
                return Err(ProofError::malformed("a proof without a run must have exactly one entry"));
            };
            let index = Header::parse(&item.header)?.seq;
            let extra = item.members("epochs", epochs)?;
            let extra = STANDARD.encode(canonical(&extra)?);
            let path: String = item.path.iter().map(|step| written(step) + "\n").collect();
            return Ok(format!("{TLOG_PROOF}\nextra {extra}\nindex {index}\n{path}\n{}", self.checkpoint));
        };
        let items = self.items.iter().map(Item::json);
        let whole = json!({
            "t": RUN_PROOF,
            "run": run,
            "epochs": epochs,
            "checkpoint": self.checkpoint,
            "entries": items.collect::<Result<Vec<Value>, ProofError>>()?,
        });
        Ok(canonical(&whole)? + "\n")
    }

    /// Parses a file of either form.
    pub fn read(file: &str) -> Result<Self, ProofError> {
        if let Some(rest) = file.strip_prefix(TLOG_PROOF) {
            return read_one(rest).ok_or_else(|| ProofError::malformed("the proof of an entry is malformed"));
        }
        let whole = parse_strict(file.trim_end().as_bytes(), DEPTH_MAX);
        let whole = whole.map_err(|e| ProofError::from(e).at("not a proof file"))?;
        if member(&whole, "t") != Some(RUN_PROOF) {
            return Err(ProofError::malformed(format!("not a proof file: `t` is not `{RUN_PROOF}`")));
        }
        read_run(&whole).ok_or_else(|| ProofError::malformed("the proof of a run is malformed"))
    }

    /// Checks everything with only the log's verifier key.
    pub fn check(&self, key: &VerifierKey) -> Result<Proven, ProofError> {
        let epochs = Epochs::follow_seals(key.clone(), &self.first, &self.seals)?;
        let checkpoint = epochs.check(&Note::parse(&self.checkpoint)?)?;
        let mut entries = Vec::with_capacity(self.items.len());
        for item in &self.items {
            entries.push(item.check(&checkpoint)?);
        }
        if entries.is_empty() {
            return Err(ProofError::malformed("it has no entries: nothing is proven"));
        }
        if let Some(run) = &self.run {
            is_whole(run, &entries)?;
        }
        Ok(Proven { checkpoint, epoch: epochs.number(), entries })
    }
}

/// Checks that these are the entries of `run`, and that none named by its last reply is missing.
fn is_whole(run: &str, entries: &[(Header, Option<Value>)]) -> Result<(), ProofError> {
    let mut seqs = BTreeSet::new();
    for (header, _) in entries {
        if header.str("run") != Some(run) {
            let run = text::visible_line(text::prefix(run, limits::SHOWN_BYTES_MAX));
            return Err(ProofError::malformed(format!("entry {} does not belong to {run}", header.seq)));
        }
        if seqs.last().is_some_and(|last| *last >= header.seq) {
            return Err(ProofError::malformed(format!("entry {} is out of order", header.seq)));
        }
        seqs.insert(header.seq);
    }
    if !entries.first().is_some_and(|(header, _)| header.is(Kind::RunRequest)) {
        return Err(ProofError::malformed("it does not begin with the run's request"));
    }
    let Some((_, reply)) = entries.last().filter(|(header, _)| header.is(Kind::RunReply)) else {
        return Err(ProofError::malformed("it does not end with the run's reply"));
    };
    // A reply that was erased, or cut because it was too long, names nothing.
    let Some(reply) = reply.as_ref().filter(|reply| reply.get("cut").is_none()) else { return Ok(()) };
    let reply = RunReplyPayload::deserialize(reply);
    let reply = reply.map_err(|e| ProofError::malformed(format!("the run's reply cannot be parsed: {e}")))?;
    let named = reply.steps.iter().flat_map(|step| [Some(step.ledger.decision), step.ledger.result]);
    match named.flatten().find(|seq| !seqs.contains(seq)) {
        Some(seq) => Err(ProofError::malformed(format!("entry {seq}, which the reply names, is missing"))),
        None => Ok(()),
    }
}

fn member<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

fn text(bytes: &[u8]) -> Result<&str, ProofError> {
    std::str::from_utf8(bytes).map_err(|_| ProofError::NoText)
}

fn read_one(rest: &str) -> Option<Evidence> {
    let (head, checkpoint) = rest.strip_prefix("\nextra ")?.split_once("\n\n")?;
    let (extra, rest) = head.split_once("\nindex ")?;
    let mut lines = rest.split('\n');
    let index = lines.next()?;
    let extra = parse_strict(&STANDARD.decode(extra).ok()?, DEPTH_MAX).ok()?;
    let item = read_item(&extra, lines.map(hash).collect::<Option<_>>()?)?;
    // The index must be the header's own number, in its one spelling.
    (Header::parse(&item.header).ok()?.seq.to_string() == index).then_some(())?;
    let (first, seals) = read_epochs(extra.get("epochs")?)?;
    Some(Evidence { first, seals, checkpoint: checkpoint.to_owned(), run: None, items: vec![item] })
}

fn read_run(whole: &Value) -> Option<Evidence> {
    let (first, seals) = read_epochs(whole.get("epochs")?)?;
    let items = whole.get("entries")?.as_array()?.iter().map(read_with_path);
    Some(Evidence {
        first,
        seals,
        checkpoint: member(whole, "checkpoint")?.to_owned(),
        run: Some(member(whole, "run")?.to_owned()),
        items: items.collect::<Option<_>>()?,
    })
}

fn read_epochs(epochs: &Value) -> Option<(String, Vec<String>)> {
    let seals = epochs.get("seals")?.as_array()?.iter().map(|seal| Some(seal.as_str()?.to_owned()));
    Some((member(epochs, "first")?.to_owned(), seals.collect::<Option<_>>()?))
}

fn read_item(members: &Value, path: Vec<Digest>) -> Option<Item> {
    let header = member(members, "header")?.as_bytes().to_vec();
    let payload = match (member(members, "salt"), member(members, "payload")) {
        (None, None) => None,
        (salt, body) => Some((Digest::from_hex(salt?)?.0, body?.as_bytes().to_vec())),
    };
    Some(Item { header, payload, path })
}

fn read_with_path(members: &Value) -> Option<Item> {
    let steps = members.get("path")?.as_array()?.iter();
    read_item(members, steps.map(|step| hash(step.as_str()?)).collect::<Option<_>>()?)
}

fn written(hash: &Digest) -> String {
    STANDARD.encode(hash.0)
}

fn hash(text: &str) -> Option<Digest> {
    Some(Digest(STANDARD.decode(text).ok()?.try_into().ok()?))
}
