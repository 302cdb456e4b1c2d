//! Opens and decides calls. Nothing here is durable, and nothing runs.

use super::card;
use super::context::CallContext;
use super::decided::{Decided, Next};
use super::facts::{Facts, resource_of};
use super::mint::asked::Asked;
use super::pending::Pending;
use super::point::Gate;
use super::question::waiting;
use super::refusal::{Judgement, Obstacle, refusal};
use super::requested;
use super::resource::by_name;
use super::rules::Rules;
use super::stops::StopInForce;
use super::subtree::{self, Below};
use super::units::Members;
use crate::auth::Principal;
use crate::call::{Exclusion, Object, Prepared};
use crate::ledger::payload::{ApprovalRequestPayload, CallDecisionPayload, LoadedScript, NearestRule};
use crate::policy::{self, Approved, Counts, Evaluation, Question, Ruling, Session, Shadow};
use crate::provenance::ArgumentOrigins;
use crate::tools::{Invalid, Manifest, ProposedCall, Script, ValidCall};
use crate::types::clock::Wall;
use crate::types::{CallId, Decision, Digest, RefusalClass, limits, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A prepared call: its exclusions, and its approval request if it needs one.
struct PreparedCall {
    prepared: Prepared,
    exclusions: Vec<Exclusion>,
    question: Option<ApprovalRequestPayload>,
}

/// What a question about a call is made of, apart from its object and the approval.
struct QuestionFacts<'a> {
    context: &'a CallContext<'a>,
    pending: &'a Pending,
    now_us: u64,
    counts: Counts,
    origins: Option<ArgumentOrigins>,
    stop: Option<StopInForce>,
}

impl QuestionFacts<'_> {
    fn question<'a>(&'a self, approved: Approved<'a>, resource: &'a policy::Resource) -> Question<'a> {
        let Self { context, pending, now_us, counts, .. } = *self;
        Question {
            subject: context.principal.subject(),
            session: context.session,
            manifest: pending.manifest(),
            arguments: pending.valid.arguments(),
            resource,
            approved,
            now_us,
            source_ip: context.source_ip,
            channel: context.channel,
            counts,
            origins: self.origins.as_ref(),
            is_chosen: context.is_chosen(&pending.manifest().name),
            is_halted: self.stop.is_some(),
        }
    }

    /// The permit that was nearest to matching, if `answer` is a deny because no permit matches.
    fn nearest(&self, answer: &Ruling, resource: &policy::Resource) -> Option<NearestRule> {
        let Ruling::Deny { policies, errors, .. } = answer else { return None };
        let is_unpermitted = policies.is_empty() && errors.is_empty();
        let question = self.question(Approved::No, resource);
        let nearest = is_unpermitted.then(|| self.pending.rules.bundle.nearest(&question)).flatten()?;
        Some(NearestRule { policy: nearest.policy, origin: nearest.origin, why: nearest.why })
    }
}

impl Gate {
    /// The tools that `context` may use at all: those that the model is offered.
    pub fn offered(&self, principal: &Principal, session: &Session) -> (Digest, Vec<Arc<Manifest>>) {
        let Rules { catalog, bundle } = self.rules();
        (bundle.digest(), bundle.offered(principal.subject(), session, catalog.manifests()))
    }

    /// Checks a proposed call. A tool that is not offered gives the same error as an unknown one;
    /// [`Gate::refuse`] then says if the ceiling or what the run has read is the reason.
    pub fn validate(&self, context: &CallContext<'_>, proposed: ProposedCall) -> Result<ValidCall, Invalid> {
        let Rules { catalog, bundle } = self.rules();
        let may = |m: &Arc<Manifest>| bundle.may_offer(context.principal.subject(), context.session, m);
        catalog.validate(proposed, |tool| catalog.find(tool).is_some_and(may))
    }

    /// Opens a valid call, for the sandbox to prepare.
    pub fn open(&self, valid: ValidCall) -> Pending {
        self.pending(CallId::generate(), valid, None)
    }

    /// Opens a call that a person was asked about, to be prepared and decided again.
    pub fn reopen(&self, valid: ValidCall, asked: Asked) -> Pending {
        self.pending(asked.call().clone(), valid, Some(asked))
    }

    fn pending(&self, call: CallId, valid: ValidCall, again: Option<Asked>) -> Pending {
        let places = self.names.values().filter_map(|path| path.to_str()).map(str::to_owned);
        let rules = self.rules();
        let named = rules.bundle.named().iter().cloned().chain(places).collect();
        Pending { call, valid, named, again, rules }
    }

