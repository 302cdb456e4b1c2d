//! What models used and how they failed in the last 24 hours: the index finds the entries, the
//! ledger has the numbers.

use crate::cli::compose;
use crate::cli::exit::{self, Fail};
use crate::config::{Config, NamedModel};
use crate::ledger::payload::{ModelErrorPayload, ModelReplyPayload};
use crate::ledger::{Filter, Header, Index, Order, Reader, Stored};
use crate::types::clock::Wall;
use crate::types::{ModelSink, Money, limits, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// What one model used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelUse {
    /// Replies, those without numbers too.
    pub(super) replies: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Replies whose payload was erased.
    pub(super) erased: u64,
    /// Requests without a reply.
    pub(super) errors: u64,
    /// The newest of them.
    pub(super) newest_error: Option<FailedAsk>,
}

/// A request that had no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedAsk {
    pub(super) at: Wall,
    /// Visible text; `None` if the payload was erased.
    pub(super) why: Option<String>,
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
    each(&reader, index.as_ref(), "kind:model.reply since:24h", |_, stored| {
        let payload: Option<ModelReplyPayload> = stored.and_then(Stored::payload);
        let name = name_of(payload.as_ref().and_then(|reply| reply.named.as_deref()));
        used.entry(name).or_default().add(payload.as_ref());
    })?;
    // The newest first.
    each(&reader, index.as_ref(), "kind:model.error since:24h", |header, stored| {
        let payload: Option<ModelErrorPayload> = stored.and_then(Stored::payload);
        let of = used.entry(name_of(payload.as_ref().and_then(|error| error.named.as_deref()))).or_default();
        of.errors += 1;
        let at = Wall(header.fields.get("wall_us").and_then(Value::as_u64).unwrap_or_default());
        let failed = || FailedAsk { at, why: payload.map(|error| text::visible_line(&error.error)) };
        of.newest_error.get_or_insert_with(failed);
    })?;
    Ok(used)
}

/// Before models had names there was one.
fn name_of(named: Option<&str>) -> String {
    named.unwrap_or(ModelSink::DEFAULT).to_owned()
}

/// Calls `take` with each entry that matches, the newest first.
fn each(
    reader: &Reader,
    index: Option<&Index>,
    filter: &str,
    mut take: impl FnMut(&Header, Option<&Stored>),
) -> Result<(), Fail> {
    let filter = Filter::parse(filter).map_err(Fail::failed)?;
    let mut next = Some(u64::MAX);
    while let Some(from) = next {
        let (headers, on) = page(index, reader, &filter, from)?;
        for header in headers {
            take(&header, reader.entry(header.seq).map_err(damaged)?.as_ref());
        }
        next = on;
    }
    Ok(())
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
