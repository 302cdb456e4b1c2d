//! Opening, deciding, committing and settling calls.

use super::answer::Asked;
use super::asked;
use super::beneath::{self, Below};
use super::counters::{self, Counted, Counters};
use super::order::{Pending, Permit, Running};
use super::outcome;
use super::record::{CallRecord, Facts, Outcome, ToolResult, Waiting};
use super::rules::{InForce, Rules, STALE};
use crate::auth::Principal;
use crate::call::{Exclusion, Execution, Prepared};
use crate::ledger::{AppendError, Draft, Kind, Ledger, ReadError, Receipt, Ref};
use crate::policy::{self, Answer, Approved, Question, Session, TaintSource, Verdict};
use crate::secrets::Secrets;
use crate::tools::{Invalid, Manifest, ProposedCall, Script, ValidCall};
use crate::types::clock::{self, Wall};
use crate::types::{ApprovalId, CallId, Digest, HostPort, RunId, SessionId, limits, text};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};

/// The enforcement point over the rules in force and the ledger. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    ledger: Ledger,
    pub(super) in_force: InForce,
    counters: Counters,
    /// `[paths]`: name without `@` → real folder.
    pub(super) names: Arc<BTreeMap<String, PathBuf>>,
    /// How long a question to a person stands, in microseconds.
    approval_us: u64,
    /// Held from the look at a question until its answer, or the decision that spends it, is durable.
    pub(super) answers: Arc<Mutex<()>>,
    stirred: Arc<Notify>,
    secrets: Secrets,
}

/// In whose name, and in which run, calls are made.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// The run.
    pub run: &'a RunId,
    /// The session's identifier.
    pub session_id: &'a SessionId,
    /// The session's state, as policies see it.
    pub session: &'a Session,
    /// Where the request came from, if over the network.
    pub source_ip: Option<IpAddr>,
    /// What the model said beside the call.
    pub said: Option<&'a str>,
}

/// A decision that is not durable yet. It runs nothing and tells nothing.
#[derive(Debug)]
#[must_use = "a decision counts once it is committed"]
pub struct Decided {
    facts: Facts,
    pub(super) word: &'static str,
    pub(super) payload: Map<String, Value>,
    reason: Value,
    next: Next,
    again: Option<Asked>,
    /// Given back where the call does not come to run.
    counted: Option<Counted>,
}

#[derive(Debug)]
enum Next {
    Run { valid: Box<ValidCall>, prepared: Prepared, exclusions: Vec<Exclusion>, hosts: Vec<HostPort> },
    Ask { payload: Map<String, Value> },
    Nothing,
}

/// A prepared call: what it would leave out, and what a person would be asked.
struct Ready {
    prepared: Prepared,
    exclusions: Vec<Exclusion>,
    question: Option<Map<String, Value>>,
}

impl Gate {
    /// A gate over `rules`; `names` are those of `[paths]`; `secrets` are replaced in all that it records and tells. Blocking: it counts what there was in the
    /// last hour.
    pub fn new(
        ledger: Ledger,
        rules: Rules,
        names: BTreeMap<String, PathBuf>,
        secrets: Secrets,
    ) -> Result<Self, ReadError> {
        let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
        let names = names.into_iter().map(|(name, path)| (name, real(path))).collect();
        Ok(Self {
            counters: Counters::of(ledger.reader(), Wall::now().0, |header| ledger.count_earlier(header))?,
            ledger,
            in_force: InForce::new(rules),
            names: Arc::new(names),
            approval_us: limits::APPROVAL_MS_MAX * 1_000,
            answers: Arc::default(),
            stirred: Arc::default(),
            secrets,
        })
    }

    /// The same gate, whose questions to people stand for `ms`, at most [`limits::APPROVAL_MS_MAX`].
    #[must_use]
    pub fn with_approval_ms(self, ms: u64) -> Self {
        Self { approval_us: ms.min(limits::APPROVAL_MS_MAX) * 1_000, ..self }
    }

    /// Is ready once a question was asked or answered since it was last ready. For one waiter.
    pub async fn stirred(&self) {
        self.stirred.notified().await;
    }

    pub(super) fn stir(&self) {
        self.stirred.notify_one();
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is replaced in what comes from outside.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The rules in force. They may be exchanged at any time: what belongs together is taken from one.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.in_force.now()
    }