    fn question_facts<'a>(
        &self,
        context: &'a CallContext<'a>,
        pending: &'a Pending,
        now_us: u64,
        counts: Counts,
    ) -> QuestionFacts<'a> {
        let origins = context.origins(&pending.valid);
        let run = context.named_run();
        let stop = self.in_force.stops.find(&run.with_tool(Some(&pending.manifest().name)));
        QuestionFacts { context, pending, now_us, counts, origins, stop }
    }

    /// Decides a prepared call. Nothing is durable yet, and nothing runs.
    ///
    /// A call that a person has approved is first decided as if it had not been: the approval
    /// counts only if that decision asks for exactly what was approved, and the call is identical
    /// to the one that was shown.
    pub fn decide(&self, context: &CallContext<'_>, pending: Pending, prepared: Prepared) -> Decided {
        let mut object = self.recorded_object(&prepared.object);
        let resource = self.resource(&pending, &prepared.object, &object);
        let (members, unseen) = match self.members(&pending, &prepared.object) {
            Ok(members) => (members, None),
            Err(obstacle) => (Members::default(), Some(obstacle)),
        };
        let (tool, now_us) = (&pending.manifest().name, Wall::now().0);
        // Held until the call is counted, so that the next decision sees it.
        let mut turn = self.counters.turn();
        let counts = turn.counts(tool, now_us);
        let facts = self.question_facts(context, &pending, now_us, counts);
        let ask_about = |approved: Approved<'_>, resource: &policy::Resource| {
            pending.rules.bundle.decide(&facts.question(approved, resource))
        };
        let ask = |approved: Approved<'_>| match &resource {
            Ok(resource) => Judgement::from(ask_about(approved, resource)),
            Err(obstacle) => obstacle.clone().into(),
        };
        let look = |approved: Approved<'_>| members.decide(|resource| ask_about(approved, resource));
        let mut verdict = ask(Approved::No);
        let mut below = Below::default();
        match (&prepared.object, unseen) {
            // The caller does not learn that it is there.
            (Object::Unreadable(one), _) if verdict.is_deny() && resource.is_ok() => {
                let outside = policy::Resource::Outside { lexical: one.path() };
                verdict = ask_about(Approved::No, &outside).into();
                object = self.recorded_object(&Object::Outside);
            }
            _ if verdict.is_deny() => {}
            (Object::Unreadable(one), _) => verdict = Obstacle::by_host(one.reason()).into(),
            (_, Some(obstacle)) => verdict = obstacle.into(),
            (_, None) => below = look(Approved::No),
        }
        let mut question = None;
        if let Ruling::NeedsApproval { gates, .. } = verdict.answer() {
            // What the approved call would leave out: the person sees it, and it is hashed with the
            // call.
            let shown = look(subtree::approval_for(gates));
            let exact =
                Self::exact(context, &pending, &verdict.evaluation.request, &object, &shown.exclusions);
            let approval = pending.again.as_ref().zip(requested::call_hash(exact.clone()));
            let approval = approval.filter(|(asked, _)| self.shows_same(context, &pending, &exact, asked));
            let approval = approval.and_then(|(asked, hash)| asked.consent(hash, gates));
            let granted = approval.map(|approval| (ask(approval), look(approval)));
            let granted =
                granted.filter(|(verdict, below)| verdict.is_allow() && below.exclusions == shown.exclusions);
            match granted {
                Some(granted) => (verdict, below) = granted,
                None => match shown
                    .obstacle(&pending.manifest().runner)
                    .or_else(|| card::obstacle(&pending, &exact))
                {
                    Some(obstacle) => verdict = obstacle.into(),
                    None => question = self.question(context, &pending, exact, verdict.answer()),
                },
            }
        }
        if verdict.is_allow()
            && let Some(obstacle) = below.obstacle(&pending.manifest().runner)
        {
            verdict = obstacle.into();
        }
        let verdict = verdict.under(facts.stop.as_ref());
        let counted = verdict.is_allow().then(|| turn.count(tool, now_us));
        let mut payload = decision_payload(&pending, &verdict.evaluation);
        // This room defines the form. Only an object whose name contains a secret may not match it,
        // and that call is denied.
        payload.object = serde_json::from_value(object.into_inner()).ok();
        below.put(&mut payload);
        payload.nearest =
            resource.as_ref().ok().and_then(|resource| facts.nearest(verdict.answer(), resource));
        let ready = PreparedCall { prepared, exclusions: below.exclusions, question };
        let decided = self.decided(context, pending, payload, verdict, Some(ready));
        Decided { counted, ..decided }
    }

    /// Decides a call that could not be prepared: a deny of this `class` that names the obstacle.
    ///
    /// If the rules deny the call as it stands, they are the reason: a caller without a permit does
    /// not learn what is missing on this host, and is not sent to mend it.
    pub fn deny_unprepared(
        &self,
        context: &CallContext<'_>,
        pending: Pending,
        class: RefusalClass,
        why: &str,
    ) -> Decided {
        let now_us = Wall::now().0;
        let counts = self.counters.turn().counts(&pending.manifest().name, now_us);
        let facts = self.question_facts(context, &pending, now_us, counts);
        let resource = by_name(&pending).and_then(Result::ok).filter(|_| !pending.is_stale());
        let ruled = resource.as_ref().map(|resource| {
            let asked = facts.question(Approved::No, resource);
            Judgement::from(pending.rules.bundle.decide(&asked))
        });
        let verdict = ruled.filter(Judgement::is_deny).map(|verdict| verdict.under(facts.stop.as_ref()));
        let nearest = verdict.as_ref().zip(resource.as_ref());
        let nearest = nearest.and_then(|(verdict, resource)| facts.nearest(verdict.answer(), resource));
        let verdict = verdict.unwrap_or_else(|| Obstacle::new(class, why.to_owned()).into());
        let payload = CallDecisionPayload { nearest, ..decision_payload(&pending, &verdict.evaluation) };
        self.decided(context, pending, payload, verdict, None)
    }

    /// Decides an invalid call: unknown tool, malformed JSON, or arguments that the schema refuses.
    pub fn refuse(&self, context: &CallContext<'_>, invalid: Invalid) -> Decided {
        self.refuse_call(context, invalid, None)
    }

    /// Does what [`Gate::refuse`] does, for a call that was valid when a person was asked about it.
    pub fn refuse_again(&self, context: &CallContext<'_>, invalid: Invalid, asked: Asked) -> Decided {
        self.refuse_call(context, invalid, Some(asked))
    }

    fn refuse_call(&self, context: &CallContext<'_>, invalid: Invalid, again: Option<Asked>) -> Decided {
        let Invalid { proposed, reason } = invalid;
        let withheld = self.withheld(context, &proposed.tool);
        let nearest = withheld.as_ref().and_then(|(manifest, why)| self.nearest_of(context, manifest, *why));
        let (word, class, reason) = match &withheld {
            Some((_, why)) => (Decision::Deny, RefusalClass::Policy, why.told(&proposed.tool)),
            None => (Decision::Invalid, RefusalClass::Schema, reason),
        };
        let raw = text::prefix(&proposed.arguments, limits::ARGUMENTS_BYTES_MAX);
        let tool = text::visible_line(text::prefix(&proposed.tool, 64));
        let payload = CallDecisionPayload {
            arguments_raw: Some(raw.to_owned()),
            proposed_id: text::prefix(&proposed.id, 200).to_owned(),
            reason: Some(reason.clone()),
            nearest,
            ..CallDecisionPayload::default()
        };
        let facts = Facts {
            run: context.run.clone(),
            session: context.session_id.clone(),
            call: again.as_ref().map_or_else(CallId::generate, |asked| asked.call().clone()),
            principal: context.principal.id(),
            proposed_id: proposed.id,
            tool,
            arguments: json!(text::visible(text::prefix(raw, limits::RAW_ARGUMENTS_SHOWN_BYTES_MAX))),
            manifest: withheld.map(|(manifest, _)| manifest.digest),
            policy: self.rules().bundle.digest(),
            policies: Vec::new(),
            resource: None,
            labels: Some(context.session.labels()),
            trusted: None,
            structured: false,
        };
        let (class, reason) = (Some(class), refusal(&reason, &[]));
        Decided { facts, word, class, payload, reason, next: Next::Nothing, again, counted: None }
    }

    /// The manifest of a tool that is not offered because of the run's ceiling or of what the run
    /// has read, and that would be offered otherwise. One that no rule permits reads as unknown.
    fn withheld(&self, context: &CallContext<'_>, tool: &str) -> Option<(Arc<Manifest>, Withheld)> {
        let Rules { catalog, bundle } = self.rules();
        let manifest = catalog.find(tool)?;
        let may = |session: &Session| bundle.may_offer(context.principal.subject(), session, manifest);
        if may(context.session) {
            return None;
        }
        let is_in_ceiling = context.session.ceiling.contains(tool);
        let ceiling = BTreeSet::from([tool.to_owned()]);
        let otherwise = Session { ceiling, taint: BTreeSet::new(), ..context.session.clone() };
        let why = if is_in_ceiling { Withheld::Taint } else { Withheld::Ceiling };
        may(&otherwise).then(|| (manifest.clone(), why))
    }

    /// The rule because of which a tool is not offered, for people.
    fn nearest_of(
        &self,
        context: &CallContext<'_>,
        manifest: &Manifest,
        why: Withheld,
    ) -> Option<NearestRule> {
        // No rule made the ceiling.
        let Withheld::Taint = why else { return None };
        let found =
            self.rules().bundle.withheld_by(context.principal.subject(), context.session, manifest)?;
        Some(NearestRule { policy: found.policy, origin: found.origin, why: found.why })
    }

    fn decided(
        &self,
        context: &CallContext<'_>,
        pending: Pending,
        payload: CallDecisionPayload,
        verdict: Judgement,
        ready: Option<PreparedCall>,
    ) -> Decided {
        let class = verdict.class();
        let answer = verdict.evaluation.answer;
        let manifest = pending.manifest().clone();
        let facts = Facts {
            run: context.run.clone(),
            session: context.session_id.clone(),
            call: pending.call.clone(),
            principal: context.principal.id(),
            proposed_id: pending.valid.proposed_id().to_owned(),
            tool: manifest.name.clone(),
            arguments: pending.valid.arguments().clone(),
            manifest: Some(manifest.digest),
            policy: pending.rules.bundle.digest(),
            policies: answer.policies().to_vec(),
            resource: resource_of(&payload),
            labels: Some(context.session.labels()),
            trusted: manifest.output_schema.clone().filter(|_| !manifest.untrusted_output),
            structured: manifest.is_structured(),
        };
        let word = answer.decision();
        let (reason, next) = match (answer, ready) {
            (Ruling::Allow { .. }, Some(PreparedCall { prepared, exclusions, .. })) => {
                let hosts = pending.hosts();
                (Value::Null, Next::Run { valid: Box::new(pending.valid), prepared, exclusions, hosts })
            }
            // A permit needs the prepared child. Without one nothing can run.
            (Ruling::Allow { .. }, None) => (json!({ "error": "not prepared" }), Next::Nothing),
            (Ruling::Deny { reason, advice, .. }, _) => (refusal(&reason, &advice), Next::Nothing),
            (Ruling::NeedsApproval { gates, .. }, Some(PreparedCall { question: Some(question), .. })) => {
                (waiting(&gates, &question), Next::Ask { payload: Box::new(question) })
            }
            // A person cannot be asked about a call without a canonical form.
            (Ruling::NeedsApproval { .. }, _) => {
                (json!({ "error": "no person can be asked" }), Next::Nothing)
            }
        };
        Decided { facts, word, class, payload, reason, next, again: pending.again, counted: None }
    }
}

