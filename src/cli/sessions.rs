//! `par sessions`: conversations of several runs.

use super::exit::{self, Fail};
use super::remote::Server;
use super::show::word;
use super::table::{Cell, Column, Screen, Sheet};
use super::{compose, local, query, show};
use crate::agent::{self, Agent, RunError, RunQuery, SessionRefusal};
use crate::auth::{self, Principal, Role};
use crate::config::{Config, Home};
use crate::ledger::Ledger;
use crate::types::{SessionId, limits, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List sessions, the one with the newest run first
    List(SessionList),
    /// Show the runs of a session, oldest first
    Show(NamedSession),
    /// End a session: no run goes on with it
    End(SessionEnding),
}

#[derive(Debug, Args)]
pub(super) struct SessionList {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    place: SessionPlace,
}

#[derive(Debug, Args)]
pub(super) struct NamedSession {
    /// Id of the session, `ses_…`, or `latest`
    session: String,
    #[command(flatten)]
    place: SessionPlace,
}

#[derive(Debug, Args)]
pub(super) struct SessionEnding {
    #[command(flatten)]
    named: NamedSession,
    /// Reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
struct SessionPlace {
    /// Use the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or ~/.config/par/key;
    /// needs no home here [env: PAR_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// The session with the newest run of the caller.
const LATEST: &str = "latest";

/// Where sessions are read from.
enum SessionSource {
    Server(Box<Server>),
    /// The files of a home, on which no server runs.
    Files(Box<Config>, Ledger),
}

impl SessionCommand {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::List(list) => list.run(home, is_json),
            Self::Show(named) => named.show(home, is_json),
            Self::End(ending) => ending.run(home, is_json),
        }
    }
}

impl SessionPlace {
    fn open(&self, home: Home) -> Result<SessionSource, Fail> {
        if let Some(url) = self.url.clone().or_else(|| home.server_url()) {
            return Ok(SessionSource::Server(Box::new(Server::at(&url)?.checked()?)));
        }
        if let Some(server) = Server::of_home(&home)? {
            return Ok(SessionSource::Server(Box::new(server)));
        }
        let config = compose::load(home)?;
        // Only the owner of the home reads its files.
        auth::local(&config.home.data, Role::Admin).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
        let ledger = compose::open_ledger(&config)?;
        Ok(SessionSource::Files(Box::new(config), ledger))
    }
}

impl SessionSource {
    fn list(&self, limit: usize) -> Result<Vec<Value>, Fail> {
        match self {
            Self::Server(server) => listed(server, limit),
            Self::Files(_, ledger) => {
                let rows = agent::list_sessions(ledger, None, limit, |_| true).map_err(Fail::failed)?;
                rows.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(Fail::failed)
            }
        }
    }

    /// The id that is meant.
    fn meant(&self, named: &str) -> Result<SessionId, Fail> {
        let newest = if named == LATEST { self.list(1)? } else { Vec::new() };
        parse(named, newest.first())
    }

    /// The runs of a session, oldest first.
    fn runs(&self, id: &SessionId) -> Result<Vec<Value>, Fail> {
        let none = || Fail::failed(SessionRefusal::Unknown);
        match self {
            Self::Server(server) => {
                let mut found = server.ask(&format!("/sessions/{id}"), None)?;
                match found.get_mut("runs").map(Value::take) {
                    Some(Value::Array(runs)) => Ok(runs),
                    _ => Err(none()),
                }
            }
            Self::Files(_, ledger) => {
                let limit = limits::SESSION_RUNS_MAX;
                let asked = RunQuery { session: Some(id.clone()), limit, ..RunQuery::default() };
                let page = agent::list_runs(ledger, None, &asked, |_| true).map_err(Fail::failed)?;
                let rows = page.rows.iter().rev().map(serde_json::to_value);
                let rows: Vec<Value> = rows.collect::<Result<_, _>>().map_err(Fail::failed)?;
                if rows.is_empty() { Err(none()) } else { Ok(rows) }
            }
        }
    }
}

