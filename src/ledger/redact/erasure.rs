//! Erases payloads: salt and words leave every file of `data/`; the header and its position in the
//! tree stay.
//!
//! A `redaction` entry records who erased what and why, in the transaction that erases, so that no
//! crash comes between them. Then the write-ahead log is copied into the file and truncated, and
//! the raw bytes of every file are searched for traces. The result lists what is still found, and
//! what no program can reach.

use super::error::RedactError;
use super::index::forget;
use super::payload::PayloadToErase;
use super::residue::Traces;
use super::runs::RunHeaders;
use super::words::Words;
use crate::ledger::entry::{Draft, Ref};
use crate::ledger::handle::Ledger;
use crate::ledger::payload::{PowerUsed, RedactionPayload};
use crate::ledger::read::Stored;
use crate::ledger::write::Receipt;
use crate::types::{limits, text};
use serde::Serialize;
use std::collections::BTreeSet;

/// What to erase, who asks, and why.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// The entries to erase.
    pub targets: Targets,
    /// The reason, for later readers of the ledger.
    pub reason: String,
    /// The principal that asks, by its name on the ledger.
    pub principal: String,
    /// The power that let the principal in, as `Granted::record` returns it; `None` without a
    /// server.
    pub power: Option<PowerUsed>,
}

/// The entries whose payloads are erased.
#[derive(Clone, Debug)]
pub enum Targets {
    /// These entries, all or none.
    Entries(Vec<u64>),
    /// Every entry of this run whose payload exists and may be erased.
    Run(String),
}

/// The result of an erasure, for people.
#[derive(Clone, Debug, Serialize)]
pub struct Redacted {
    /// The erased payloads, by rising number.
    pub entries: Vec<Erased>,
    /// Other entries of the same runs that hold words of them.
    pub same_words: Vec<Same>,
    /// Number of files in `data/` whose raw bytes were searched.
    pub files: usize,
    /// Where traces may still be found, and why.
    pub left: Vec<String>,
    /// What no program can reach.
    pub beyond: [&'static str; 5],
}

/// One erased payload.
#[derive(Clone, Debug, Serialize)]
pub struct Erased {
    /// The number of its entry.
    pub seq: u64,
    /// The kind of the entry.
    pub kind: String,
    /// Length of the payload, in bytes.
    pub bytes: u64,
    /// The number of the `redaction` entry.
    pub redaction: u64,
}

/// An entry with some of the same words.
#[derive(Clone, Debug, Serialize)]
pub struct Same {
    /// The number of the entry.
    pub seq: u64,
    /// The kind of the entry.
    pub kind: String,
    /// Whether its payload may be erased too.
    pub may_be_erased: bool,
}

const BEYOND: [&str; 5] = [
    "blocks of the device that held the old files, and its snapshots",
    "backups and other copies of data/",
    "proof files, exports and pages that were made or read before",
    "the model's provider, if the words were sent there",
    "the system's log, and what tools and jobs wrote elsewhere",
];

impl Ledger {
    /// Erases all of the given payloads or none. Blocking, and not for a thread of an async
    /// runtime: it waits for the disk, for readers at most [`limits::REDACTION_WAIT_MS_MAX`]
    /// milliseconds, and reads every file of `data/`.
    ///
    /// When it returns, the erasure is durable, and no file holds a trace that is not listed in
    /// `left`.
    pub fn redact(&self, asked: &Erasure) -> Result<Redacted, RedactError> {
        let reason = reason(&asked.reason)?;
        let runs = RunHeaders::new(self.reader());
        let (payloads, runs) = self.targets(&asked.targets, runs)?;
        let words = Words::from_payloads(&payloads)?;
        if words.are_in(reason.as_bytes()) {
            let why =
                "it repeats words of the erased payload, but the reason itself is never erased".to_owned();
            return Err(RedactError::Invalid("reason", why));
        }
        let same_words = self.same_words(&payloads, &words, &runs)?;
        let traces = Traces::from_payloads(&payloads).map_err(|e| RedactError::Failed(e.to_string()))?;
        let redactions = self.erase(&payloads, asked, &reason)?;
        // From here on the erasure is durable. What follows cleans the files apart from the rows;
        // what fails there is reported in `left` and is not an error.
        let mut left = forget(self.files(), self.shared().raw(), &payloads);
        let (files, more) = self.cleanse(&traces);
        left.extend(more);
        let erased = payloads.iter().zip(redactions).map(|(payload, redaction)| Erased {
            seq: payload.header.seq,
            kind: payload.header.kind.clone(),
            bytes: payload.header.payload_len,
            redaction,
        });
        Ok(Redacted { entries: erased.collect(), same_words, files, left, beyond: BEYOND })
    }