/// Why a tool that the caller may use is not offered in a run.
#[derive(Clone, Copy, Debug)]
enum Withheld {
    /// The run has read untrusted text.
    Taint,
    /// The request or the key names other tools.
    Ceiling,
}

impl Withheld {
    /// For the model and for people.
    fn told(self, tool: &str) -> String {
        match self {
            Self::Taint => format!(
                "`{tool}` is not offered after this run has read untrusted text; ask for it in a new run that \
                 reads nothing else first"
            ),
            Self::Ceiling => format!(
                "`{tool}` is not among the tools of this run, to which its request or its key limits it"
            ),
        }
    }
}

fn decision_payload(pending: &Pending, verdict: &Evaluation) -> CallDecisionPayload {
    let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let (reason, errors, advice) = match &verdict.answer {
        Ruling::Deny { reason, errors, advice, .. } => (Some(reason.clone()), some(errors), some(advice)),
        _ => (None, None, None),
    };
    let hosts: Vec<String> = pending.hosts().iter().map(|host| host.as_str().to_owned()).collect();
    CallDecisionPayload {
        arguments: Some(pending.valid.arguments().clone()),
        proposed_id: text::prefix(pending.valid.proposed_id(), 200).to_owned(),
        request: Some(verdict.request.clone()),
        // The script that would run. The manifest's digest in the header covers it too.
        script: pending.manifest().script().map(script_named),
        connect: some(&hosts),
        shadow: verdict.shadow.as_ref().map(Shadow::record),
        reason,
        errors,
        advice,
        ..CallDecisionPayload::default()
    }
}

fn script_named(script: &Script) -> LoadedScript {
    LoadedScript { name: script.name().to_owned(), sha256: script.digest() }
}
