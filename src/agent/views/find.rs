//! One run, for a reader: its reply, or its entries if it has none.

use crate::agent::api::{AnswerBy, HeldResponse, LedgerRange, RunReply, RunStatus, Step, StepLedger, Usage};
use crate::gate;
use crate::ledger::payload::{
    CallDecisionPayload, CallResultPayload, CutPayload, ModelAskPayload, ModelReplyPayload, RunReplyPayload,
    RunRequestPayload,
};
use crate::ledger::{Filter, Header, Kind, Ledger, Order, ReadError, Stored};
use crate::types::{
    CallId, Ceiling, DataLabels, Decision, ModelSink, RefusalClass, RunId, SessionId, StepStatus, limits,
};
use rusqlite::OptionalExtension as _;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns a run whose owner `sees` accepts. A run that has not ended is built from its entries.
/// `size`, `root` and `checkpoint` are always those of the current ledger.
pub fn find(
    ledger: &Ledger,
    run: &RunId,
    sees: impl Fn(&str) -> bool,
) -> Result<Option<RunReply>, ReadError> {
    let row = ledger.state(|state| {
        state
            .prepare_cached("SELECT owner, first_seq, reply_seq, status FROM run WHERE id = ?1")?
            .query_row([run.as_str()], |row| {
                let (first, reply) = (row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?);
                Ok((row.get::<_, String>(0)?, first, reply, row.get::<_, String>(3)?))
            })
            .optional()
    })?;
    let Some((owned_by, first, reply, status)) = row else { return Ok(None) };
    if !sees(&owned_by) {
        return Ok(None);
    }
    let number = |seq: i64| u64::try_from(seq).unwrap_or(0);
    let first = number(first);
    let mut entries = RunEntries { ledger, run, first, damaged: BTreeSet::new() };
    let mut found = match reply.map(number) {
        Some(seq) => match ended(&mut entries, seq) {
            Err(ReadError::Damaged(..)) => without_reply(&mut entries, seq, &status)?,
            ended => ended?,
        },
        None => from_entries(&mut entries)?,
    };
    if found.status == RunStatus::Waiting && !waits_for_a_person(ledger, run)? {
        found = RunReply { answer: None, ..from_entries(&mut entries)? };
    }
    let (head, checkpoint) = (ledger.head(), ledger.checkpoint().map(|note| note.to_string()));
    let last = reply.map_or(head.size.saturating_sub(1), number);
    let damaged = entries.damaged(last)?;
    let (size, root) = (head.size, head.root.hex());
    found.ledger = Some(LedgerRange { first, last, size, root, checkpoint, damaged });
    Ok(Some(found))
}

/// Entries among which damaged ones are looked for, once damage is known: few runs have as many.
const LOOKED_AT_MAX: usize = 4_096;

/// The entries of a run as they are read. Damage to one does not hide the others.
struct RunEntries<'a> {
    ledger: &'a Ledger,
    run: &'a RunId,
    first: u64,
    damaged: BTreeSet<u64>,
}

impl RunEntries<'_> {
    /// The headers of the run, from its request on; those that do not verify are left out.
    fn headers(&mut self) -> Result<Vec<Header>, ReadError> {
        let (filter, (entries_max, scan_max)) = (Filter::field("run", self.run.as_str()), bounds());
        let reader = self.ledger.reader();
        let (headers, _) = reader.listed(&filter, self.first, Order::Ascending, entries_max, scan_max)?;
        if headers.first().is_none_or(|header| header.seq != self.first) {
            self.damaged.insert(self.first);
        }
        Ok(headers)
    }

    fn read(&mut self, seq: u64) -> Result<Option<Stored>, ReadError> {
        match self.ledger.reader().entry(seq) {
            Err(ReadError::Damaged(seq, _)) => {
                self.damaged.insert(seq);
                Ok(None)
            }
            read => read,
        }
    }

    /// The entries up to `last` that do not verify: those that were met, and once the ledger is
    /// known to be damaged, all of them.
    fn damaged(mut self, last: u64) -> Result<Vec<u64>, ReadError> {
        let reader = self.ledger.reader();
        let is_known = self.ledger.damage().is_some() || reader.met_damage().is_some();
        if is_known || !self.damaged.is_empty() {
            for seq in (self.first..=last).take(LOOKED_AT_MAX) {
                if let Err(ReadError::Damaged(seq, _)) = reader.entry(seq) {
                    self.damaged.insert(seq);
                }
            }
        }
        Ok(self.damaged.into_iter().collect())
    }
}

