//! Sends an answer, or records it in this process if no server runs.

use super::mend::with_mend;
use super::refusal::{ok, refused};
use super::source::{ApprovalSource, owner, parse};
use super::words::answered_line;
use crate::agent::{RunReply, RunStatus};
use crate::auth::Principal;
use crate::cli::exit::{self, Fail};
use crate::cli::local::{self, Inside};
use crate::cli::{compose, reply, show};
use crate::config::Config;
use crate::gate::Answer;
use crate::http::admin::{self, AdminError, Operation};
use crate::policy::Door;
use crate::types::ApprovalId;
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// Id of the approval, `apr_…`
    pub(super) id: String,
    /// Reason for the answer, recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl AnswerArgs {
    pub(super) fn send(
        &self,
        source: ApprovalSource,
        approval: &Value,
        grant: bool,
        is_json: bool,
    ) -> Result<u8, Fail> {
        let sent = self.try_send(&source, approval, grant, is_json);
        sent.map_err(|fail| with_mend(fail, &source, approval))
    }

    fn try_send(
        &self,
        source: &ApprovalSource,
        approval: &Value,
        grant: bool,
        is_json: bool,
    ) -> Result<u8, Fail> {
        let call_hash = approval.get("call_hash").and_then(Value::as_str).unwrap_or_default();
        let answered = match source {
            ApprovalSource::Server(server) => {
                let answer = if grant { "grant" } else { "refuse" };
                let mut body = json!({ "answer": answer, "call_hash": call_hash, "reason": self.reason });
                add_card(&mut body, approval);
                server.ask(&format!("/approvals/{}", parse(&self.id)?), Some(&body))?
            }
            ApprovalSource::Home(config) => {
                let mut asked = json!({
                    "op": Operation::ApprovalAnswer.as_str(), "id": self.id, "grant": grant,
                    "call_hash": call_hash, "reason": self.reason,
                });
                add_card(&mut asked, approval);
                match admin::call(&config.home.data, &asked) {
                    Err(AdminError::NotRunning) => {
                        let reason = self.reason.clone();
                        let card = approval.get("card").and_then(Value::as_str).map(str::to_owned);
                        let answer = Answer { grant, card, call_hash: Some(call_hash.to_owned()), reason };
                        return self.answer_locally(config, answer, is_json);
                    }
                    answered => ok(answered)?.get("approval").cloned().unwrap_or_default(),
                }
            }
        };
        if is_json {
            show::json(&answered)?;
        } else {
            show::line(&answered_line(&answered))?;
        }
        Ok(exit::OK)
    }

    /// Without a server: answers as the owner of the home, and resumes the run.
    fn answer_locally(&self, config: &Config, answer: Answer, is_json: bool) -> Result<u8, Fail> {
        let (id, by) = (parse(&self.id)?, owner(config)?);
        let is_refusal = !answer.grant;
        let config = compose::load(config.home.clone())?;
        let reply = local::with_front(config, "approval", async move |home: &Inside| {
            answer_and_resume(home, &by, &id, answer).await
        })?;
        match reply {
            // The answer counts, and this is how a run ends that a person refused.
            Some(made) if is_refusal && made.status == RunStatus::Refused => {
                reply::print(&made, is_json).map(|_| exit::OK)
            }
            Some(made) => reply::print(&made, is_json),
            // Another call of the run still waits.
            None => Ok(exit::WAITING),
        }
    }
}

/// Repeats the digest of the card that was shown, if the server made one.
fn add_card(answer: &mut Value, approval: &Value) {
    let card = approval.get("card").filter(|card| card.is_string());
    if let (Some(card), Some(members)) = (card, answer.as_object_mut()) {
        members.insert("card".to_owned(), card.clone());
    }
}

async fn answer_and_resume(
    home: &Inside,
    by: &Principal,
    id: &ApprovalId,
    answer: Answer,
) -> Result<Option<RunReply>, Fail> {
    home.agent.gate().expire().await.map_err(refused)?;
    let answered = home.agent.gate().answer(by, Door::LOCAL, id, answer).await.map_err(refused)?;
    let shown = serde_json::to_value(&answered).map_err(Fail::failed)?;
    show::note(&answered_line(&shown));
    home.agent.resume(&home.requesters, &answered.run).await.map_err(Fail::failed)
}
