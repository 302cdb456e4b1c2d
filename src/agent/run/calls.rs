//! The calls of a reply, in groups: prepared and decided, committed, run, settled.

use super::connect;
use super::state::RunWalk;
use super::turn::{Part, PartState};
use crate::agent::news::{AllowedCall, DecidedCall, RunNews};
use crate::agent::shared::Agent;
use crate::agent::views;
use crate::call::{End, Execution, Held, Object, Prepared};
use crate::gate::{Asked, CallContext, CallRecord, Decided, Outcome, Pending, Permit, Running};
use crate::ledger::{AppendError, Draft};
use crate::policy::{Session, TaintSource};
use crate::provenance::SourceTexts;
use crate::tools::{Class, ProposedCall};
use crate::types::{Channel, DataLabels};
use std::collections::BTreeMap;
use std::sync::Arc;

impl RunWalk<'_> {
    /// Handles a group of calls: prepares and decides them in order, commits the decisions
    /// together, runs the calls in parallel and settles them together.
    ///
    /// `next` is given for the last group of a reply: the length of the conversation before the
    /// results of this group. The request to the model that follows is then recorded with them.
    pub(super) async fn group(
        &mut self,
        before: Vec<Draft>,
        parts: &mut [Part],
        next: Option<usize>,
    ) -> Result<(), AppendError> {
        let mut decided = Vec::with_capacity(parts.len());
        let mut places = Vec::with_capacity(parts.len());
        for part in parts.iter_mut() {
            decided.push(match std::mem::replace(&mut part.at, PartState::Waiting) {
                PartState::Fresh => {
                    let decided = self.decide(part.call.clone()).await;
                    self.session.calls_used += 1;
                    decided
                }
                PartState::Again(asked) => self.decide_again(part.call.clone(), asked).await,
                settled => {
                    part.at = settled;
                    continue;
                }
            });
            places.push(part);
        }
        // Wait 2: reply and decisions are durable before anything runs.
        let ask = next.and_then(|bytes| self.next_ask(bytes));
        let (outcomes, cleared, first) = self.agent.gate().commit(before, decided, ask).await?;
        self.report_reply(first.as_ref());
        let (mut waits, mut told) = (false, Vec::with_capacity(outcomes.len()));
        let (mut permits, mut running, mut steps) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (place, (part, outcome)) in places.into_iter().zip(outcomes).enumerate() {
            match outcome {
                Outcome::Permit(permit) => {
                    let (call, tool) = (permit.call().clone(), part.call.tool.clone());
                    told.push(DecidedCall::Allowed(AllowedCall { call, tool, seq: permit.decision() }));
                    permits.push(*permit);
                    running.push((place, part));
                }
                Outcome::Wait(waiting) => {
                    waits = true;
                    told.push(DecidedCall::Other(Box::new(views::step(waiting.record()))));
                    steps.insert(place, waiting.record().clone());
                }
                Outcome::Refused(result) => {
                    told.push(DecidedCall::Other(Box::new(views::step(result.record()))));
                    steps.insert(place, result.record().clone());
                    part.at = PartState::Settled(Box::new(result));
                }
            }
        }
        self.cleared = cleared;
        self.agent.report(|| RunNews::Decided(told));
        if !permits.is_empty() {
            let ran = self.execute(permits).await;
            let refused: usize =
                steps.values().map(|record: &CallRecord| record.result.to_string().len()).sum();
            let ask = next.filter(|_| !waits).and_then(|bytes| self.next_ask(bytes.saturating_add(refused)));
            // Wait 3: results are durable before the model reads them.
            let (results, cleared) = self.agent.gate().settle(ran, ask).await?;
            self.cleared = cleared;
            for ((place, part), result) in running.into_iter().zip(results) {
                steps.insert(place, result.record().clone());
                part.at = PartState::Settled(Box::new(result));
            }
        }
        for record in steps.values() {
            self.put_step(record);
            take_in(&mut self.session, &mut self.sources, record);
        }
        Ok(())
    }

    /// Adds the step of a call. A call that waited replaces its earlier step.
    fn put_step(&mut self, record: &CallRecord) {
        let step = views::step(record);
        if record.result_seq.is_some() {
            self.agent.report(|| RunNews::Step(Box::new(step.clone())));
        }
        match self.steps.iter_mut().find(|known| known.call == step.call) {
            Some(known) => *known = step,
            None => self.steps.push(step),
        }
    }

    async fn decide(&self, call: ProposedCall) -> Decided {
        let (gate, asking) = (self.agent.gate(), self.asking());
        match gate.validate(&asking, call) {
            Ok(valid) => self.prepare(&asking, gate.open(valid)).await,
            Err(invalid) => gate.refuse(&asking, invalid),
        }
    }

    /// A call that needed an approval repeats every check.
    async fn decide_again(&self, call: ProposedCall, asked: Asked) -> Decided {
        let (gate, asking) = (self.agent.gate(), self.asking());
        match gate.validate(&asking, call) {
            Ok(valid) => self.prepare(&asking, gate.reopen(valid, asked)).await,
            Err(invalid) => gate.refuse_again(&asking, invalid, asked),
        }
    }

    async fn prepare(&self, asking: &CallContext<'_>, pending: Pending) -> Decided {
        if pending.manifest().front().is_some() {
            // There is nothing to resolve, and no child to hold.
            let nothing = Held::new(0, Arc::new(|_| {}));
            let prepared = Prepared { object: Object::Fixed, held: nothing };
            return self.agent.gate().decide(asking, pending, prepared);
        }
        match self.agent.launcher().prepare(&pending).await {
            Ok(prepared) => self.agent.gate().decide(asking, pending, prepared),
            Err(error) => {
                let why = self.agent.secrets().clean(format!("the sandbox: {error}"));
                self.agent.gate().deny_unprepared(asking, pending, error.class(), &why)
            }
        }
    }

    async fn execute(&self, permits: Vec<Permit>) -> Vec<(Running, Execution)> {
        let mut started = Vec::with_capacity(permits.len());
        for permit in permits {
            let launcher = self.agent.launcher().clone();
            started.push(match permit.begin() {
                Ok((order, running)) => {
                    let (gate, named) = (self.agent.gate().clone(), self.named());
                    let (tool, is_read) =
                        (order.manifest().name.clone(), order.manifest().class == Class::Read);
                    let run = connect::run(launcher, self.asker(), order);
                    let run = async move {
                        let what = named.with_tool(Some(&tool));
                        tokio::select! {
                            biased;
                            execution = run => execution,
                            // Dropping the call ends its child.
                            _stop = gate.ended_by(&what, is_read) => {
                                Execution::without_output(End::Killed)
                            }
                        }
                    };
                    (running, Ok(tokio::spawn(run)))
                }
                Err((running, lapse)) => (running, Err(End::Refused { reason: lapse.to_string() })),
            });
        }
        let mut ran = Vec::with_capacity(started.len());
        for (running, started) in started {
            let execution = match started {
                Ok(task) => task.await.unwrap_or_else(|_| Execution::without_output(End::Killed)),
                Err(end) => Execution::without_output(end),
            };
            ran.push((running, execution));
        }
        ran
    }
}