/// At most `limit` sessions of a server.
fn listed(server: &Server, limit: usize) -> Result<Vec<Value>, Fail> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    while rows.len() < limit {
        let count = (limit - rows.len()).min(limits::PAGE_ROWS_MAX);
        let mut page = server.ask(&format!("/sessions?limit={count}{after}"), None)?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            rows.extend(items);
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = format!("&after={}", query::encoded(next)),
            None => break,
        }
    }
    Ok(rows)
}

/// The id that a person means: their own words, or the session of the newest row.
pub(super) fn parse(named: &str, newest: Option<&Value>) -> Result<SessionId, Fail> {
    if named == LATEST {
        let newest = newest.and_then(|row| SessionId::parse(row.get("session")?.as_str()?));
        return newest.ok_or_else(|| Fail::failed("there is no session yet"));
    }
    SessionId::parse(named).ok_or_else(|| {
        let shown = text::visible_line(text::prefix(named, limits::SHOWN_BYTES_MAX));
        Fail::usage(format!(
            "`{shown}` is not the id of a session, expected `ses_…` or `{LATEST}`: `par sessions list` shows the ids"
        ))
    })
}

/// The id that is meant, on a server.
pub(super) fn meant(server: &Server, named: &str) -> Result<SessionId, Fail> {
    let newest = if named == LATEST { listed(server, 1)? } else { Vec::new() };
    parse(named, newest.first())
}

/// The id that is meant, in this process.
pub(super) fn meant_here(agent: &Agent, by: &Principal, named: String) -> Result<String, RunError> {
    if named != LATEST {
        return Ok(named);
    }
    let own = by.id();
    let newest = agent::list_sessions(agent.ledger(), None, 1, |owner| owner == own);
    let newest = newest.map_err(|e| RunError::Ledger(e.to_string()))?;
    let none = RunError::Session(SessionRefusal::Unknown);
    newest.first().map(|row| row.session.as_str().to_owned()).ok_or(none)
}

impl SessionList {
    fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let rows = self.place.open(home)?.list(self.limit)?;
        if is_json {
            rows.iter().try_for_each(show::json)?;
            return Ok(exit::OK);
        }
        table(&rows)?;
        Ok(exit::OK)
    }
}

/// The sessions of a list.
pub(super) fn table(rows: &[Value]) -> Result<(), Fail> {
    let screen = Screen::stdout();
    let mut table = Sheet::new(&[
        Column::Whole("session"),
        Column::Whole("active"),
        Column::Whole("standing"),
        Column::Cut("who"),
        Column::Whole("runs"),
        Column::Words("first message"),
    ]);
    for row in rows {
        table.push(vec![
            word(row, "/session").into(),
            Cell::written_time(&word(row, "/active"), &screen),
            word(row, "/standing").into(),
            word(row, "/who").into(),
            word(row, "/runs").into(),
            word(row, "/message").into(),
        ]);
    }
    table.print_or(&screen, "par: no session yet: `par chat` begins one")
}

impl NamedSession {
    fn show(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let source = self.place.open(home)?;
        let id = source.meant(&self.session)?;
        let runs = source.runs(&id)?;
        if is_json {
            show::json(&json!({ "session": id, "runs": runs }))?;
            return Ok(exit::OK);
        }
        super::runs::table(&runs)?;
        show::note(&format!("par: `par runs show RUN` shows a run; `par chat --session {id}` goes on"));
        Ok(exit::OK)
    }
}

impl SessionEnding {
    fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let source = self.named.place.open(home)?;
        let id = source.meant(&self.named.session)?;
        let entry = match source {
            SessionSource::Server(server) => {
                let body = json!({ "reason": self.reason });
                let ended = server.ask(&format!("/sessions/{id}/end"), Some(&body))?;
                ended.get("ended_by").and_then(Value::as_u64)
            }
            SessionSource::Files(config, ledger) => {
                // The lock is taken again by the command.
                drop(ledger);
                Some(local::with_front(*config, "sessions end", async |home| {
                    let ended = home.agent.end_session(&home.principal, None, &id, self.reason.as_deref());
                    ended.await.map_err(Fail::failed)
                })?)
            }
        };
        if is_json {
            show::json(&json!({ "session": id, "ended_by": entry }))?;
        } else {
            show::line(&format!("ended {id}"))?;
        }
        Ok(exit::OK)
    }
}
