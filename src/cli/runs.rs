//! `par runs`: runs as a server or the files of a home have them.

mod cancel;
mod words;

use super::exit::{self, Fail};
use super::remote::{Server, managed};
use super::show::word;
use super::table::{Cell, Column, Screen, Sheet, Tone};
use super::{compose, local, query, reply, show};
use crate::agent::{self, RunQuery, RunReply, RunRequest, RunStatus};
use crate::auth::{self, Role};
use crate::config::{Config, Home};
use crate::gate::Approval;
use crate::http::admin::{self, Operation};
use crate::ledger::payload::RunRequestPayload;
use crate::ledger::{AppendError, Filter, Index, Ledger, ReadError};
use crate::policy::Door;
use crate::types::{RunId, limits, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
pub(super) use words::table;
use words::{answered, cost, damage, is_whole};

#[derive(Debug, Subcommand)]
pub(super) enum PastRuns {
    /// List runs, newest first
    List(RunList),
    /// Show a run: its question, steps, answer, approvals and cost
    Show(One),
    /// Send the message of a run again, as a new run
    Rerun(One),
    /// Cancel a run that has not ended: what only reads is ended, what acts is waited for
    Cancel(RunCancel),
}

#[derive(Debug, Args)]
pub(super) struct RunList {
    /// Words of the message, and names of keys or users that must all match [default: every run]
    query: Vec<String>,
    /// Only runs with this status: done, denied, waiting, failed …
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Show only the newest runs, at most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    place: ServerPlace,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// Id of the run, `run_…`, or `latest`
    run: String,
    #[command(flatten)]
    place: ServerPlace,
}

#[derive(Debug, Args)]
struct ServerPlace {
    /// Use the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or ~/.config/par/key;
    /// needs no home here [env: PAR_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RunCancel {
    #[command(flatten)]
    one: One,
    /// Reason, which is recorded and shown in the run's answer
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl RunCancel {
    fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let (id, source) = self.one.find(home)?;
        let reason = self.reason.as_deref();
        let seq = match source {
            RunSource::Managed(_, home) => {
                let cancelled = managed::cancel(&home, &id, reason)?;
                cancelled.pointer("/items/0/halt").and_then(Value::as_u64)
            }
            RunSource::Server(server) | RunSource::Asking(server, _) => {
                let body = json!({ "reason": reason });
                let cancelled = server.ask(&format!("/runs/{id}/cancel"), Some(&body))?;
                cancelled.get("cancelled_by").and_then(Value::as_u64)
            }
            RunSource::Files(config, ledger) => {
                // The lock is taken again by the command.
                drop(ledger);
                let by = auth::local(&config.home.data, Role::Admin);
                let by = by.map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
                Some(local::with_front(*config, "runs cancel", async |home| {
                    cancel::here(home, &by, &id, self.reason.clone()).await
                })?)
            }
        };
        if is_json {
            show::json(&json!({ "run": id, "cancelled_by": seq }))?;
        } else {
            show::line(&format!("cancelled {id}"))?;
            show::note(&format!("par: `par runs show {id}` shows what had happened"));
        }
        Ok(exit::OK)
    }
}

/// The newest run that the caller may read.
const LATEST: &str = "latest";

/// What a list over `par.sock` may leave out: the socket shows a user what the role of that user
/// may read, and an operator reads only own runs.
const MAYBE_MORE: &str = "par: these are the runs that you may read through `par.sock`; runs of others may be missing: \
                          `par audit show kind:run.request` shows all of them to the owner of the home, and `par runs \
                          list --url URL` to a key of the role viewer";

/// Where runs are read from.
enum RunSource {
    Server(Box<Server>),
    /// A server that is reached through `par.sock`, whose admin socket this user may use: it shows
    /// the runs of all users.
    Managed(Box<Server>, Box<Home>),
    /// The server of a home behind `par.sock`, and the folder of its data: approvals are read
    /// through the admin socket there.
    Asking(Box<Server>, PathBuf),
    /// The files of a home, on which no server runs.
    Files(Box<Config>, Ledger),
}

impl PastRuns {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::List(list) => list.run(home, is_json),
            Self::Show(one) => one.show(home, is_json),
            Self::Rerun(one) => one.rerun(home, is_json),
            Self::Cancel(cancel) => cancel.run(home, is_json),
        }
    }
}

