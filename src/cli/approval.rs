//! `par approval`: through the admin socket of the running server, or directly on the ledger if
//! none runs; with `--url`, at any server with the caller's own key.

use super::exit::{self, Fail};
use super::local::{self, Inside};
use super::remote::Server;
use super::table::{Cell, Column, Screen, Sheet};
use super::{compose, reply, show};
use crate::agent::RunReply;
use crate::auth::{self, Principal, Role};
use crate::config::{Config, Home};
use crate::gate::{Answer, AnswerError, Approval, State, describe_content};
use crate::http::admin::{self, AdminError, FailureCode, Operation};
use crate::ledger::Ledger;
use crate::policy::Door;
use crate::types::{ApprovalId, limits, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};

#[derive(Debug, Args)]
pub(super) struct Approvals {
    /// Use the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or ~/.config/par/key;
    /// needs no home here [env: PAR_URL]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    #[command(subcommand)]
    command: ApprovalCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalCommand {
    /// List the calls that wait for approval
    List {
        /// Include answered and expired approvals
        #[arg(long)]
        all: bool,
    },
    /// Show one approval, with the exact call
    Show {
        /// Id of the approval, `apr_…`
        id: String,
    },
    /// Approve exactly this call and resume its run
    Approve(AnswerArgs),
    /// Deny this call; its run resumes without it
    Deny(AnswerArgs),
}

#[derive(Debug, Args)]
struct AnswerArgs {
    /// Id of the approval, `apr_…`
    id: String,
    /// Reason for the answer, recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Approve without asking for confirmation; `deny` never asks
    #[arg(long)]
    yes: bool,
}

/// Where approvals are kept.
enum ApprovalSource {
    /// A home: its server through the admin socket, or its ledger.
    Home(Box<Config>),
    Server(Box<Server>),
}

impl Approvals {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let source = match self.url.clone().or_else(|| home.server_url()) {
            Some(url) => ApprovalSource::Server(Box::new(Server::at(&url)?.checked()?)),
            None => ApprovalSource::Home(Box::new(compose::load(home)?)),
        };
        match &self.command {
            ApprovalCommand::List { all } => list(&source, *all, is_json),
            ApprovalCommand::Show { id } => {
                let approval = source.find(id)?;
                if is_json {
                    show::json(&approval)?;
                } else {
                    lines(&approval).iter().try_for_each(|line| show::line(line))?;
                }
                Ok(exit::OK)
            }
            ApprovalCommand::Approve(args) => {
                let approval = source.find(&args.id)?;
                // The call is shown even if standard output is for a program.
                if !is_json {
                    lines(&approval).iter().try_for_each(|line| show::line(line))?;
                } else if !args.yes {
                    lines(&approval).iter().for_each(|line| show::note(line));
                }
                if !args.yes && !is_confirmed()? {
                    return Err(Fail::failed("not approved"));
                }
                args.send(source, &approval, true, is_json)
            }
            ApprovalCommand::Deny(args) => {
                let approval = source.find(&args.id)?;
                args.send(source, &approval, false, is_json)
            }
        }
    }
}