/// A run whose reply does not verify: its status as state.db has it, and its other entries.
fn without_reply(entries: &mut RunEntries<'_>, reply: u64, status: &str) -> Result<RunReply, ReadError> {
    entries.damaged.insert(reply);
    let unknown = || ReadError::Damaged(reply, format!("state.db has the status `{status}` for its run"));
    Ok(RunReply {
        status: RunStatus::parse(status).ok_or_else(unknown)?,
        answer: Some(format!(
            "entry {reply}, the reply of this run, does not verify; the steps come from their own entries"
        )),
        said_by: Some(AnswerBy::Par),
        ..from_entries(entries)?
    })
}

/// Whether an approval of the run is open. A waiting run without one is about to resume.
fn waits_for_a_person(ledger: &Ledger, run: &RunId) -> Result<bool, ReadError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM approval WHERE run = ?1 AND state = 'pending')";
    Ok(ledger.state(|state| state.prepare_cached(sql)?.query_row([run.as_str()], |row| row.get(0)))?)
}

/// The recorded reply, if the entry is the one that state.db names. If it was erased or is longer
/// than a payload may be, the reply is built from the run's other entries.
fn ended(entries: &mut RunEntries<'_>, seq: u64) -> Result<RunReply, ReadError> {
    let RunEntries { ledger, run, .. } = *entries;
    let damaged = |what: &str| ReadError::Damaged(seq, what.to_owned());
    let stored = ledger.reader().entry(seq)?.ok_or_else(|| damaged("the run's reply is missing"))?;
    if stored.header.str("run") != Some(run.as_str()) {
        return Err(damaged("the entry is of another run"));
    }
    let unreadable = |e: serde_json::Error| damaged(&format!("the reply cannot be read: {e}"));
    let answer = match stored.body.as_deref() {
        None => "the reply was erased; the steps come from their own entries",
        Some(body) if CutPayload::read(body).is_some() => {
            "the reply is longer than the ledger stores; the steps come from their own entries"
        }
        Some(body) => {
            return serde_json::from_slice::<RunReplyPayload>(body).map(Into::into).map_err(unreadable);
        }
    };
    let status = stored.header.fields.get("status").cloned().unwrap_or_default();
    Ok(RunReply {
        status: serde_json::from_value(status).map_err(unreadable)?,
        answer: Some(answer.to_owned()),
        said_by: Some(AnswerBy::Par),
        ..from_entries(entries)?
    })
}

/// How many entries a run may have, and among how many they can lie.
fn bounds() -> (usize, usize) {
    // A run has a bounded number of entries, and so have the runs that may be active with it.
    let entries_max = 4 * limits::CALLS_PER_RUN_MAX as usize * limits::MODEL_ROUNDS_MAX as usize;
    (entries_max, entries_max * limits::RUNS_RUNNING_MAX)
}

/// The headers of a run, from its request on.
fn headers(ledger: &Ledger, run: &RunId, first: u64) -> Result<Vec<Header>, ReadError> {
    let (filter, (entries_max, scan_max)) = (Filter::field("run", run.as_str()), bounds());
    let (headers, _) = ledger.reader().headers(&filter, first, Order::Ascending, entries_max, scan_max)?;
    Ok(headers)
}

/// What the requests to a model reserved that no answer followed: they may have been sent, so they
/// count as spent.
pub(in crate::agent) fn unanswered(ledger: &Ledger, run: &RunId, first: u64) -> Result<Usage, ReadError> {
    let (mut open, mut lost) = (None, Vec::new());
    for header in headers(ledger, run, first)? {
        match header.known_kind() {
            Some(Kind::ModelAsk) => {
                let allowed = header.decision() == Some(Decision::Allow);
                lost.extend(std::mem::replace(&mut open, allowed.then_some(header.seq)));
            }
            Some(Kind::ModelReply | Kind::ModelError) => open = None,
            _ => {}
        }
    }
    lost.extend(open);
    let mut usage = Usage::default();
    for seq in lost {
        let ask = ledger.reader().entry(seq)?.and_then(|stored| stored.payload::<ModelAskPayload>());
        let reserved = ask.map_or((0, 0), |ask| (ask.input_tokens, ask.reply_tokens_max));
        usage.add(reserved.0, reserved.1);
    }
    Ok(usage)
}

