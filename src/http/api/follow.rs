//! `GET /audit` with `Accept: text/event-stream`: matching headers as they become durable.

use crate::auth::Principal;
use crate::http::app::App;
use crate::http::blocking::blocking;
use crate::http::stream::Events;
use crate::ledger::{Filter, Header, Order};
use crate::policy::{Door, Over, Power};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use std::fmt::Write as _;

/// Number of entries read at once.
const SCAN_MAX: usize = 4_096;
/// Number of events sent at once.
const EVENTS_MAX: usize = 200;

/// Whether the request asks for a stream by name; `*/*` is a page.
pub(in crate::http) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(',')).filter_map(|one| one.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The matching entries, each once, from one number on.
pub(in crate::http) struct Follow {
    app: App,
    principal: Principal,
    door: Door,
    filter: Filter,
    /// The first entry that has not been read.
    from: u64,
}

impl Follow {
    /// Starts after `after`, or after the last event that the reader of a broken stream received;
    /// otherwise now.
    pub(in crate::http) fn new(
        app: App,
        principal: Principal,
        door: Door,
        filter: Filter,
        after: Option<u64>,
        headers: &HeaderMap,
    ) -> Self {
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok()).or(after);
        let from = last.map_or_else(|| app.agent.ledger().head().size, |last: u64| last.saturating_add(1));
        Self { app, principal, door, filter, from }
    }
}

impl Events for Follow {
    async fn has_access(&self) -> bool {
        let gate = self.app.agent.gate();
        let may = |by: &Principal| gate.may(by, Power::AuditRead, Over::Server, self.door).is_ok();
        self.app.authority.standing(&self.principal).await.is_ok_and(|by| may(&by))
    }

    /// Returns `None` if the ledger cannot be read.
    async fn next(&mut self) -> Option<String> {
        let headers = newer(&self.app, &self.filter, &mut self.from).await?;
        let mut events = String::new();
        for header in &headers {
            // JSON contains no line breaks here, and writing to a String cannot fail.
            let fields = serde_json::to_string(&header.fields).unwrap_or_default();
            let _ = write!(events, "id: {}\nevent: entry\ndata: {fields}\n\n", header.seq);
        }
        Some(events)
    }
}

/// Returns some of the entries from `from` on that match, and moves `from` after the last one read.
/// Returns `None` if the ledger cannot be read.
pub(in crate::http) async fn newer(app: &App, filter: &Filter, from: &mut u64) -> Option<Vec<Header>> {
    let size = app.agent.ledger().head().size;
    if *from >= size {
        return Some(Vec::new());
    }
    let (app, filter, start) = (app.clone(), filter.clone(), *from);
    let read = move || {
        let reader = app.agent.ledger().reader();
        Ok(reader.listed(&filter, start, Order::Ascending, EVENTS_MAX, SCAN_MAX)?)
    };
    let (headers, next) = blocking(read).await.ok()?;
    let read_to = headers.last().map_or(0, |header| header.seq.saturating_add(1));
    *from = next.unwrap_or_else(|| read_to.max(size));
    Some(headers)
}