/// Consecutive reads form one group. Every other call is a separate group, so that it is prepared
/// only after the call before it is settled.
pub(super) fn groups<T>(calls: &mut [T], is_read: impl Fn(&T) -> bool) -> impl Iterator<Item = &mut [T]> {
    calls.chunk_by_mut(move |a, b| is_read(a) && is_read(b))
}

/// Whether a call of `tool` only reads. An unknown tool counts as one that does.
pub(super) fn is_read(agent: &Agent, tool: &str) -> bool {
    agent.gate().rules().catalog.find(tool).is_none_or(|manifest| manifest.class == Class::Read)
}

/// Where the words of the message are from: a person's own, unless a program may have written them
/// or they are labelled.
pub(in crate::agent) fn put_message(
    sources: &mut SourceTexts,
    channel: Channel,
    message: &str,
    labels: &DataLabels,
) {
    if channel.is_typed() && !labels.is_tainted() {
        sources.add_message(message);
    } else {
        sources.add_untrusted(message);
    }
}

/// What the session has read after a result that the model reads.
pub(in crate::agent) fn take_in(session: &mut Session, sources: &mut SourceTexts, record: &CallRecord) {
    let Some(result) = record.result_seq else { return };
    sources.add_result(&record.result, !record.labels.is_tainted());
    *session = session.after(&record.labels);
    if !record.labels.is_tainted() {
        return;
    }
    let source = TaintSource {
        tool: record.tool.clone(),
        resource: record.resource.clone().unwrap_or_default(),
        result,
    };
    session.tainted_by.push(source);
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn consecutive_reads_form_one_group_and_other_calls_do_not() {
        let check = |tools: &str, expect: &str| {
            let mut calls: Vec<char> = tools.chars().collect();
            let made: Vec<String> =
                groups(&mut calls, |tool| *tool == 'r').map(|group| group.iter().collect()).collect();
            assert_eq!(made.join("|"), expect);
        };
        check("rrr", "rrr");
        check("rwr", "r|w|r");
        check("wwrr", "w|w|rr");
        check("", "");
    }
}