    /// The tools that `asking` may use at all: what the model is shown.
    pub fn offered(&self, principal: &Principal, session: &Session) -> Vec<Arc<Manifest>> {
        let Rules { catalog, bundle } = self.rules();
        bundle.offered(principal.subject(), session, catalog.manifests())
    }

    /// Checks a proposed call; a tool that is not offered reads like one that is not there.
    pub fn validate(&self, asking: &Asking<'_>, proposed: ProposedCall) -> Result<ValidCall, Invalid> {
        let Rules { catalog, bundle } = self.rules();
        let may = |m: &Arc<Manifest>| bundle.may_offer(asking.principal.subject(), asking.session, m);
        catalog.validate(proposed, |tool| catalog.find(tool).is_some_and(may))
    }

    /// Opens a valid call for the sandbox to prepare.
    pub fn open(&self, valid: ValidCall) -> Pending {
        self.pending(CallId::generate(), valid, None)
    }

    /// Opens a call again that a person was asked about, to be prepared and decided anew.
    pub fn reopen(&self, valid: ValidCall, asked: Asked) -> Pending {
        self.pending(asked.call().clone(), valid, Some(asked))
    }

    fn pending(&self, call: CallId, valid: ValidCall, again: Option<Asked>) -> Pending {
        let places = self.names.values().filter_map(|path| path.to_str()).map(str::to_owned);
        let rules = self.rules();
        let named = rules.bundle.named().iter().cloned().chain(places).collect();
        Pending { call, valid, named, again, rules }
    }

