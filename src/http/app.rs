//! What every endpoint answers from: the agent, the keys, the ledger's index, and what is counted and bounded.

use super::answered::Answered;
use super::bounds::Bounds;
use super::ready::Ready;
use crate::agent::Agent;
use crate::auth::Authority;
use crate::ledger::{Anchor, Filter, HeaderPage, Index, Order, ReadError};
use crate::types::{Full, Share, Shares, limits};
use std::sync::Arc;

/// What the endpoints answer from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The agent.
    pub agent: Agent,
    /// Knows keys.
    pub authority: Authority,
    /// Whether runs are taken.
    pub ready: Ready,
    /// Host names that requests may carry, beside the loopback's and the address that was connected to.
    pub hosts: Arc<[String]>,
    /// Tells the ledger's checkpoints to a place outside.
    pub anchor: Anchor,
    /// What queries look into; without it they read the ledger.
    pub index: Option<Arc<Index>>,
    /// Bounds those under way.
    pub exports: Exports,
    /// Counts the answers.
    pub answered: Answered,
    /// Bounds of requests and connections.
    pub bounds: Bounds,
}

impl App {
    /// A page of the headers that match. Blocking.
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
        let (headers, next) = self.agent.ledger().reader().headers(filter, from, order, limit, scan_max)?;
        Ok(HeaderPage { headers, next, index: None })
    }
}

/// Exports at once: at most [`limits::EXPORTS_MAX`], [`limits::KEY_EXPORTS_MAX`] of one key. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Exports(Shares);

impl Default for Exports {
    fn default() -> Self {
        Self(Shares::new(limits::EXPORTS_MAX, limits::KEY_EXPORTS_MAX))
    }
}

impl Exports {
    /// A place among them, until the share is dropped.
    pub(super) fn try_take(&self, reader: &str) -> Result<Share, Full> {
        self.0.try_take(reader)
    }
}