impl AnswerArgs {
    fn send(&self, source: ApprovalSource, approval: &Value, grant: bool, is_json: bool) -> Result<u8, Fail> {
        let call_hash = approval.get("call_hash").and_then(Value::as_str).unwrap_or_default();
        let answered = match source {
            ApprovalSource::Server(server) => {
                let answer = if grant { "grant" } else { "refuse" };
                let body = json!({ "answer": answer, "call_hash": call_hash, "reason": self.reason });
                server.ask(&format!("/approvals/{}", parse(&self.id)?), Some(&body))?
            }
            ApprovalSource::Home(config) => {
                let asked = json!({
                    "op": Operation::ApprovalAnswer.as_str(), "id": self.id, "grant": grant,
                    "call_hash": call_hash, "reason": self.reason,
                });
                match admin::call(&config.home.data, &asked) {
                    Err(AdminError::NotRunning) => {
                        let reason = self.reason.clone();
                        let answer = Answer { grant, call_hash: call_hash.to_owned(), reason };
                        return self.answer_locally(*config, answer, is_json);
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
    fn answer_locally(&self, config: Config, answer: Answer, is_json: bool) -> Result<u8, Fail> {
        let (id, by) = (parse(&self.id)?, owner(&config)?);
        let resumed = local::with_front(config, "approval", async move |home: &Inside| {
            answer_and_resume(home, &by, &id, answer).await
        })?;
        match resumed {
            Some(made) => reply::print(&made, is_json),
            // Another call of the run still waits.
            None => Ok(exit::WAITING),
        }
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

impl ApprovalSource {
    /// Returns a page of approvals after `after`, and the position of the next page.
    fn page(&self, all: bool, after: u64) -> Result<(Vec<Value>, Option<u64>), Fail> {
        let page = match self {
            Self::Server(server) => {
                let state = if all { "" } else { "&state=pending" };
                server.ask(&format!("/approvals?after={after}{state}"), None)?
            }
            Self::Home(config) => {
                let state = (!all).then_some(State::Pending.as_str());
                match admin::call(
                    &config.home.data,
                    &json!({ "op": Operation::ApprovalList.as_str(), "after": after, "state": state }),
                ) {
                    Err(AdminError::NotRunning) => {
                        let state = (!all).then_some(State::Pending);
                        let page =
                            Approval::list(&ledger(config)?, state, after, limits::PAGE_ITEMS, |_| true);
                        let (items, next) = page.map_err(refused)?;
                        json!({ "items": items, "next": next })
                    }
                    answered => ok(answered)?,
                }
            }
        };
        // A number from the socket, a string over HTTP.
        let next = match page.get("next") {
            Some(Value::String(next)) => next.parse().ok(),
            next => next.and_then(Value::as_u64),
        };
        Ok((page.get("items").and_then(Value::as_array).cloned().unwrap_or_default(), next))
    }

    /// The approval `id`, as the server or the ledger shows it.
    fn find(&self, id: &str) -> Result<Value, Fail> {
        let id = parse(id)?;
        match self {
            Self::Server(server) => server.ask(&format!("/approvals/{id}"), None),
            Self::Home(config) => {
                match admin::call(
                    &config.home.data,
                    &json!({ "op": Operation::ApprovalShow.as_str(), "id": id.as_str() }),
                ) {
                    Err(AdminError::NotRunning) => {
                        let found = Approval::find(&ledger(config)?, &id).map_err(refused)?;
                        let found = found.ok_or_else(|| refused(AnswerError::Unknown))?;
                        serde_json::to_value(found).map_err(Fail::failed)
                    }
                    answered => Ok(ok(answered)?.get("approval").cloned().unwrap_or_default()),
                }
            }
        }
    }
}

fn list(source: &ApprovalSource, all: bool, is_json: bool) -> Result<u8, Fail> {
    let mut items: Vec<Value> = Vec::new();
    let mut next = Some(0);
    while let Some(after) = next {
        let page = source.page(all, after)?;
        items.extend(page.0);
        next = page.1;
    }
    if is_json {
        items.iter().try_for_each(show::json)?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    let mut table = Sheet::new(&[
        Column::Whole("id"),
        Column::Whole("state"),
        Column::Cut("tool"),
        Column::Words("arguments"),
        Column::Cut("asked by"),
        Column::Whole("expires"),
    ]);
    for item in &items {
        table.push(vec![
            word(item, "/id").into(),
            Cell::outcome(&word(item, "/state")),
            word(item, "/tool").into(),
            word(item, "/arguments").into(),
            word(item, "/requester/principal").into(),
            Cell::written_time(&word(item, "/expires"), &screen),
        ]);
    }
    table.print(&screen)?;
    Ok(exit::OK)
}

/// Opens the ledger for reading. Only the owner of the home may.
fn ledger(config: &Config) -> Result<Ledger, Fail> {
    owner(config)?;
    compose::open_ledger(config)
}

fn owner(config: &Config) -> Result<Principal, Fail> {
    auth::local(&config.home.data, Role::Admin).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))
}

fn parse(id: &str) -> Result<ApprovalId, Fail> {
    let shown = || text::visible_line(text::prefix(id, limits::SHOWN_BYTES_MAX));
    ApprovalId::parse(id).ok_or_else(|| {
        Fail::usage(format!(
            "`{}` is not a valid approval id, expected `apr_…`: `par approval list` shows the ids",
            shown()
        ))
    })
}

/// Everything that a person needs for the decision, with control characters made visible: a model
/// wrote part of it.
fn lines(approval: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, at) in [
        ("approval", "/id"),
        ("state", "/state"),
        ("tool", "/tool"),
        ("arguments", "/arguments"),
        ("resource", "/resource/id"),
        ("run", "/run"),
        ("asked by", "/requester/principal"),
        ("user", "/requester/user"),
        ("asked", "/created"),
        ("expires", "/expires"),
        ("model says", "/said"),
        ("groups", "/groups"),
        ("call hash", "/call_hash"),
        ("answer", "/answer/principal"),
        ("reason", "/answer/reason"),
    ] {
        match approval.pointer(at) {
            None | Some(Value::Null) => {}
            Some(_) => lines.push(format!("{name:<10} {}", whole(approval, at))),
        }
    }
    let content = approval.get("resource").and_then(describe_content);
    lines.extend(content.map(|words| format!("content    {words}")));
    for one in approval.pointer("/resource/exclusions").and_then(Value::as_array).into_iter().flatten() {
        lines.push(format!("leaves out {}", whole(one, "/canonical")));
    }
    for one in approval.get("why").and_then(Value::as_array).into_iter().flatten() {
        let advice = one.get("advice").and_then(Value::as_str).map(text::visible_line).unwrap_or_default();
        let line = format!("why        {} {} {advice}", word(one, "/policy"), word(one, "/origin"));
        lines.push(line.trim_end().to_owned());
    }
    for one in approval.get("tainted_by").and_then(Value::as_array).into_iter().flatten() {
        let (tool, resource, entry) = (word(one, "/tool"), word(one, "/resource"), word(one, "/result"));
        lines.push(format!("has read   {resource} by {tool}, entry {entry}: untrusted"));
    }
    lines
}

fn answered_line(answered: &Value) -> String {
    format!(
        "{} {}; its run {} resumes",
        word(answered, "/id"),
        word(answered, "/state"),
        word(answered, "/run")
    )
}

/// A value on one line, cut to fit a table.
fn word(value: &Value, at: &str) -> String {
    text::prefix(&whole(value, at), limits::SHOWN_BYTES_MAX).to_owned()
}

/// A value on one line, complete.
fn whole(value: &Value, at: &str) -> String {
    match value.pointer(at) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(words)) => text::visible_line(words),
        Some(other) => text::visible_line(&other.to_string()),
    }
}

/// Asks for confirmation on the terminal. Without a terminal this is an error.
fn is_confirmed() -> Result<bool, Fail> {
    if !std::io::stdin().is_terminal() {
        return Err(Fail::usage(
            "a confirmation needs a terminal; without one, read the call with `par approval show`, \
             then add `--yes`",
        ));
    }
    eprint!("Approve this call? [y/N] ");
    std::io::stderr().flush().map_err(Fail::failed)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Fail::failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn ok(answered: Result<Value, AdminError>) -> Result<Value, Fail> {
    answered.map_err(|e| match e {
        AdminError::Refused(why) => Fail::new(exit::UNAUTHENTICATED, why),
        AdminError::Failed(code, why) => Fail::new(code_of(code), why),
        other => Fail::failed(other),
    })
}

fn refused(error: AnswerError) -> Fail {
    Fail::new(code_of((&error).into()), error)
}

fn code_of(code: FailureCode) -> u8 {
    match code {
        FailureCode::Invalid => exit::USAGE,
        FailureCode::OwnRequest | FailureCode::NotInGroup | FailureCode::Forbidden => exit::DENIED,
        _ => exit::FAILED,
    }
}
