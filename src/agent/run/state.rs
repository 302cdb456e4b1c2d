//! The state of one walk, from its first entry to its reply.

use super::turn::{Begun, Measured};
use crate::agent::answer::AnswerSchema;
use crate::agent::api::{Step, Usage};
use crate::agent::front::FrontAsker;
use crate::agent::news::{RecordedReply, RunNews, VoidReason};
use crate::agent::shared::Agent;
use crate::auth::Principal;
use crate::gate::{AskOutcome, CallContext};
use crate::ledger::Receipt;
use crate::llm::{Conversation, ModelReply, Provider, ToolOffer};
use crate::policy::{Door, Session};
use crate::provenance::SourceTexts;
use crate::tools::Manifest;
use crate::types::{Ceiling, Channel, Digest, NamedRun, RunId, SessionId, clock, limits};
use std::sync::Arc;

/// One active run.
pub(super) struct RunWalk<'a> {
    pub(super) agent: &'a Agent,
    pub(super) principal: &'a Principal,
    /// How the request reached PAR.
    pub(super) door: Door,
    pub(super) channel: Channel,
    /// The message that began it, without secrets.
    pub(super) message: String,
    /// The schema that the answer is held to.
    pub(super) schema: Option<AnswerSchema>,
    /// How often the model was asked for the answer again.
    pub(super) repairs: u64,
    /// The first model to ask.
    pub(super) provider: Arc<dyn Provider>,
    /// The model that was asked last.
    pub(super) asked: Arc<dyn Provider>,
    /// The names of the models that answered, by round; those without a name are left out.
    pub(super) answered_by: Vec<String>,
    pub(super) run: RunId,
    pub(super) session_id: SessionId,
    pub(super) session: Session,
    pub(super) ceiling: Ceiling,
    /// What the model has been given, to look up where arguments come from.
    pub(super) sources: SourceTexts,
    /// The tools last offered to the model.
    pub(super) offers: Vec<ToolOffer>,
    /// The bundle under which they were offered.
    pub(super) offers_policy: Digest,
    /// The names that the newest entry with names has.
    pub(super) tools_recorded: Vec<String>,
    /// Their length as JSON.
    pub(super) offers_bytes: usize,
    /// The text that accompanied the calls of the model's last reply.
    pub(super) said: Option<String>,
    /// The model's last reply, until it is on the ledger.
    pub(super) unrecorded: Option<RecordedReply>,
    pub(super) conversation: Conversation,
    /// What was decided about the next request to the model, if a commit took it along.
    pub(super) cleared: Option<AskOutcome>,
    pub(super) steps: Vec<Step>,
    pub(super) usage: Usage,
    /// How large the last request was.
    pub(super) measured: Option<Measured>,
    /// Number of the model's replies so far.
    pub(super) rounds: u32,
    /// The deadline of the run, on the monotonic clock, in microseconds.
    pub(super) end_us: u64,
    /// The number of the `run.request`.
    pub(super) first: u64,
}

impl<'a> RunWalk<'a> {
    pub(super) fn new(
        agent: &'a Agent,
        principal: &'a Principal,
        provider: Arc<dyn Provider>,
        begun: Begun,
        conversation: Conversation,
    ) -> Self {
        let Begun { run, session_id, session, ceiling, door, channel, message, schema, sources } = begun;
        let (offers_policy, offers) = offers(agent, principal, &session);
        RunWalk {
            agent,
            principal,
            door,
            channel,
            message,
            schema,
            repairs: 0,
            asked: provider.clone(),
            answered_by: Vec::new(),
            provider,
            run,
            session_id,
            offers_bytes: length(&offers),
            offers,
            offers_policy,
            tools_recorded: Vec::new(),
            said: None,
            unrecorded: None,
            session,
            ceiling,
            sources,
            conversation,
            cleared: None,
            steps: Vec::new(),
            usage: Usage::default(),
            measured: None,
            rounds: 0,
            end_us: clock::mono_us() + limits::RUN_MS_MAX * 1_000,
            first: 0,
        }
    }

    /// What is reported of `reply` once it is recorded.
    pub(super) fn said(&self, reply: &ModelReply) -> RecordedReply {
        RecordedReply {
            seq: 0,
            text: reply.text.clone(),
            calls: reply.calls.len() as u64,
            unfit: None,
            model: self.asked.named().map(str::to_owned),
        }
    }

    /// Reports the model's last reply, which `receipt` proves durable; without one, the reply could
    /// not be recorded.
    pub(super) fn report_reply(&mut self, receipt: Option<&Receipt>) {
        let Some(said) = self.unrecorded.take() else { return };
        self.agent.report(|| match receipt {
            Some(receipt) => RunNews::Said(Box::new(RecordedReply { seq: receipt.seq(), ..said })),
            None => RunNews::Void(VoidReason::Unusable),
        });
    }

    /// The same, for a call that runs in the front.
    pub(super) fn asker(&self) -> FrontAsker {
        FrontAsker {
            agent: self.agent.clone(),
            principal: self.principal.clone(),
            door: self.door,
            run: self.run.clone(),
            session_id: self.session_id.clone(),
            session: self.session.clone(),
            channel: self.channel,
        }
    }

    /// The run by its names.
    pub(super) fn named(&self) -> NamedRun {
        let (session, run) = (self.session_id.clone(), self.run.clone());
        NamedRun { caller: self.principal.id(), session, run }
    }

    pub(super) fn asking(&self) -> CallContext<'_> {
        CallContext {
            principal: self.principal,
            run: &self.run,
            session_id: &self.session_id,
            session: &self.session,
            source_ip: self.door.source_ip,
            channel: self.channel,
            message: &self.message,
            sources: Some(&self.sources),
            ceiling: &self.ceiling,
            said: self.said.as_deref(),
        }
    }
}

/// What each wire writes around the parts of a tool, in bytes: at most about this.
const FRAME_BYTES: usize = 80;

/// About the length of the tools as JSON, in bytes.
pub(in crate::agent) fn length(offers: &[ToolOffer]) -> usize {
    let parts = |offer: &ToolOffer| offer.name.len() + offer.summary.len() + offer.input.to_string().len();
    let one = |offer: &ToolOffer| FRAME_BYTES + parts(offer);
    offers.iter().map(one).sum()
}

/// The tools in the form that a model receives.
pub(super) fn offers(agent: &Agent, principal: &Principal, session: &Session) -> (Digest, Vec<ToolOffer>) {
    let (policy, manifests) = agent.gate().offered(principal, session);
    (policy, manifests.iter().map(|manifest| offer(manifest)).collect())
}

/// A tool in the form that a model receives.
pub(in crate::agent) fn offer(manifest: &Manifest) -> ToolOffer {
    ToolOffer {
        name: manifest.name.clone(),
        summary: manifest.summary.clone(),
        input: manifest.input_shown(),
    }
}
