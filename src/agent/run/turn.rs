//! A run so far: what a walk begins with, and a reply of the model whose calls are open.

use crate::agent::answer::AnswerSchema;
use crate::agent::api::{Step, Usage};
use crate::gate::{Asked, ToolResult};
use crate::ledger::Draft;
use crate::llm::{Conversation, ModelReply};
use crate::policy::{Door, Session};
use crate::provenance::SourceTexts;
use crate::secrets::Clean;
use crate::tools::ProposedCall;
use crate::types::{Ceiling, Channel, Labelled, RunId, SessionId};

/// What is fixed when a run begins.
#[derive(Debug)]
pub(in crate::agent) struct Begun {
    pub(in crate::agent) run: RunId,
    pub(in crate::agent) session_id: SessionId,
    pub(in crate::agent) session: Session,
    /// What request and key make of the tools.
    pub(in crate::agent) ceiling: Ceiling,
    pub(in crate::agent) door: Door,
    pub(in crate::agent) channel: Channel,
    /// The message that began it, without secrets.
    pub(in crate::agent) message: String,
    /// What the model has been given.
    pub(in crate::agent) sources: SourceTexts,
    /// The schema that the answer is held to.
    pub(in crate::agent) schema: Option<AnswerSchema>,
}

/// What a session holds when its next run begins: everything that its runs have read and written.
#[derive(Debug)]
pub(in crate::agent) struct SessionHistory {
    pub(in crate::agent) conversation: Conversation,
    /// What it has seen, and where its taint comes from.
    pub(in crate::agent) session: Session,
    pub(in crate::agent) sources: SourceTexts,
    /// What the requests of its runs and their keys have left of the tools.
    pub(in crate::agent) ceiling: Ceiling,
    pub(in crate::agent) measured: Option<Measured>,
}

impl SessionHistory {
    /// The session of the next run: what was seen stays, and the calls are counted from zero.
    pub(in crate::agent) fn in_next_run(&self, next: Session) -> Session {
        let Session { taint, seen, tainted_by, risk, .. } = self.session.clone();
        Session { taint, seen, tainted_by, risk, ..next }
    }
}

/// How large the last request turned out to be.
#[derive(Clone, Copy, Debug)]
pub(in crate::agent) struct Measured {
    /// The length of its conversation, in bytes.
    pub(in crate::agent) bytes: usize,
    /// The tokens that the model read, as its server reports them.
    pub(in crate::agent) tokens: u64,
}

impl Measured {
    /// `None` if the server does not count.
    pub(in crate::agent) fn of(bytes: usize, tokens: u64) -> Option<Self> {
        (tokens > 0).then_some(Self { bytes, tokens })
    }
}

/// A run rebuilt from its entries, up to where it resumes.
#[derive(Debug)]
pub(in crate::agent) struct RecalledRun {
    pub(in crate::agent) begun: Begun,
    /// The number of the `run.request`.
    pub(in crate::agent) first: u64,
    /// Everything that the model has read and written, except the open reply.
    pub(in crate::agent) conversation: Conversation,
    pub(in crate::agent) steps: Vec<Step>,
    pub(in crate::agent) usage: Usage,
    /// Number of the model's replies.
    pub(in crate::agent) rounds: u32,
    /// The names of the models that wrote them.
    pub(in crate::agent) answered_by: Vec<String>,
    /// The names of the tools that the model was last offered.
    pub(in crate::agent) tools: Vec<String>,
    /// How large the last request was.
    pub(in crate::agent) measured: Option<Measured>,
    /// How often the model was asked for the answer again.
    pub(in crate::agent) repairs: u64,
    /// A reply whose calls are not all settled.
    pub(in crate::agent) open: Option<OpenTurn>,
    /// The reply that ended it, if it has calls no more.
    pub(in crate::agent) last: Option<Labelled<Clean<ModelReply>>>,
}

/// A reply of the model in progress: its calls, and the entries for the next commit.
#[derive(Debug)]
pub(in crate::agent) struct OpenTurn {
    /// With the labels of what the model had read when it wrote it.
    pub(in crate::agent) reply: Labelled<Clean<ModelReply>>,
    pub(in crate::agent) parts: Vec<Part>,
    pub(in crate::agent) before: Vec<Draft>,
}

/// A call of a reply.
#[derive(Debug)]
pub(in crate::agent) struct Part {
    pub(in crate::agent) call: ProposedCall,
    pub(in crate::agent) at: PartState,
}

impl Part {
    /// The length of what the model reads of it, if it is settled.
    pub(super) fn told_bytes(&self) -> usize {
        match &self.at {
            PartState::Settled(result) => result.text().len(),
            PartState::Fresh | PartState::Again(_) | PartState::Waiting => 0,
        }
    }
}

/// The progress of a call.
#[derive(Debug)]
pub(in crate::agent) enum PartState {
    /// Not decided yet.
    Fresh,
    /// It needed an approval: it is decided again.
    Again(Asked),
    /// It waits for an approval.
    Waiting,
    /// Its outcome is durable.
    Settled(Box<ToolResult>),
}
