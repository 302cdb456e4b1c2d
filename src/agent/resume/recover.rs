//! Recovery after a crash: runs without a reply get one.

use crate::agent::api::{AnswerBy, RunStatus};
use crate::agent::shared::Agent;
use crate::agent::views;
use crate::gate::RecoverError;
use crate::ledger::payload::RecoveryPayload;
use crate::ledger::{Draft, Ref};
use crate::types::RunId;

/// Settles open calls at the gate, then closes open runs as `interrupted`.
pub(in crate::agent) async fn recover(agent: &Agent) -> Result<usize, RecoverError> {
    let calls = agent.gate().recover().await?.len();
    let open: Vec<(String, String)> = agent
        .ledger()
        .state(|state| {
            let mut open =
                state.prepare("SELECT id, owner FROM run WHERE reply_seq IS NULL ORDER BY first_seq")?;
            open.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(|e| RecoverError::Read(e.into()))?;
    let mut drafts = Vec::with_capacity(open.len() + 1);
    for (id, owner) in &open {
        let Some(run) = RunId::parse(id) else { continue };
        drafts.extend(reply(agent, run, owner)?);
    }
    let runs = drafts.len();
    if calls + runs > 0 {
        drafts.push(Draft::new(RecoveryPayload { calls: calls as u64, runs: runs as u64 }));
        let _receipts = agent.ledger().append(drafts).await.map_err(RecoverError::Append)?;
    }
    Ok(calls + runs)
}

/// The reply of a run that a crash ended: its recorded steps, with the status `interrupted`.
fn reply(agent: &Agent, run: RunId, owner: &str) -> Result<Option<Draft>, RecoverError> {
    let found = views::find(agent.ledger(), &run, |_| true).map_err(RecoverError::Read)?;
    let Some(mut reply) = found else { return Ok(None) };
    let first = reply.ledger.take().map_or(0, |range| range.first);
    let lost = views::unanswered(agent.ledger(), &run, first).map_err(RecoverError::Read)?;
    reply.usage.model_calls += lost.model_calls;
    reply.usage.input_tokens = reply.usage.input_tokens.saturating_add(lost.input_tokens);
    reply.usage.output_tokens = reply.usage.output_tokens.saturating_add(lost.output_tokens);
    reply.status = RunStatus::Interrupted;
    reply.answer = Some("interrupted: PAR ended before the run did".to_owned());
    reply.said_by = Some(AnswerBy::Par);
    let session = reply.session.clone();
    Ok(Some(Draft {
        run: Some(run),
        session: Some(session),
        principal: Some(owner.to_owned()),
        answers: Some(Ref::Seq(first)),
        status: Some(RunStatus::Interrupted.as_str()),
        ..Draft::new(reply.payload())
    }))
}
