//! What of the record may be shown to a model, asked as of now.
//!
//! A model reads a stored payload only through [`OwnRecord::read`]: the caller's own runs, the
//! power to read them, the rules about what was read then, and what was erased since. Secrets of
//! now are replaced where the result of the call is recorded.

use super::asker::FrontAsker;
use crate::gate::Sight;
use crate::ledger::payload::{
    CallDecisionPayload, CallResultPayload, ModelReplyPayload, RunReplyPayload, RunRequestPayload,
};
use crate::ledger::{Filter, Header, Kind, Order, ReadError, Stored};
use crate::policy::Power;
use crate::tools::FrontTool;
use crate::types::{DataLabels, Decision, Labelled, limits};
use serde_json::Value;

/// How many recalls of recalls are followed.
const DEPTH_MAX: usize = 8;
/// Entries of one run, at most.
const RUN_ENTRIES_MAX: usize = 4_096;

/// What may be shown of an entry.
#[derive(Debug)]
pub(super) enum StoredText {
    /// Its text, with the labels of its header.
    Shown(Labelled<String>),
    /// It was erased.
    Erased,
    /// It is not there, not of a run of the caller, or not permitted now. Which one is not said.
    Hidden,
}

/// The caller's view of the record.
pub(super) struct OwnRecord<'a> {
    asker: &'a FrontAsker,
    owner: String,
    sight: Option<Sight>,
}

impl<'a> OwnRecord<'a> {
    pub(super) fn of(asker: &'a FrontAsker) -> Self {
        let sight = asker.agent.gate().sight(&asker.principal, Power::RunRead, asker.door).ok();
        Self { asker, owner: asker.id(), sight }
    }

    /// What may be shown of entry `seq`. Blocking.
    pub(super) fn read(&self, seq: u64) -> Result<StoredText, ReadError> {
        self.read_at(seq, 0)
    }

    /// Whether the caller may read its own runs, and this is an entry of one.
    pub(super) fn owns(&self, header: &Header) -> bool {
        let is_own = header.str("run").is_some() && header.str("principal") == Some(&self.owner);
        is_own && self.sight.as_ref().is_some_and(|sight| sight.sees(&self.owner))
    }

    /// The first of these results that may not be read now.
    pub(super) fn withheld<'h>(
        &self,
        results: impl Iterator<Item = &'h Header>,
    ) -> Result<Option<u64>, ReadError> {
        for result in results {
            if !(self.owns(result) && self.may_reread(result, 0)?) {
                return Ok(Some(result.seq));
            }
        }
        Ok(None)
    }

    fn read_at(&self, seq: u64, depth: usize) -> Result<StoredText, ReadError> {
        let Some(stored) = self.asker.agent.ledger().reader().entry(seq)? else {
            return Ok(StoredText::Hidden);
        };
        let Some(kind) = stored.header.known_kind().filter(|_| self.owns(&stored.header)) else {
            return Ok(StoredText::Hidden);
        };
        let is_permitted = match kind {
            Kind::RunRequest => true,
            Kind::CallResult => self.may_reread(&stored.header, depth)?,
            // What a model wrote may repeat whatever it had read.
            Kind::ModelReply | Kind::RunReply => self.may_reread_before(&stored.header, depth)?,
            _ => false,
        };
        if !is_permitted {
            return Ok(StoredText::Hidden);
        }
        if stored.body.is_none() {
            return Ok(StoredText::Erased);
        }
        let Some(text) = text_of(kind, &stored) else { return Ok(StoredText::Hidden) };
        let labels = stored.header.labels().unwrap_or_else(DataLabels::untrusted);
        Ok(StoredText::Shown(Labelled::new(text, labels)))
    }

    /// Whether the call of this result would be permitted now, so that its result may be read.
    fn may_reread(&self, result: &Header, depth: usize) -> Result<bool, ReadError> {
        let reader = self.asker.agent.ledger().reader();
        let Some(seq) = result.u64("ref") else { return Ok(false) };
        let Some(decision) = reader.entry(seq)? else { return Ok(false) };
        if !self.asker.agent.gate().may_reread(&self.asker.context(), &decision) {
            return Ok(false);
        }
        let rules = self.asker.agent.gate().rules();
        let tool = decision.header.str("tool").and_then(|tool| rules.catalog.find(tool));
        if tool.and_then(|tool| tool.front()) != Some(FrontTool::Recall) {
            return Ok(true);
        }
        // It repeats another entry: that one decides.
        let payload: Option<CallDecisionPayload> = decision.payload();
        let repeated = payload.and_then(|payload| payload.arguments?.get("entry")?.as_u64());
        match repeated.filter(|seq| *seq < decision.header.seq && depth < DEPTH_MAX) {
            Some(seq) => Ok(matches!(self.read_at(seq, depth + 1)?, StoredText::Shown(_))),
            None => Ok(false),
        }
    }

    /// Whether every result that the run had before this entry may be read now.
    fn may_reread_before(&self, entry: &Header, depth: usize) -> Result<bool, ReadError> {
        let Some(run) = entry.str("run") else { return Ok(false) };
        let (filter, reader) = (Filter::field("run", run), self.asker.agent.ledger().reader());
        let (headers, _) =
            reader.headers(&filter, entry.seq, Order::Descending, RUN_ENTRIES_MAX, limits::PAGE_SCAN_MAX)?;
        let mut results = Vec::new();
        for header in &headers {
            match header.known_kind() {
                Some(Kind::RunRequest) => {
                    for result in results {
                        if !self.may_reread(result, depth)? {
                            return Ok(false);
                        }
                    }
                    return Ok(true);
                }
                Some(Kind::CallResult) => results.push(header),
                _ => {}
            }
        }
        // The beginning of the run was not reached.
        Ok(false)
    }
}

/// The text of an entry.
fn text_of(kind: Kind, stored: &Stored) -> Option<String> {
    match kind {
        Kind::RunRequest => stored.payload().map(|asked: RunRequestPayload| asked.message),
        Kind::CallResult => stored.payload().map(|result: CallResultPayload| shown(&result.result)),
        Kind::ModelReply => stored.payload().and_then(|reply: ModelReplyPayload| reply.text),
        Kind::RunReply => stored.payload().and_then(|reply: RunReplyPayload| reply.answer),
        _ => None,
    }
}

/// A result as text: what a program wrote to its standard output alone, or else JSON.
fn shown(result: &Value) -> String {
    let members = result.as_object();
    let alone = members.filter(|members| members.len() == 1).and_then(|members| members.get("stdout"));
    match alone.and_then(Value::as_str) {
        Some(stdout) => stdout.to_owned(),
        None => result.to_string(),
    }
}

/// Whether an entry is a decision that denied a call, or one that says so for a person.
pub(super) fn is_denial(header: &Header) -> bool {
    let denied = matches!(header.decision(), Some(Decision::Deny | Decision::Invalid));
    (header.is(Kind::CallDecision) && denied) || header.is(Kind::ApprovalRefuse)
}