impl ServerPlace {
    fn open(&self, home: Home) -> Result<RunSource, Fail> {
        if let Some(url) = self.url.clone().or_else(|| home.server_url()) {
            return Ok(RunSource::Server(Box::new(Server::at(&url)?.checked()?)));
        }
        if let Some(server) = Server::of_home(&home)? {
            let is_manager = server.is_ask_socket() && managed::is_manager(&home);
            return Ok(match server.is_ask_socket() {
                true if is_manager => RunSource::Managed(Box::new(server), Box::new(home)),
                true => RunSource::Asking(Box::new(server), home.data),
                false => RunSource::Server(Box::new(server)),
            });
        }
        let config = compose::load(home)?;
        // Only the owner of the home reads its files.
        auth::local(&config.home.data, Role::Admin).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
        let ledger = compose::open_ledger(&config)?;
        Ok(RunSource::Files(Box::new(config), ledger))
    }
}

impl RunList {
    fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let status = self.status.as_deref().map(status).transpose()?;
        let words = query::join(&self.query);
        let filter = Filter::of_runs(&words).map_err(Fail::usage)?;
        let source = self.place.open(home)?;
        let is_ask_socket = source.is_ask_socket();
        show::damage(source.damage().as_deref());
        let rows = match source {
            RunSource::Server(server) | RunSource::Asking(server, _) => {
                self.on_server(&server, status, &words)?
            }
            RunSource::Managed(_, home) => self.managed(&home, status, &words)?,
            RunSource::Files(config, ledger) => {
                query::check_tools(ledger.reader(), &filter)?;
                let index = if filter.is_empty() { None } else { Some(index(&config)?) };
                let asked = RunQuery { status, filter, limit: self.limit, ..RunQuery::default() };
                let page =
                    agent::list_runs(&ledger, index.as_ref(), &asked, |_| true).map_err(Fail::failed)?;
                if page.rows.is_empty() {
                    let names = auth::key_names_of(&compose::files(&config));
                    query::check_names(ledger.reader(), &names, &asked.filter)?;
                }
                page.rows.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(Fail::failed)?
            }
        };
        if is_json {
            rows.iter().try_for_each(show::json)?;
        } else {
            table(&rows)?;
            if is_ask_socket {
                show::note(MAYBE_MORE);
            }
        }
        Ok(exit::OK)
    }

    fn managed(&self, home: &Home, status: Option<RunStatus>, words: &str) -> Result<Vec<Value>, Fail> {
        let (mut rows, mut after) = (Vec::new(), Value::Null);
        while rows.len() < self.limit {
            let limit = (self.limit - rows.len()).min(limits::PAGE_ROWS_MAX);
            let status = status.map(RunStatus::as_str);
            let asked = json!({ "query": words, "status": status, "after": after, "limit": limit });
            let mut page = managed::runs(home, asked)?;
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                rows.extend(items);
            }
            after = page.get("next").cloned().unwrap_or_default();
            if after.is_null() {
                break;
            }
        }
        Ok(rows)
    }

    fn on_server(&self, server: &Server, status: Option<RunStatus>, words: &str) -> Result<Vec<Value>, Fail> {
        let (mut rows, mut after) = (Vec::new(), String::new());
        while rows.len() < self.limit {
            let limit = (self.limit - rows.len()).min(limits::PAGE_ROWS_MAX);
            let status = status.map_or_else(String::new, |status| format!("&status={}", status.as_str()));
            let q = if words.is_empty() { String::new() } else { format!("&q={}", query::encoded(words)) };
            let mut page = server.ask(&format!("/runs?limit={limit}{status}{q}{after}"), None)?;
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                rows.extend(items);
            }
            match page.get("next").and_then(Value::as_str) {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        Ok(rows)
    }
}

fn status(word: &str) -> Result<RunStatus, Fail> {
    RunStatus::parse(word).ok_or_else(|| {
        let shown = text::visible_line(word);
        Fail::usage(format!("unknown status `{shown}`, expected the status of a run, such as `done`"))
    })
}

/// The index, which a search needs, brought up to date.
fn index(config: &Config) -> Result<Index, Fail> {
    Index::open(&compose::files(config)).map_err(Fail::failed)
}

/// The names of a ceiling.
fn listed(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { format!("only {}", names.join(", ")) }
}

impl One {
    /// The run that is meant, and where it is read from.
    fn find(&self, home: Home) -> Result<(RunId, RunSource), Fail> {
        if self.run != LATEST {
            let id = self.id()?;
            return Ok((id, self.place.open(home)?));
        }
        let source = self.place.open(home)?;
        let rows = match &source {
            RunSource::Managed(_, home) => {
                let page = managed::runs(home, json!({ "limit": 1 }))?;
                page.get("items").cloned().unwrap_or_default()
            }
            RunSource::Server(server) | RunSource::Asking(server, _) => {
                let page = server.ask("/runs?limit=1", None)?;
                page.get("items").cloned().unwrap_or_default()
            }
            RunSource::Files(_, ledger) => {
                let asked = RunQuery { limit: 1, ..RunQuery::default() };
                let page = agent::list_runs(ledger, None, &asked, |_| true).map_err(Fail::failed)?;
                serde_json::to_value(page.rows).map_err(Fail::failed)?
            }
        };
        let id = rows.pointer("/0/run").and_then(Value::as_str).and_then(RunId::parse);
        Ok((id.ok_or_else(|| Fail::failed("there is no run yet"))?, source))
    }