    /// Decides a prepared call. Nothing is durable yet, and nothing runs.
    ///
    /// A call that a person said yes to is first decided as if nobody had: only where that asks for
    /// exactly what was answered, and the call is to the letter the one that was shown, the yes counts.
    pub fn decide(&self, asking: &Asking<'_>, pending: Pending, prepared: Prepared) -> Decided {
        let mut paths = beneath::Paths::default();
        let object = self.told(&prepared.object);
        let resource =
            if pending.is_stale() { Err(STALE) } else { self.resource(&pending, &prepared.object, &object) };
        let resource = resource.and_then(|resource| {
            paths = self.beneath(&pending, &prepared.object)?;
            Ok(resource)
        });
        let (tool, now_us) = (&pending.manifest().name, Wall::now().0);
        // Held until the call is counted: the next decision sees it.
        let mut turn = self.counters.turn();
        let counts = turn.counts(tool, now_us);
        let ask_about = |approved: Approved<'_>, resource: &policy::Resource| {
            pending.rules.bundle.decide(&Question {
                subject: asking.principal.subject(),
                session: asking.session,
                manifest: pending.manifest(),
                arguments: pending.valid.arguments(),
                resource,
                approved,
                now_us,
                source_ip: asking.source_ip,
                counts,
            })
        };
        let ask = |approved: Approved<'_>| match &resource {
            Ok(resource) => ask_about(approved, resource),
            Err(why) => deny(why),
        };
        let look = |approved: Approved<'_>| paths.decide(|resource| ask_about(approved, resource));
        let mut verdict = ask(Approved::No);
        let mut below = Below::default();
        if !matches!(verdict.answer, Answer::Deny { .. }) {
            below = look(Approved::No);
        }
        let mut question = None;
        if let Answer::NeedsApproval { gates, .. } = &verdict.answer {
            // What a yes would leave out: the person sees it, and it is hashed with the call.
            let shown = look(beneath::yes_to(gates));
            let exact = Self::exact(asking, &pending, &verdict.request, &object, &shown.exclusions);
            let yes = pending.again.as_ref().zip(asked::call_hash(exact.clone()));
            let yes = yes.and_then(|(asked, hash)| asked.consent(hash, gates));
            let granted = yes.map(|yes| (ask(yes), look(yes)));
            let granted = granted.filter(|(verdict, below)| {
                matches!(verdict.answer, Answer::Allow { .. }) && below.exclusions == shown.exclusions
            });
            match granted {
                Some(granted) => (verdict, below) = granted,
                None => match shown.obstacle(&pending.manifest().runner) {
                    Some(why) => verdict = deny(why),
                    None => question = Some(self.question(asking, &pending, exact, &verdict.answer)),
                },
            }
        }
        if matches!(verdict.answer, Answer::Allow { .. })
            && let Some(why) = below.obstacle(&pending.manifest().runner)
        {
            verdict = deny(why);
        }
        let is_allowed = matches!(verdict.answer, Answer::Allow { .. });
        let counted = is_allowed.then(|| turn.count(tool, now_us));
        let mut payload = decision_payload(&pending, &verdict);
        payload.insert("object".to_owned(), object.into_inner());
        below.put(&mut payload);
        let ready = Ready { prepared, exclusions: below.exclusions, question };
        let decided = self.decided(asking, pending, payload, verdict.answer, Some(ready));
        Decided { counted, ..decided }
    }

    /// The exact call that a person is asked about, with all that decides it: what is hashed.
    fn exact(
        asking: &Asking<'_>,
        pending: &Pending,
        request: &Value,
        object: &Value,
        exclusions: &[Exclusion],
    ) -> Value {
        let named = |name: &str| request.pointer(&format!("/resource/{name}")).cloned().unwrap_or_default();
        let mut resource = json!({ "type": named("type"), "id": named("id"), "object": object });
        if let Some(members) = resource.as_object_mut().filter(|_| !exclusions.is_empty()) {
            members.insert("exclusions".to_owned(), beneath::exclusions_json(exclusions));
        }
        json!({
            "tool": pending.manifest().name,
            "arguments": pending.valid.arguments(),
            "resource": resource,
            "manifest": pending.manifest().digest.hex(),
            "policy": pending.rules.bundle.digest().hex(),
            "run": asking.run.as_str(),
            "session": asking.session_id.as_str(),
            "call": pending.call.as_str(),
        })
    }

    /// The payload of an `approval.request`; empty where the call has no canonical form.
    fn question(
        &self,
        asking: &Asking<'_>,
        pending: &Pending,
        exact: Value,
        answer: &Answer,
    ) -> Map<String, Value> {
        let Answer::NeedsApproval { policies, gates } = answer else { return Map::new() };
        let Some(hash) = asked::call_hash(exact.clone()) else { return Map::new() };
        let bundle = &pending.rules.bundle;
        let why = policies.iter().map(|policy| {
            let (origin, advice) = (bundle.origin(policy), bundle.advice(policy));
            json!({ "policy": policy, "origin": origin, "advice": advice })
        });
        let of_call = ["tool", "arguments", "resource"];
        let exact = |name: &&str| Some(((*name).to_owned(), exact.get(*name)?.clone()));
        let mut payload: Map<String, Value> = of_call.iter().filter_map(exact).collect();
        payload.insert("id".to_owned(), json!(ApprovalId::generate().as_str()));
        payload.insert("call_hash".to_owned(), json!(hash.hex()));
        payload.insert("why".to_owned(), why.collect());
        asked::put_gates(&mut payload, gates);
        let principal = asking.principal;
        let requester = json!({ "principal": principal.id(), "user": principal.user() });
        payload.insert("requester".to_owned(), requester);
        if let Some(asked) = &pending.again {
            payload.insert("replaces".to_owned(), json!(asked.requested.id.as_str()));
        }
        if let Some(said) = asking.said.filter(|said| !said.trim().is_empty()) {
            let said = text::visible(text::prefix(said, limits::APPROVAL_SAID_BYTES_MAX));
            payload.insert("said".to_owned(), json!(said));
        }
        let seen = &asking.session.tainted_by;
        if !seen.is_empty() {
            let newest = seen.iter().skip(seen.len().saturating_sub(limits::APPROVAL_TAINTED_BY_MAX));
            let source = |one: &TaintSource| json!({ "tool": one.tool, "resource": one.resource, "result": one.result });
            payload.insert("tainted_by".to_owned(), newest.map(source).collect());
        }
        payload.insert("expires_us".to_owned(), json!(Wall::now().0.saturating_add(self.approval_us)));
        payload
    }

    /// Decides a call that could not be prepared: a deny that names what stood in the way.
    pub fn deny_unprepared(&self, asking: &Asking<'_>, pending: Pending, why: &str) -> Decided {
        let verdict = deny(why);
        let payload = decision_payload(&pending, &verdict);
        self.decided(asking, pending, payload, verdict.answer, None)
    }

    /// Decides what is no call: unknown tool, no JSON, or arguments that the schema refuses.
    pub fn refuse(&self, asking: &Asking<'_>, invalid: Invalid) -> Decided {
        self.refuse_call(asking, invalid, None)
    }

    /// As [`Gate::refuse`], for a call that was valid when a person was asked about it.
    pub fn refuse_again(&self, asking: &Asking<'_>, invalid: Invalid, asked: Asked) -> Decided {
        self.refuse_call(asking, invalid, Some(asked))
    }

    fn refuse_call(&self, asking: &Asking<'_>, invalid: Invalid, again: Option<Asked>) -> Decided {
        let Invalid { proposed, reason } = invalid;
        let raw = text::prefix(&proposed.arguments, limits::ARGUMENTS_BYTES_MAX);
        let tool = text::visible_line(text::prefix(&proposed.tool, 64));
        let payload = Map::from_iter([
            ("arguments_raw".to_owned(), json!(raw)),
            ("proposed_id".to_owned(), json!(text::prefix(&proposed.id, 200))),
            ("reason".to_owned(), json!(reason)),
        ]);
        let facts = Facts {
            run: asking.run.clone(),
            session: asking.session_id.clone(),
            call: again.as_ref().map_or_else(CallId::generate, |asked| asked.call().clone()),
            principal: asking.principal.id(),
            proposed_id: proposed.id,
            tool,
            arguments: json!(text::visible(text::prefix(raw, limits::RAW_ARGUMENTS_SHOWN_BYTES_MAX))),
            manifest: None,
            policy: self.rules().bundle.digest(),
            policies: Vec::new(),
            resource: None,
            is_trusted: false,
            structured: false,
        };
        let reason = json!({ "error": reason });
        Decided { facts, word: "invalid", payload, reason, next: Next::Nothing, again, counted: None }
    }

    /// Makes decisions durable, behind the entries in `before`, in one commit; only then hands out
    /// permits, waits and refusals, in order.
    pub async fn commit(
        &self,
        before: Vec<Draft>,
        decided: Vec<Decided>,
    ) -> Result<Vec<Outcome>, AppendError> {
        let asked_again: Vec<&Asked> = decided.iter().filter_map(|one| one.again.as_ref()).collect();
        let _turn = if asked_again.is_empty() { None } else { Some(self.answers.lock().await) };
        for asked in asked_again {
            self.check_unspent(asked)?;
        }
        // Until the decisions are durable no other rules come into force.
        let _standing = self.in_force.turn.read().await;
        let rules = self.rules().bundle.digest();
        let decided: Vec<Decided> = decided.into_iter().map(|one| one.under(rules)).collect();
        let mut drafts = before;
        let mut places = Vec::with_capacity(decided.len());
        for one in &decided {
            let at = drafts.len();
            drafts.push(one.draft());
            let asked = if let Next::Ask { payload } = &one.next {
                drafts.push(one.approval_draft(at, payload.clone()));
                Some(at + 1)
            } else {
                None
            };
            places.push((at, asked));
        }
        let receipts = self.ledger.append(drafts).await?;
        // From here on every decision is durable: what now runs can be found again after a crash, and a
        // yes that was used is used up.
        if places.iter().any(|(_, asked)| asked.is_some()) {
            self.stir();
        }
        let mut receipts: Vec<Option<Receipt>> = receipts.into_iter().map(Some).collect();
        let mut take = |at: usize| receipts.get_mut(at).and_then(Option::take).ok_or(AppendError::Closed);
        decided
            .into_iter()
            .zip(places)
            .map(|(one, (at, asked))| {
                let receipt = take(at)?;
                let asked = asked.map(&mut take).transpose()?;
                Ok(self.release(one, receipt, asked))
            })
            .collect()
    }

    /// Records outcomes in one commit, and only then hands out what may be told of them, in order. On a full disk
    /// they wait for space.
    pub async fn settle(&self, ran: Vec<(Running, Execution)>) -> Result<Vec<ToolResult>, AppendError> {
        let clean = |(running, execution): (Running, Execution)| {
            let execution = running.clean(execution);
            (running, execution)
        };
        let ran: Vec<_> = ran.into_iter().map(clean).collect();
        let drafts: Vec<Draft> = ran
            .iter()
            .map(|(running, execution)| outcome::result_draft(running.facts(), running.decision(), execution))
            .collect();
        let receipts = self.ledger.append_owed(drafts.clone()).await?;
        // From here on every result is durable, and the model may be told.
        for draft in drafts.iter().filter(|draft| counters::is_failure(draft.status)) {
            self.counters.failed(draft.tool.as_deref().unwrap_or_default(), Wall::now().0);
        }
        let settled = ran.into_iter().zip(drafts).zip(receipts);
        Ok(settled
            .filter_map(|(((running, _), draft), receipt)| {
                let decision = running.decision();
                let facts = running.into_facts()?;
                Some(ToolResult {
                    record: outcome::record(facts, decision, receipt.seq(), &draft),
                    seq: receipt.seq(),
                })
            })
            .collect())
    }

    fn release(&self, decided: Decided, receipt: Receipt, asked: Option<Receipt>) -> Outcome {
        let Decided { facts, word, reason, next, counted, .. } = decided;
        if let Next::Run { valid, prepared, exclusions, hosts } = next {
            if let Some(counted) = counted {
                counted.keep();
            }
            let not_after_us = clock::mono_us() + limits::PERMIT_MS_MAX * 1_000;
            return Outcome::Permit(Box::new(Permit {
                running: Running::of(&receipt, facts, self),
                manifest: valid.manifest().clone(),
                canonical: valid.canonical().to_owned(),
                object: prepared.object,
                exclusions,
                hosts,
                held: prepared.held,
                not_after_us,
            }));
        }
        let record = CallRecord {
            call: facts.call,
            proposed_id: facts.proposed_id,
            tool: facts.tool,
            resource: facts.resource,
            arguments: facts.arguments,
            decision: word,
            policies: facts.policies,
            status: if asked.is_some() { "waiting" } else { "refused" },
            result: reason,
            truncated: false,
            taints: false,
            decision_seq: receipt.seq(),
            result_seq: None,
        };
        match asked {
            Some(asked) => Outcome::Wait(Waiting { record, seq: asked.seq() }),
            None => Outcome::Refused(ToolResult { record, seq: receipt.seq() }),
        }
    }

    fn decided(
        &self,
        asking: &Asking<'_>,
        pending: Pending,
        payload: Map<String, Value>,
        answer: Answer,
        ready: Option<Ready>,
    ) -> Decided {
        let manifest = pending.manifest().clone();
        let facts = Facts {
            run: asking.run.clone(),
            session: asking.session_id.clone(),
            call: pending.call.clone(),
            principal: asking.principal.id(),
            proposed_id: pending.valid.proposed_id().to_owned(),
            tool: manifest.name.clone(),
            arguments: pending.valid.arguments().clone(),
            manifest: Some(manifest.digest),
            policy: pending.rules.bundle.digest(),
            policies: answer.policies().to_vec(),
            resource: resource_of(&payload),
            is_trusted: !manifest.untrusted_output,
            structured: manifest.is_structured(),
        };
        let word = answer.word();
        let (reason, next) = match (answer, ready) {
            (Answer::Allow { .. }, Some(Ready { prepared, exclusions, .. })) => {
                let hosts = pending.hosts();
                (Value::Null, Next::Run { valid: Box::new(pending.valid), prepared, exclusions, hosts })
            }
            // A permit needs the prepared child. Without one there is nothing that could run.
            (Answer::Allow { .. }, None) => (json!({ "error": "not prepared" }), Next::Nothing),
            (Answer::Deny { reason, advice, .. }, _) => (refusal(&reason, &advice), Next::Nothing),
            (Answer::NeedsApproval { gates, .. }, Some(Ready { question: Some(question), .. }))
                if !question.is_empty() =>
            {
                (waiting(&gates, &question), Next::Ask { payload: question })
            }
            // Nobody can be asked about what has no exact form.
            (Answer::NeedsApproval { .. }, _) => (json!({ "error": "nobody can be asked" }), Next::Nothing),
        };
        Decided { facts, word, payload, reason, next, again: pending.again, counted: None }
    }
}

