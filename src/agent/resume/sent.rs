//! The requests of a run, built again from the ledger.

use crate::agent::run;
use crate::agent::shared::Agent;
use crate::ledger::payload::{ConfigLoadPayload, SentForm, ToolsLoadPayload};
use crate::ledger::{Filter, Kind, Ledger, Order, Payload, ReadError, Stored};
use crate::llm::{Conversation, OpaqueOrigin, RequestForm, ToolOffer};
use crate::types::Digest;
use std::collections::BTreeMap;

/// Headers read under one lock of the reader, so that other readers get their turn.
pub(super) const SCAN_ENTRIES_MAX: usize = 4_096;

/// The tools of one bundle, by their names.
type Described = BTreeMap<String, ToolOffer>;

/// Builds the requests of a run again. Remembers the tools that it has read.
pub(super) struct SentRequests<'a> {
    ledger: &'a Ledger,
    described: BTreeMap<Digest, Option<Described>>,
}

impl<'a> SentRequests<'a> {
    /// Reads everything from the ledger.
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        Self { ledger, described: BTreeMap::new() }
    }

    /// As [`of`](Self::of), with the tools in force already known: those of the ledger are the same
    /// under the same digest, and may be far away in it.
    pub(super) fn knowing(agent: &'a Agent) -> Self {
        let rules = agent.gate().rules();
        let offers = rules.catalog.manifests().map(|manifest| run::offer(manifest));
        let known = offers.map(|offer| (offer.name.clone(), offer)).collect();
        let mut sent = Self::of(agent.ledger());
        sent.described.insert(rules.bundle.digest(), Some(known));
        sent
    }

    /// The bytes of the request that the entry `seq` is the outcome of, if the ledger has
    /// everything that they are made of. `tools` are the names that the model was offered.
    pub(super) fn body(
        &mut self,
        seq: u64,
        sent: &SentForm,
        conversation: &Conversation,
        tools: &[String],
    ) -> Result<Option<Vec<u8>>, ReadError> {
        if !self.described.contains_key(&sent.tools_policy) {
            let described = described(self.ledger, sent.tools_policy, seq)?;
            self.described.insert(sent.tools_policy, described);
        }
        let described = self.described.get(&sent.tools_policy).and_then(Option::as_ref);
        let offers = described.and_then(|described| {
            tools.iter().map(|name| described.get(name).cloned()).collect::<Option<Vec<ToolOffer>>>()
        });
        Ok(offers.and_then(|offers| form(sent)?.body(conversation, &offers)))
    }
}

fn form(sent: &SentForm) -> Option<RequestForm> {
    let SentForm { wire, base_url, model, key, .. } = sent.clone();
    Some(RequestForm {
        origin: OpaqueOrigin { wire, base_url, model, key: key.unwrap_or_default() },
        reply_tokens_max: sent.reply_tokens_max.map(u32::try_from).transpose().ok()?,
        context_tokens: u32::try_from(sent.context_tokens).ok()?,
        is_streamed: sent.streamed,
        is_plain: sent.plain,
    })
}

/// The tools of the bundle `policy`, from its newest `tools.load` before the entry `seq`. `None` if
/// an earlier version wrote it.
fn described(ledger: &Ledger, policy: Digest, seq: u64) -> Result<Option<Described>, ReadError> {
    let policy = policy.hex();
    let is_of = |stored: &Stored| stored.header.str("policy") == Some(&policy);
    let Some(load) = newest::<ToolsLoadPayload>(ledger, seq, is_of)? else { return Ok(None) };
    let offer = |tool: crate::ledger::payload::LoadedTool| {
        let input = serde_json::from_str(&tool.input?).ok()?;
        Some((tool.name.clone(), ToolOffer { name: tool.name, summary: tool.summary?, input }))
    };
    Ok(load.tools.into_iter().map(offer).collect())
}

/// The system prompt of a run whose `run.request` is the entry `first`: that of this version, or
/// the recorded one if `digest` names another.
pub(super) fn system_prompt(
    ledger: &Ledger,
    first: u64,
    digest: Option<Digest>,
) -> Result<String, ReadError> {
    let is = |text: &str| digest.is_none_or(|digest| Digest::sha256(text.as_bytes()) == digest);
    if is(run::SYSTEM) {
        return Ok(run::SYSTEM.to_owned());
    }
    let recorded = newest::<ConfigLoadPayload>(ledger, first, |_| true)?.and_then(|load| load.system);
    recorded
        .filter(|text| is(text))
        .ok_or_else(|| ReadError::Damaged(first, "its system prompt is in no `config.load`".to_owned()))
}

/// The newest entry of a kind before the entry `seq` for which `is` holds.
fn newest<P: Payload>(
    ledger: &Ledger,
    seq: u64,
    is: impl Fn(&Stored) -> bool,
) -> Result<Option<P>, ReadError> {
    let kind: Kind = P::KIND;
    let (filter, mut next) = (Filter::field("kind", kind.as_str()), Some(seq));
    while let Some(at) = next {
        let (headers, on) =
            ledger.reader().headers(&filter, at, Order::Descending, SCAN_ENTRIES_MAX, SCAN_ENTRIES_MAX)?;
        for header in headers {
            let stored = ledger.reader().entry(header.seq)?;
            if let Some(stored) = stored.filter(&is) {
                return Ok(stored.payload());
            }
        }
        next = on;
    }
    Ok(None)
}
