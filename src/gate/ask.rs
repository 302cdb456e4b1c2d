//! Decides requests to language models, and makes each durable before it is sent.
//!
//! The entry rides in a commit that is made anyway: that of the `run.request`, or that which
//! settles the calls of the reply before. Only a request that follows no such commit, as one to
//! another model does, has a commit of its own.

use super::context::CallContext;
use super::mint::cleared::ModelPermit;
use super::point::Gate;
use super::rules::{Generation, Rules};
use super::stops::StopInForce;
use crate::ledger::payload::ModelAskPayload;
use crate::ledger::{AppendError, Draft, Receipt};
use crate::policy::{AskQuestion, MODEL_ASK, Ruling, Shadow};
use crate::types::clock::Wall;
use crate::types::{DataLabels, Decision, ModelSink, NamedRun, RefusalClass, limits};
use std::fmt;

/// A request to a model that a run is about to make.
#[derive(Clone, Debug)]
pub struct ModelAsk<'a> {
    /// The requester and the run.
    pub context: CallContext<'a>,
    /// The model.
    pub sink: ModelSink,
    /// The labels of the conversation that would be sent; those of the session are added.
    pub labels: DataLabels,
    /// The bytes that would be sent, without the results of calls that are recorded together with
    /// this request.
    pub bytes: usize,
    /// How long those results may be. If they are longer, the model is not asked.
    pub results_bytes_max: usize,
    /// The name of the model that did not answer, if this one is asked in its place.
    pub fallback_of: Option<&'a str>,
}

/// What happens to a request to a model once its decision is durable.
#[derive(Debug)]
pub enum AskOutcome {
    /// It may be sent, once.
    Permit(ModelPermit),
    /// It is not sent.
    Refused(AskRefusal),
}

/// Why a model is not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskRefusal {
    sink: ModelSink,
    reason: String,
    advice: Vec<String>,
    /// Whether no rule at all is for requests to models.
    is_unknown: bool,
    /// The stop that covers the run, if one does.
    stop: Option<Box<StopInForce>>,
}

impl AskRefusal {
    /// The stop that covers the run, if one does.
    #[must_use]
    pub fn stop(&self) -> Option<&StopInForce> {
        self.stop.as_deref()
    }
}

impl fmt::Display for AskRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sink, reason, advice, is_unknown, stop } = self;
        if let Some(stop) = stop {
            return write!(f, "{stop}");
        }
        write!(
            f,
            "the rules do not allow this run to be sent to `{}` at {}: {reason}",
            sink.id(),
            sink.host
        )?;
        if *is_unknown {
            write!(
                f,
                "; no rule of this home permits `{MODEL_ASK}`: `par init --upgrade` adds the one for the \
                 configured models"
            )?;
        }
        advice.iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

/// A decided request that is not durable yet.
#[derive(Debug)]
pub(super) struct AskDecided {
    pub(super) draft: Draft,
    sink: ModelSink,
    labels: DataLabels,
    refusal: Option<AskRefusal>,
    generation: Generation,
    of: NamedRun,
}

impl AskDecided {
    /// What follows once `receipt` proves the decision durable.
    pub(super) fn release(self, receipt: &Receipt) -> AskOutcome {
        let Self { sink, labels, refusal, generation, of, .. } = self;
        match refusal {
            Some(refusal) => AskOutcome::Refused(refusal),
            None => AskOutcome::Permit(ModelPermit::new(receipt, sink, labels, generation, of)),
        }
    }
}

impl Gate {
    /// Makes `before` durable, and with it the decision on `ask`, in one commit. Only then returns
    /// the receipts of `before` and what follows from the decision.
    pub async fn ask_model(
        &self,
        before: Vec<Draft>,
        ask: Option<ModelAsk<'_>>,
    ) -> Result<(Vec<Receipt>, Option<AskOutcome>), AppendError> {
        // Until the decision is durable no other rules come into force.
        let _standing = self.in_force.turn.read().await;
        let decided = ask.map(|ask| self.decide_ask(&ask, &DataLabels::default(), 0));
        let mut drafts = before;
        drafts.extend(decided.as_ref().map(|decided| decided.draft.clone()));
        let mut receipts = self.ledger().append(drafts).await?;
        let outcome = release_next(decided, &mut receipts)?;
        Ok((receipts, outcome))
    }

    /// Decides `ask`, after results that add `labels` and `bytes`. The caller keeps the rules from
    /// being exchanged until the decision is durable.
    pub(super) fn decide_ask(&self, ask: &ModelAsk<'_>, labels: &DataLabels, bytes: usize) -> AskDecided {
        let (Rules { bundle, .. }, generation) = (self.rules(), self.in_force.generation());
        let ModelAsk { context, sink, .. } = ask;
        let session = context.session.after(&ask.labels).after(labels);
        let input_tokens = tokens(ask.bytes.saturating_add(bytes));
        let of = context.named_run();
        let stop = self.in_force.stops.find(&of.with_tool(None));
        let evaluation = bundle.decide_ask(&AskQuestion {
            subject: context.principal.subject(),
            session: &session,
            is_halted: stop.is_some(),
            sink,
            input_tokens,
            fallback_of: ask.fallback_of,
            now_us: Wall::now().0,
            source_ip: context.source_ip,
            channel: context.channel,
        });
        let (decision, policies) = (evaluation.answer.decision(), evaluation.answer.policies().to_vec());
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        let (reason, errors, advice) = match evaluation.answer {
            Ruling::Allow { .. } => (None, Vec::new(), Vec::new()),
            Ruling::Deny { reason, errors, advice, .. } => (Some(reason), errors, advice),
            // No request asks a person; no person could answer in time.
            Ruling::NeedsApproval { .. } => {
                (Some("no person can be asked".to_owned()), Vec::new(), Vec::new())
            }
        };
        let is_allowed = decision == Decision::Allow;
        let class = if stop.is_some() { RefusalClass::Halt } else { RefusalClass::Policy };
        let refusal = reason.clone().map(|reason| AskRefusal {
            sink: sink.clone(),
            reason,
            advice: advice.clone(),
            is_unknown: !bundle.permits_models(),
            stop: stop.map(Box::new),
        });
        let payload = ModelAskPayload {
            name: sink.name.clone(),
            provider: sink.provider.clone(),
            model: sink.model.clone(),
            host: sink.host.clone(),
            reply_tokens_max: u64::from(sink.reply_tokens_max),
            input_tokens,
            fallback_of: ask.fallback_of.map(str::to_owned),
            request: evaluation.request,
            shadow: evaluation.shadow.as_ref().map(Shadow::record),
            reason,
            errors: some(errors),
            advice: some(advice),
        };
        let draft = Draft {
            run: Some(context.run.clone()),
            session: Some(context.session_id.clone()),
            principal: Some(context.principal.id()),
            policy: Some(bundle.digest()),
            decision: Some(decision.as_str()),
            policies,
            status: (!is_allowed).then_some(class.as_str()),
            labels: Some(session.labels()),
            ..Draft::new(payload)
        };
        AskDecided { draft, sink: sink.clone(), labels: session.labels(), refusal, generation, of }
    }
}

/// What follows from a request to a model, whose receipt is the last of its commit.
pub(super) fn release_next(
    next: Option<AskDecided>,
    receipts: &mut Vec<Receipt>,
) -> Result<Option<AskOutcome>, AppendError> {
    let Some(next) = next else { return Ok(None) };
    Ok(Some(next.release(&receipts.pop().ok_or(AppendError::Closed)?)))
}

/// An estimate of the tokens in `bytes` of text and JSON, rather too many.
fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(limits::BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}