impl Decided {
    /// The same where `rules` made it; a deny under `rules` where others did. That ends its child.
    fn under(mut self, rules: Digest) -> Self {
        if self.facts.policy == rules {
            return self;
        }
        self.payload.retain(|name, _| ["arguments", "arguments_raw", "proposed_id"].contains(&name.as_str()));
        self.payload.insert("request".to_owned(), json!({}));
        self.payload.insert("reason".to_owned(), json!(STALE));
        self.payload.insert("errors".to_owned(), json!([STALE]));
        let facts = Facts { policy: rules, policies: Vec::new(), ..self.facts };
        let reason = refusal(STALE, &[]);
        Self { facts, word: "deny", reason, next: Next::Nothing, counted: None, ..self }
    }

    fn draft(&self) -> Draft {
        Draft {
            run: Some(self.facts.run.clone()),
            session: Some(self.facts.session.clone()),
            call: Some(self.facts.call.clone()),
            principal: Some(self.facts.principal.clone()),
            policy: Some(self.facts.policy),
            manifest: self.facts.manifest,
            // Of a call that a person was asked about: the answer that it spends or voids.
            answers: self.again.as_ref().map(|asked| Ref::Seq(asked.answered())),
            decision: Some(self.word),
            policies: self.facts.policies.clone(),
            tool: Some(self.facts.tool.clone()),
            ..Draft::new(Kind::CallDecision, Value::Object(self.payload.clone()))
        }
    }