    /// Reads the payloads to erase. If any of the entries must stay, nothing is erased.
    fn targets<'a>(
        &self,
        targets: &Targets,
        mut runs: RunHeaders<'a>,
    ) -> Result<(Vec<PayloadToErase>, RunHeaders<'a>), RedactError> {
        let (mut payloads, mut kept) = (Vec::new(), Vec::new());
        let seqs = match targets {
            Targets::Entries(seqs) => BTreeSet::from_iter(seqs.iter().copied()),
            Targets::Run(run) => {
                let of_run = runs.headers_of(run)?;
                let erasable = of_run.iter().filter(|header| header.is_redactable());
                erasable.map(|header| header.seq).collect()
            }
        };
        if seqs.len() > limits::REDACTED_ENTRIES_MAX {
            let why = format!(
                "{} entries, at most {} can be erased at once",
                seqs.len(),
                limits::REDACTED_ENTRIES_MAX
            );
            return Err(RedactError::Invalid("entries", why));
        }
        for seq in seqs {
            match self.reader().salted(seq)? {
                None => kept.push(format!("entry {seq} does not exist")),
                // In a run, a payload that is already gone is not an obstacle.
                Some((Stored { body: None, .. }, _)) if matches!(targets, Targets::Run(_)) => {}
                Some((Stored { header, body, .. }, salt)) => {
                    match (runs.why_kept(&header)?, body.zip(salt)) {
                        (Some(why), _) => kept.push(format!("entry {seq} {why}")),
                        (None, None) => kept.push(format!("entry {seq} was already erased")),
                        (None, Some((body, salt))) => payloads.push(PayloadToErase { salt, header, body }),
                    }
                }
            }
        }
        if payloads.is_empty() && kept.is_empty() {
            kept.push("the ledger holds no such payload to erase".to_owned());
        }
        if kept.is_empty() { Ok((payloads, runs)) } else { Err(RedactError::Kept(kept)) }
    }

    /// Other entries of the same runs that hold words of the payloads.
    fn same_words(
        &self,
        payloads: &[PayloadToErase],
        words: &Words,
        runs: &RunHeaders<'_>,
    ) -> Result<Vec<Same>, RedactError> {
        let going: BTreeSet<u64> = payloads.iter().map(|payload| payload.header.seq).collect();
        let mut same = Vec::new();
        for header in runs.headers().filter(|header| !going.contains(&header.seq)) {
            let body = self.reader().entry(header.seq)?.and_then(|stored| stored.body);
            if body.is_some_and(|body| words.are_in(&body)) {
                let (seq, kind, may_be_erased) = (header.seq, header.kind.clone(), header.is_redactable());
                same.push(Same { seq, kind, may_be_erased });
            }
        }
        same.sort_by_key(|same| same.seq);
        Ok(same)
    }

    /// One commit: the entries that record the erasure, and the rows without salt and body. Returns
    /// the numbers of the entries.
    fn erase(
        &self,
        payloads: &[PayloadToErase],
        asked: &Erasure,
        reason: &str,
    ) -> Result<Vec<u64>, RedactError> {
        let drafts = payloads.iter().map(|PayloadToErase { header, .. }| {
            let payload = RedactionPayload {
                reason: reason.to_owned(),
                kind: header.kind.clone(),
                bytes: header.payload_len,
                power: asked.power.clone(),
            };
            let draft = Draft::new(payload);
            Draft { answers: Some(Ref::Seq(header.seq)), principal: Some(asked.principal.clone()), ..draft }
        });
        let erases = payloads.iter().map(|payload| payload.header.seq).collect();
        let receipts = self.queue().append_erasing(drafts.collect(), erases).map_err(RedactError::Append)?;
        Ok(receipts.iter().map(Receipt::seq).collect())
    }
}

fn reason(reason: &str) -> Result<String, RedactError> {
    let reason = text::visible_line(reason.trim());
    match reason.len() {
        0 => Err(RedactError::Invalid("reason", "must not be empty".to_owned())),
        long if long > limits::REDACTION_REASON_BYTES_MAX => {
            let why = format!("must have at most {} bytes", limits::REDACTION_REASON_BYTES_MAX);
            Err(RedactError::Invalid("reason", why))
        }
        _ => Ok(reason),
    }
}
