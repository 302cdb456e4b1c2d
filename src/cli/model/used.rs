//! What models used in the last 24 hours: the index finds the replies, the ledger has the numbers.

use crate::cli::compose;
use crate::cli::exit::{self, Fail};
use crate::config::{Config, NamedModel};
use crate::ledger::payload::ModelReplyPayload;
use crate::ledger::{Filter, Header, Index, Order, Reader};
use crate::types::{ModelSink, Money, limits};
use std::collections::BTreeMap;

/// What one model used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelUse {
    /// Replies, those without numbers too.
    pub(super) replies: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Replies whose payload was erased.
    pub(super) erased: u64,
}

/// What each model used, by its name.
pub(super) fn last_day(config: &Config) -> Result<BTreeMap<String, ModelUse>, Fail> {
    let files = compose::files(config);
    let mut used: BTreeMap<String, ModelUse> = BTreeMap::new();
    compose::check_readable(&config.home.data)?;
    if compose::is_new(&files) {
        return Ok(used);
    }
    let reader = compose::HomeReader::open(config)?;
    let index = Index::reading(&files).ok();
    let filter = Filter::parse("kind:model.reply since:24h").map_err(Fail::failed)?;
    let mut next = Some(u64::MAX);
    while let Some(from) = next {
        let (headers, on) = page(index.as_ref(), &reader, &filter, from)?;
        for header in headers {
            let stored = reader.entry(header.seq).map_err(damaged)?;
            let payload: Option<ModelReplyPayload> = stored.and_then(|stored| stored.payload());
            // Before models had names there was one.
            let name =
                payload.as_ref().and_then(|reply| reply.named.as_deref()).unwrap_or(ModelSink::DEFAULT);
            used.entry(name.to_owned()).or_default().add(payload.as_ref());
        }
        next = on;
    }
    Ok(used)
}

type Page = (Vec<Header>, Option<u64>);

fn page(index: Option<&Index>, reader: &Reader, filter: &Filter, from: u64) -> Result<Page, Fail> {
    let (most, scan_max) = (limits::PAGE_ITEMS_MAX, usize::MAX);
    match index {
        Some(index) => {
            let page = index.headers(filter, from, Order::Descending, most, scan_max).map_err(damaged)?;
            Ok((page.headers, page.next))
        }
        None => reader.headers(filter, from, Order::Descending, most, scan_max).map_err(damaged),
    }
}

fn damaged(error: impl std::fmt::Display) -> Fail {
    Fail::new(exit::UNVERIFIED, error)
}

impl ModelUse {
    fn add(&mut self, reply: Option<&ModelReplyPayload>) {
        self.replies += 1;
        match reply {
            Some(reply) => {
                self.input_tokens = self.input_tokens.saturating_add(reply.input_tokens);
                self.output_tokens = self.output_tokens.saturating_add(reply.output_tokens);
            }
            None => self.erased += 1,
        }
    }

    /// What it cost; `None` without both prices.
    pub(super) fn money(&self, model: &NamedModel) -> Option<Money> {
        let (input, output) = (model.input_price?, model.output_price?);
        Some(input.of(self.input_tokens).and(output.of(self.output_tokens)))
    }
}
