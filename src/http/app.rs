//! The state that every endpoint uses: the agent, the keys, the ledger's index, counts and limits.

use super::answered::Answered;
use super::bounds::Bounds;
use super::ready::Ready;
use crate::agent::Agent;
use crate::auth::{Authority, LoginLinks, Principal, key_names};
use crate::gate::Sight;
use crate::ledger::{Anchor, Filter, HeaderPage, Index, Ledger, Order, QueryError, ReadError};
use crate::types::{Full, Share, Shares, limits};
use std::sync::Arc;

/// The state that every endpoint uses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The agent.
    pub agent: Agent,
    /// The API keys.
    pub authority: Authority,
    /// Whether runs are accepted.
    pub ready: Ready,
    /// Host names that requests may carry, in addition to those of the loopback and the address of
    /// the connection.
    pub hosts: Arc<[String]>,
    /// Publishes the ledger's checkpoints to an outside place.
    pub anchor: Anchor,
    /// The index for queries. Without it, queries read the ledger.
    pub index: Option<Arc<Index>>,
    /// Limits concurrent exports.
    pub exports: Exports,
    /// The login links of `par login`.
    pub links: LoginLinks,
    /// Counts the responses.
    pub answered: Answered,
    /// Limits of requests and connections.
    pub bounds: Bounds,
}

impl App {
    /// Returns a page of the headers that match. Blocking.
    pub(super) fn headers(
        &self,
        filter: &Filter,
        from: u64,
        order: Order,
        limit: usize,
    ) -> Result<HeaderPage, ReadError> {
        let scan_max = limits::PAGE_SCAN_MAX;
        if let Some(index) = &self.index {
            return index.headers(filter, from, order, limit, scan_max);
        }
        let (headers, next) = self.agent.ledger().reader().listed(filter, from, order, limit, scan_max)?;
        Ok(HeaderPage { headers, next, index: None })
    }

    /// The error of a query for a tool that does not exist and that no entry in its scope names. It
    /// lists the tools: all of them for a reader of the whole ledger, otherwise those that
    /// `principal` may use. Blocking.
    pub(super) fn unknown_tool(
        &self,
        filter: &Filter,
        principal: &Principal,
        reads_all: bool,
    ) -> Result<Option<QueryError>, ReadError> {
        let known = || match reads_all {
            true => tool_names(&self.agent),
            false => self.agent.tools(principal).into_iter().map(|tool| tool.name).collect::<Vec<String>>(),
        };
        if !filter.names_tool() {
            return Ok(None);
        }
        let (ledger, index) = (self.agent.ledger(), self.index.as_deref());
        filter.unknown_tool(&known(), |alone| has_entry(ledger, index, alone))
    }

    /// The query with the ids of the keys that it names, or the error of one for a tool, a key, a
    /// user or a principal that does not exist. Only for readers of the whole ledger: it lists the
    /// known names. Blocking.
    pub(super) fn known_query(
        &self,
        filter: Filter,
        principal: &Principal,
    ) -> Result<Result<Filter, QueryError>, ReadError> {
        if let Some(unknown) = self.unknown_tool(&filter, principal, true)? {
            return Ok(Err(unknown));
        }
        match unknown_caller(self.agent.ledger(), self.index.as_deref(), &filter)? {
            Some(unknown) => Ok(Err(unknown)),
            None => Ok(Ok(self.by_ids(filter)?)),
        }
    }

    /// The query with the ids of the keys that it names. Blocking.
    pub(super) fn by_ids(&self, filter: Filter) -> Result<Filter, ReadError> {
        match filter.names_caller() {
            true => Ok(filter.by_ids(&self.agent.ledger().state(key_names)?)),
            false => Ok(filter),
        }
    }

    /// As [`App::unknown_tool`], for a search of the runs in `sight`. Blocking.
    pub(super) fn unknown_tool_of_runs(
        &self,
        filter: &Filter,
        sight: &Sight,
        principal: &Principal,
        reads_all: bool,
    ) -> Result<Option<QueryError>, ReadError> {
        if reads_all {
            return unknown_in_runs(&self.agent, self.index.as_deref(), filter);
        }
        if !filter.names_tool() {
            return Ok(None);
        }
        let own = filter.clone().in_runs_of(self.agent.run_owners(sight)?);
        self.unknown_tool(&own, principal, reads_all)
    }
}

/// The error of a query for a key, a user or a principal that does not exist. Blocking.
pub(super) fn unknown_caller(
    ledger: &Ledger,
    index: Option<&Index>,
    filter: &Filter,
) -> Result<Option<QueryError>, ReadError> {
    if !filter.names_caller() {
        return Ok(None);
    }
    filter.unknown_name(&ledger.state(key_names)?, |alone| has_entry(ledger, index, alone))
}

/// As [`unknown_caller`], and for a tool, in a search of runs by a reader of the whole ledger.
pub(super) fn unknown_in_runs(
    agent: &Agent,
    index: Option<&Index>,
    filter: &Filter,
) -> Result<Option<QueryError>, ReadError> {
    if filter.names_tool()
        && let Some(unknown) =
            filter.unknown_tool(&tool_names(agent), |alone| has_entry(agent.ledger(), index, alone))?
    {
        return Ok(Some(unknown));
    }
    unknown_caller(agent.ledger(), index, filter)
}

fn tool_names(agent: &Agent) -> Vec<String> {
    agent.gate().rules().catalog.manifests().map(|manifest| manifest.name.clone()).collect()
}

/// Whether an entry matches. What a bounded search does not reach may do so.
fn has_entry(ledger: &Ledger, index: Option<&Index>, filter: &Filter) -> Result<bool, ReadError> {
    let (limit, scan_max) = (1, limits::PAGE_SCAN_MAX);
    let (found, next) = match index {
        Some(index) => {
            let page = index.headers(filter, u64::MAX, Order::Descending, limit, scan_max)?;
            (page.headers, page.next)
        }
        None => ledger.reader().listed(filter, u64::MAX, Order::Descending, limit, scan_max)?,
    };
    Ok(!found.is_empty() || next.is_some())
}

/// Limits concurrent exports: at most [`limits::EXPORTS_MAX`] in total and
/// [`limits::KEY_EXPORTS_MAX`] for one key. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Exports(Shares);

impl Default for Exports {
    fn default() -> Self {
        Self(Shares::new(limits::EXPORTS_MAX, limits::KEY_EXPORTS_MAX))
    }
}

impl Exports {
    /// Takes a slot, which is released when the share is dropped.
    pub(super) fn try_take(&self, reader: &str) -> Result<Share, Full> {
        self.0.try_take(reader)
    }
}
