//! `GET /audit`, also `/audit/entries`, and `GET /audit/entries/{seq}`.

use super::follow::{Follow, wants_events};
use crate::auth::{Principal, key_names};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::blocking::blocking;
use crate::http::link::link;
use crate::http::problem::{Code, Problem};
use crate::http::stream::Streams;
use crate::ledger::query::KeyNames;
use crate::ledger::{Filter, Kind, Order, ReadError, Stored, Unverified};
use crate::policy::Power;
use crate::types::{limits, text};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::http::header::LINK;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

/// Returns a page of headers. `next` is the `after` of the next page, and null on the last one; the
/// header `Link` has the whole link. `index` says how many entries the index covers, if it was
/// used; the others were read. A call reads a bounded number of entries, so a page may be short or
/// empty and still have a `next`. With `Accept: text/event-stream` it streams the entries after
/// `after`, or from now on; an event's id is the entry's number.
pub(in crate::http) async fn list(
    State(app): State<App>,
    Extension(streams): Extension<Streams>,
    caller: Caller,
    headers: HeaderMap,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let door = caller.door();
    let principal = caller.holding(Power::AuditRead)?;
    let page = EntryQuery::read(&asked)?;
    if wants_events(&headers) {
        let reader = principal.id();
        let named = app.clone();
        let filter = blocking(move || Ok(named.by_ids(page.filter)?)).await?;
        let follow = Follow::new(app.clone(), principal, door, filter, page.after, &headers);
        return streams.answer(app, &reader, follow);
    }
    let page_json = blocking(move || page.fill(&app, &principal)).await?;
    let Some(next) = page_json.get("next").and_then(Value::as_str) else {
        return Ok(Json(page_json).into_response());
    };
    let mut on: Vec<(&str, &str)> =
        asked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    on.retain(|(name, _)| *name != "after");
    on.push(("after", next));
    let on = format!("<{}>; rel=\"next\"", link("/audit/entries", &on));
    Ok(([(LINK, on)], Json(page_json)).into_response())
}

/// Returns one entry: its header, the bytes that were hashed, their hash, and the payload.
pub(in crate::http) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(seq): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.holding(Power::AuditRead)?;
    let none = || Problem::new(Code::NotFound, "no entry has this number");
    let seq: u64 = seq.parse().map_err(|_| none())?;
    let read = move || {
        let ledger = app.agent.ledger();
        if let Some(unverified) = ledger.reader().unverified(seq)? {
            return Ok(Some(unverified_json(&unverified)));
        }
        let names = ledger.state(key_names).map_err(ReadError::from)?;
        Ok(ledger.reader().entry(seq)?.map(|stored| entry_json(&stored, &names)))
    };
    blocking(read).await?.map(Json).ok_or_else(none)
}

/// What is stored of an entry that does not verify: `damaged` says what does not hold.
fn unverified_json(entry: &Unverified) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "seq": entry.seq,
        "damaged": entry.what,
        "header_bytes": text(&entry.header),
        "payload_state": "damaged",
        "payload": entry.payload.as_ref().map(|(_, body)| text(body)),
    })
}

fn entry_json(stored: &Stored, names: &KeyNames) -> Value {
    // The verifiers of a key are never shown to any caller.
    let is_secret = stored.header.is(Kind::KeyCreate);
    let (state, payload) = match &stored.body {
        None => ("erased", Value::Null),
        Some(_) if is_secret => ("withheld", Value::Null),
        Some(body) => ("shown", serde_json::from_slice(body).unwrap_or_default()),
    };
    json!({
        "seq": stored.header.seq,
        "leaf": stored.leaf().hex(),
        "who": stored.header.str("principal").map(|principal| names.shown(principal)),
        "header": stored.header.fields,
        "header_bytes": String::from_utf8_lossy(&stored.bytes),
        "payload_state": state,
        "payload": payload,
    })
}

/// The parameters of a page.
struct EntryQuery {
    filter: Filter,
    after: Option<u64>,
    limit: usize,
    order: Order,
}

impl EntryQuery {
    fn read(asked: &[(String, String)]) -> Result<Self, Problem> {
        let mut page = Self {
            filter: Filter::default(),
            after: None,
            limit: limits::PAGE_ITEMS,
            order: Order::Ascending,
        };
        for (at, (name, value)) in asked.iter().enumerate() {
            if asked.iter().take(at).any(|(other, _)| other == name) {
                return Err(unfit(name, "must be given once, not twice"));
            }
            page.set(name, value)?;
        }
        Ok(page)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        match name {
            "q" => self.filter = Filter::parse(value).map_err(|what| unfit(name, &what.to_string()))?,
            "after" => {
                let after = value.parse().map_err(|_| unfit(name, "must be the `next` of a page"))?;
                self.after = Some(after);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=limits::PAGE_ITEMS_MAX).contains(limit));
                let must = format!("must be a number from 1 to {}", limits::PAGE_ITEMS_MAX);
                self.limit = limit.ok_or_else(|| unfit(name, &must))?;
            }
            "order" => {
                self.order = match value {
                    "asc" => Order::Ascending,
                    "desc" => Order::Descending,
                    _ => return Err(unfit(name, "must be `asc` or `desc`")),
                };
            }
            _ => return Err(unfit(name, "unknown parameter of this list")),
        }
        Ok(())
    }

    fn fill(&self, app: &App, principal: &Principal) -> Result<Value, Problem> {
        let filter = app.known_query(self.filter.clone(), principal)?;
        let filter = filter.map_err(|unknown| unfit("q", &unknown.to_string()))?;
        let from = match (self.order, self.after) {
            (Order::Ascending, None) => Some(0),
            (Order::Ascending, Some(after)) => after.checked_add(1),
            (Order::Descending, None) => Some(u64::MAX),
            (Order::Descending, Some(after)) => after.checked_sub(1),
        };
        let Some(from) = from else { return Ok(json!({ "items": [], "next": null, "index": null })) };
        let found = app.headers(&filter, from, self.order, self.limit)?;
        let next = found.next.map(|seq| match self.order {
            Order::Ascending => seq.saturating_sub(1).to_string(),
            Order::Descending => seq.saturating_add(1).to_string(),
        });
        let items: Vec<Value> =
            found.headers.into_iter().map(|header| Value::Object(header.fields)).collect();
        Ok(json!({ "items": items, "next": next, "index": found.index }))
    }
}

fn unfit(name: &str, what: &str) -> Problem {
    let shown = |text: &str| text::visible_line(text::prefix(text, limits::SHOWN_BYTES_MAX));
    Problem::new(Code::Invalid, format!("`{}`: {}", shown(name), shown(what)))
}
