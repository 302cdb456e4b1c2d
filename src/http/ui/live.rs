//! `GET /ui/events`: entries as they become durable, as server-sent events.
//!
//! The id of an event is the entry's number, so that a browser that reconnects says where it
//! stopped.

use super::logins::Login;
use super::row::{self, ShownEntry};
use super::state::Ui;
use super::visitor::Visitor;
use crate::http::api::follow::newer;
use crate::http::blocking::blocking;
use crate::http::problem::{Code, Problem};
use crate::http::stream::Events;
use crate::ledger::Filter;
use crate::policy::{Door, Over, Power};
use crate::types::clock;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;

pub(super) async fn stream(
    State(ui): State<Ui>,
    visitor: Visitor,
    headers: HeaderMap,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let reader = visitor.holding(Power::AuditRead)?.id();
    let value = |name: &str| asked.iter().find(|(is, _)| is == name).map_or("", |(_, value)| value.as_str());
    let filter = Filter::parse(value("q")).map_err(|what| Problem::new(Code::Invalid, what.to_string()))?;
    let named = ui.app.clone();
    let filter = blocking(move || Ok(named.by_ids(filter)?)).await?;
    let head = ui.app.agent.ledger().head().size;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let last = last.or_else(|| value("after").parse().ok());
    let from = last.map_or(head, |last| last.saturating_add(1));
    let (app, streams) = (ui.app.clone(), ui.streams.clone());
    streams.answer(
        app,
        &reader,
        LiveTail { ui, login: visitor.login().clone(), door: visitor.door(), filter, from },
    )
}

struct LiveTail {
    ui: Ui,
    login: Login,
    door: Door,
    filter: Filter,
    /// The first entry that has not been read.
    from: u64,
}

impl Events for LiveTail {
    async fn has_access(&self) -> bool {
        let login = self.ui.logins.look(&self.login.hash, clock::mono_us());
        match login {
            // The rules may have changed, or the login may have expired.
            Some(login) => match self.ui.app.authority.standing(&login.proven).await {
                Ok(by) => {
                    let gate = self.ui.app.agent.gate();
                    gate.may(&by, Power::AuditRead, Over::Server, self.door).is_ok()
                }
                Err(_) => false,
            },
            None => false,
        }
    }

    /// Returns `None` if the ledger cannot be read.
    async fn next(&mut self) -> Option<String> {
        let headers = newer(&self.ui.app, &self.filter, &mut self.from).await?;
        let ledger = self.ui.app.agent.ledger().clone();
        let rows = blocking(move || Ok(row::rows(&ledger, headers)?)).await.ok()?;
        Some(rows.iter().map(event).collect())
    }
}

/// JSON contains no line breaks here, and a row's text has none left.
fn event(shown: &ShownEntry) -> String {
    format!("id: {}\nevent: entry\ndata: {}\n\n", shown.seq(), shown.json())
}
