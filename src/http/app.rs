//! The state that every endpoint uses: the agent, the keys, the ledger's index, counts and limits.

use super::answered::Answered;
use super::bounds::Bounds;
use super::ready::Ready;
use crate::agent::Agent;
use crate::auth::{Authority, LoginLinks};
use crate::ledger::{Anchor, Filter, HeaderPage, Index, Order, ReadError};
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