/// A run without a reply: its steps, built from their entries.
fn from_entries(entries: &mut RunEntries<'_>) -> Result<RunReply, ReadError> {
    let (headers, run, first) = (entries.headers()?, entries.run, entries.first);
    let session = headers.iter().find_map(|header| SessionId::parse(header.str("session")?));
    let mut reply = RunReply {
        run: run.clone(),
        session: session.ok_or_else(|| ReadError::Damaged(first, "the run has no session".to_owned()))?,
        status: RunStatus::Running,
        answer: None,
        said_by: None,
        limit: None,
        steps: Vec::new(),
        usage: Usage::default(),
        models: Vec::new(),
        ceiling: Ceiling::OPEN,
        runbook: headers.first().and_then(|header| header.str("runbook")).map(str::to_owned),
        answer_json: None,
        response: None,
        stopped: None,
        ledger: None,
    };
    for header in &headers {
        if let Some(response) = &mut reply.response {
            let DataLabels { taint, seen } = header.labels().unwrap_or_else(DataLabels::untrusted);
            response.taint.extend(taint);
            response.seen.extend(seen);
        }
        match header.known_kind() {
            Some(Kind::RunRequest) => {
                let asked = entries.read(header.seq)?.and_then(|stored| stored.payload());
                let Some(asked): Option<RunRequestPayload> = asked else { continue };
                reply.response = asked.response_schema.and_then(|asked| {
                    let labels = header.labels().unwrap_or_else(DataLabels::untrusted);
                    Some(HeldResponse::open(serde_json::from_str(&asked.schema).ok()?, &labels))
                });
                reply.ceiling = asked.ceiling;
            }
            Some(Kind::ModelReply) => {
                let stored = entries.read(header.seq)?;
                let said = stored.and_then(|stored| stored.payload::<ModelReplyPayload>());
                let tokens = said.as_ref().map_or((0, 0), |said| (said.input_tokens, said.output_tokens));
                reply.usage.add(tokens.0, tokens.1);
                if let (Some(response), Some(unfit)) =
                    (&mut reply.response, said.as_ref().and_then(|said| said.unfit.as_ref()))
                {
                    response.repairs += u64::from(unfit.repair.is_some());
                }
                reply
                    .models
                    .extend(said.and_then(|said| said.named).filter(|name| name != ModelSink::DEFAULT));
            }
            Some(Kind::CallDecision) => {
                let stored = entries.read(header.seq)?;
                if let Some(step) = stored.as_ref().and_then(decided) {
                    put(&mut reply.steps, step);
                }
            }
            Some(Kind::ApprovalRefuse) => {
                if let Some(stored) = entries.read(header.seq)? {
                    refuse(&mut reply.steps, &stored);
                }
            }
            Some(Kind::CallResult) => {
                if let Some(stored) = entries.read(header.seq)? {
                    settle(&mut reply.steps, &stored);
                }
            }
            _ => {}
        }
    }
    Ok(reply)
}

fn decided(stored: &Stored) -> Option<Step> {
    let header = &stored.header;
    let decision = header.decision()?;
    let payload: CallDecisionPayload = stored.payload().unwrap_or_default();
    let raw = payload.arguments_raw.map(Value::from);
    Some(Step {
        call: CallId::parse(header.str("call")?)?,
        tool: header.str("tool").unwrap_or_default().to_owned(),
        args: payload.arguments.or(raw).unwrap_or_else(|| erased(stored)),
        decision,
        policies: header.policies(),
        status: match decision {
            Decision::Allow => StepStatus::Running,
            Decision::NeedsApproval => StepStatus::Waiting,
            Decision::Deny | Decision::Invalid => StepStatus::Refused,
        },
        result: payload.reason.map_or(Value::Null, |reason| serde_json::json!({ "error": reason })),
        truncated: false,
        class: RefusalClass::of(decision, header.str("status")),
        refused: None,
        nearest: payload.nearest,
        ledger: StepLedger { decision: header.seq, result: None },
    })
}

/// A call that waited is decided again: its newest decision counts.
fn put(steps: &mut Vec<Step>, step: Step) {
    match steps.iter_mut().find(|known| known.call == step.call) {
        Some(known) => *known = step,
        None => steps.push(step),
    }
}

fn settle(steps: &mut [Step], stored: &Stored) {
    let decision = stored.header.u64("ref");
    let Some(step) = steps.iter_mut().find(|step| Some(step.ledger.decision) == decision) else { return };
    let result: Option<CallResultPayload> = stored.payload();
    step.status = stored.header.str("status").and_then(StepStatus::parse).unwrap_or(StepStatus::Error);
    step.truncated = result.as_ref().is_some_and(|result| result.truncated);
    step.result = result.map_or_else(|| erased(stored), |result| result.result);
    step.ledger.result = Some(stored.header.seq);
}

/// A call that was not approved has no later decision.
fn refuse(steps: &mut [Step], stored: &Stored) {
    let call = stored.header.str("call");
    let Some(step) = steps.iter_mut().find(|step| Some(step.call.as_str()) == call) else { return };
    step.status = StepStatus::Refused;
    step.class = Some(RefusalClass::Person);
    step.refused = Some(gate::refused_by(stored));
}

/// The value that replaces an erased one.
fn erased(stored: &Stored) -> Value {
    if stored.body.is_none() { Value::from("erased") } else { Value::Null }
}
