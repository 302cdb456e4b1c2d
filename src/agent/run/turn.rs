//! A run as far as it has come: what a walk begins with, and a reply of the model whose calls are under way.

use crate::agent::api::{Step, Usage};
use crate::gate::{Asked, ToolResult};
use crate::ledger::Draft;
use crate::llm::{Conversation, ModelReply};
use crate::policy::Session;
use crate::secrets::Clean;
use crate::tools::ProposedCall;
use crate::types::{RunId, SessionId};
use std::net::IpAddr;

/// What is settled when a run begins.
#[derive(Debug)]
pub(in crate::agent) struct Begun {
    pub(in crate::agent) run: RunId,
    pub(in crate::agent) session_id: SessionId,
    pub(in crate::agent) session: Session,
    pub(in crate::agent) source_ip: Option<IpAddr>,
}

/// A run as its entries tell it, up to where it goes on.
#[derive(Debug)]
pub(in crate::agent) struct RecalledRun {
    pub(in crate::agent) begun: Begun,
    /// The number of the `run.request`.
    pub(in crate::agent) first: u64,
    /// All that the model was told and has said, but for the reply that is open.
    pub(in crate::agent) conversation: Conversation,
    pub(in crate::agent) steps: Vec<Step>,
    pub(in crate::agent) usage: Usage,
    /// Replies of the model.
    pub(in crate::agent) rounds: u32,
    /// A reply whose calls are not all settled.
    pub(in crate::agent) open: Option<OpenTurn>,
}

/// A reply of the model on its way: each of its calls, and the entries that wait for the next commit.
#[derive(Debug)]
pub(in crate::agent) struct OpenTurn {
    pub(in crate::agent) reply: Clean<ModelReply>,
    pub(in crate::agent) parts: Vec<Part>,
    pub(in crate::agent) before: Vec<Draft>,
}

/// A call of a reply.
#[derive(Debug)]
pub(in crate::agent) struct Part {
    pub(in crate::agent) call: ProposedCall,
    pub(in crate::agent) at: PartState,
}

/// How far a call has come.
#[derive(Debug)]
pub(in crate::agent) enum PartState {
    /// It was not decided yet.
    Fresh,
    /// A person was asked about it: it is decided again.
    Again(Asked),
    /// It waits for a person.
    Waiting,
    /// Its outcome is durable.
    Told(Box<ToolResult>),
}