    fn id(&self) -> Result<RunId, Fail> {
        RunId::parse(&self.run).ok_or_else(|| {
            let shown = text::visible_line(text::prefix(&self.run, limits::SHOWN_BYTES_MAX));
            Fail::usage(format!(
                "`{shown}` is not the id of a run, expected `run_…` or `{LATEST}`: `par runs list` shows the ids"
            ))
        })
    }

    fn show(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let (id, source) = self.find(home)?;
        let found = source.find(&id)?;
        show::damage(source.damage().as_deref());
        let code = if is_whole(&found) { exit::OK } else { exit::UNVERIFIED };
        if is_json {
            show::json(&found)?;
            return Ok(code);
        }
        let asked = source.asked(&id, &found)?;
        let screen = Screen::stdout();
        let mut head = Sheet::bare(&[Column::Whole("name"), Column::Words("value")]);
        let mut put = |name: &str, value: Cell| {
            if !value.is_empty() {
                head.push(vec![name.into(), value]);
            }
        };
        put("run", id.as_str().into());
        put("status", Cell::outcome(found.status.as_str()));
        put("who", word(&asked, "/who").into());
        put("started", Cell::written_time(&word(&asked, "/started"), &screen));
        put("message", word(&asked, "/message").into());
        put("tools", found.ceiling.names().map(listed).unwrap_or_default().into());
        put("schema", found.response.as_ref().and_then(agent::HeldResponse::line).unwrap_or_default().into());
        put("limit", found.limit.clone().unwrap_or_default().into());
        let approvals = source.approvals(&id)?;
        put("cost", cost(&found, &asked, !approvals.is_empty()).into());
        approvals.iter().for_each(|approval| put("approval", answered(approval).into()));
        if let Some(ledger) = &found.ledger {
            let range = format!("{} to {}: par audit show run:{id}", ledger.first, ledger.last);
            put("entries", range.into());
        }
        put("damage", Cell::from(damage(&found)).toned(Tone::Bad));
        head.print(&screen)?;
        show::line("")?;
        reply::body(&found)?;
        found.incomplete().into_iter().for_each(show::note);
        Ok(code)
    }

    fn rerun(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let (id, source) = self.find(home)?;
        let message = source.message(&id)?;
        let found = source.find(&id)?;
        if !is_whole(&found) {
            // What is left out may be what narrowed the run.
            return Err(Fail::new(exit::UNVERIFIED, format!("{id}: {}", damage(&found))));
        }
        let (tools, schema) = (found.ceiling, found.response.map(|response| response.schema));
        match source {
            RunSource::Server(server) | RunSource::Managed(server, _) | RunSource::Asking(server, _) => {
                let body = json!({ "message": message, "tools": tools, "response_schema": schema });
                reply::print(&server.run("/agent/run", &body)?, is_json)
            }
            RunSource::Files(config, ledger) => {
                // The lock is taken again by the run.
                drop(ledger);
                let request = RunRequest { message, tools, response_schema: schema, ..RunRequest::default() };
                let (made, printed) = local::run_here(*config, "run", !is_json, async move |agent, by| {
                    agent.run(by, Door::LOCAL, request).await
                })?;
                reply::print_rest(&made, &printed, is_json)
            }
        }
    }
}

impl RunSource {
    fn find(&self, id: &RunId) -> Result<RunReply, Fail> {
        match self {
            Self::Server(server) | Self::Asking(server, _) => {
                let found = server.ask(&format!("/runs/{id}"), None)?;
                serde_json::from_value(found).map_err(Fail::failed)
            }
            Self::Managed(_, home) => serde_json::from_value(managed::run(home, id)?).map_err(Fail::failed),
            Self::Files(_, ledger) => agent::find_run(ledger, id, |_| true)
                .map_err(|e| Fail::new(exit::UNVERIFIED, e))?
                .ok_or_else(|| Fail::failed(format!("{id} is not in the ledger"))),
        }
    }

    /// That the ledger is damaged, and the way out.
    fn damage(&self) -> Option<String> {
        match self {
            Self::Server(server) | Self::Managed(server, _) | Self::Asking(server, _) => server.damage(),
            Self::Files(_, ledger) => {
                ledger.damage().map(|of| AppendError::Damaged(Box::new(of)).to_string())
            }
        }
    }