    fn approval_draft(&self, decision: usize, payload: Map<String, Value>) -> Draft {
        Draft {
            kind: Kind::ApprovalRequest,
            answers: Some(Ref::Sibling(decision)),
            decision: None,
            policies: Vec::new(),
            payload,
            ..self.draft()
        }
    }
}

fn deny(why: &str) -> Verdict {
    Verdict {
        answer: Answer::Deny {
            policies: Vec::new(),
            reason: why.to_owned(),
            advice: Vec::new(),
            errors: vec![why.to_owned()],
        },
        request: json!({}),
        shadow: None,
    }
}

fn decision_payload(pending: &Pending, verdict: &Verdict) -> Map<String, Value> {
    let mut payload = Map::from_iter([
        ("arguments".to_owned(), pending.valid.arguments().clone()),
        ("proposed_id".to_owned(), json!(text::prefix(pending.valid.proposed_id(), 200))),
        ("request".to_owned(), verdict.request.clone()),
    ]);
    // What would run, beside the manifest's digest in the header, which covers it.
    if let Some(script) = pending.manifest().script() {
        payload.insert("script".to_owned(), script_json(script));
    }
    let hosts = pending.hosts();
    if !hosts.is_empty() {
        payload.insert("connect".to_owned(), hosts.iter().map(HostPort::as_str).collect());
    }
    if let Some(shadow) = &verdict.shadow {
        payload.insert("shadow".to_owned(), shadow.json());
    }
    if let Answer::Deny { reason, errors, advice, .. } = &verdict.answer {
        payload.insert("reason".to_owned(), json!(reason));
        if !errors.is_empty() {
            payload.insert("errors".to_owned(), json!(errors));
        }
        if !advice.is_empty() {
            payload.insert("advice".to_owned(), json!(advice));
        }
    }
    payload
}

/// The id of the resource in a decision's payload.
pub(super) fn resource_of(payload: &Map<String, Value>) -> Option<String> {
    payload.get("request")?.pointer("/resource/id")?.as_str().map(str::to_owned)
}

fn script_json(script: &Script) -> Value {
    json!({ "name": script.name(), "sha256": script.digest().hex() })
}

fn refusal(reason: &str, advice: &[String]) -> Value {
    let mut told = Map::from_iter([("error".to_owned(), json!(reason))]);
    if !advice.is_empty() {
        told.insert("advice".to_owned(), json!(advice));
    }
    Value::Object(told)
}

/// What is told of a call that waits: for whom, and under which name it is answered.
fn waiting(gates: &[policy::Gate], question: &Map<String, Value>) -> Value {
    let group = |gate: &policy::Gate| match gate {
        policy::Gate::Approval { group } => group.clone(),
        policy::Gate::Confirm => "confirm".to_owned(),
    };
    let expires = question.get("expires_us").and_then(Value::as_u64).map(|at| Wall(at).rfc3339());
    json!({
        "waiting_for": gates.iter().map(group).collect::<Vec<_>>(),
        "approval": question.get("id"),
        "expires": expires,
    })
}