    /// The run as a list shows it, and its message.
    fn asked(&self, id: &RunId, found: &RunReply) -> Result<Value, Fail> {
        match self {
            Self::Server(server) | Self::Asking(server, _) => {
                let page =
                    server.ask(&format!("/runs?limit=1&q={}", query::encoded(&format!("run:{id}"))), None)?;
                Ok(page.pointer("/items/0").cloned().unwrap_or_default())
            }
            Self::Managed(_, home) => {
                let page = managed::runs(home, json!({ "query": format!("run:{id}"), "limit": 1 }))?;
                Ok(page.pointer("/items/0").cloned().unwrap_or_default())
            }
            Self::Files(config, ledger) => {
                let first = found.ledger.as_ref().map_or(0, |ledger| ledger.first);
                let stored = match ledger.reader().entry(first) {
                    // The run itself says that this entry is damaged.
                    Ok(None) | Err(ReadError::Damaged(..)) => return Ok(Value::Null),
                    Ok(Some(stored)) => stored,
                    Err(e) => return Err(Fail::new(exit::UNVERIFIED, e)),
                };
                let names = auth::key_names_of(&compose::files(config));
                let wall = stored.header.u64("wall_us").map(|us| crate::types::clock::Wall(us).rfc3339());
                let message = stored.payload().map(|asked: RunRequestPayload| asked.message);
                Ok(json!({
                    "who": stored.header.str("principal").map(|principal| names.shown(principal)),
                    "started": wall, "message": message,
                }))
            }
        }
    }

    /// The whole message of the run. A list shows only its beginning.
    fn message(&self, id: &RunId) -> Result<String, Fail> {
        let found = self.find(id)?;
        let asked = self.asked(id, &found)?;
        let shown = asked.get("message").and_then(Value::as_str);
        let (Self::Server(server) | Self::Managed(server, _) | Self::Asking(server, _)) = self else {
            return shown
                .map(str::to_owned)
                .ok_or_else(|| Fail::failed(format!("the message of {id} was erased")));
        };
        // A caller who may not read the ledger has what the list shows, if that is all of it.
        let listed = || {
            let whole = |shown: &&str| shown.len() < limits::SHOWN_BYTES_MAX && !shown.contains('\\');
            shown.filter(whole).map(str::to_owned).ok_or_else(|| {
                let why = format!(
                    "this caller cannot read the whole message of {id}: send it again with `par run`"
                );
                Fail::new(exit::DENIED, why)
            })
        };
        if server.is_ask_socket() {
            return listed();
        }
        let first = found.ledger.as_ref().map_or(0, |ledger| ledger.first);
        match server.ask(&format!("/audit/entries/{first}"), None) {
            Ok(entry) => match entry.pointer("/payload/message").and_then(Value::as_str) {
                Some(message) => Ok(message.to_owned()),
                None => Err(Fail::failed(format!("the message of {id} was erased"))),
            },
            Err(fail) if fail.code == exit::DENIED => listed(),
            Err(fail) => Err(fail),
        }
    }

    fn is_ask_socket(&self) -> bool {
        matches!(self, Self::Asking(..))
    }

    /// The approvals that the run asked for, as far as this caller may see them.
    fn approvals(&self, id: &RunId) -> Result<Vec<Value>, Fail> {
        let mut found = Vec::new();
        let mut next = Some(0);
        while let Some(after) = next {
            let page = match self {
                Self::Server(server) => match server.ask(&format!("/approvals?after={after}"), None) {
                    Err(fail) if fail.code == exit::DENIED => return Ok(found),
                    page => page?,
                },
                Self::Managed(_, home) => managed::approvals(home, after)?,
                // A user whom the socket refuses sees the run without its approvals.
                Self::Asking(_, data) => {
                    let asked = json!({ "op": Operation::ApprovalList.as_str(), "after": after });
                    match admin::call(data, &asked) {
                        Err(_) => return Ok(found),
                        Ok(page) => page,
                    }
                }
                Self::Files(_, ledger) => {
                    let page = Approval::list(ledger, None, after, limits::PAGE_ITEMS, |_| true);
                    let (items, next) = page.map_err(Fail::failed)?;
                    json!({ "items": items, "next": next })
                }
            };
            let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
            found.extend(items.filter(|one| word(one, "/run") == id.as_str()).cloned());
            // A number from the files, a string over HTTP.
            next = page.get("next").and_then(|next| next.as_u64().or_else(|| next.as_str()?.parse().ok()));
        }
        Ok(found)
    }
}
