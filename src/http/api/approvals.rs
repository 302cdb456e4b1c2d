//! `GET /approvals`: a page of approvals, or a stream of their changes as server-sent events.

use super::approval::unfit;
use super::follow::wants_events;
use crate::auth::Principal;
use crate::gate::{Approval, ApprovalsAsked, Sight, State as Standing};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::problem::Problem;
use crate::http::stream::{Events, Streams};
use crate::policy::{Door, Power};
use crate::types::{ApprovalId, clock, limits};
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::json;
use std::collections::BTreeMap;

/// Interval between two checks of the open approvals while nothing is appended, in microseconds: an
/// approval that expires has no entry yet.
const LOOK_US: u64 = 1_000_000;

/// Returns a page of approvals in the order of their requests, or with `order=newest` the newest
/// first; only those in `state` and of `requester`, a name such as `key:Ab3dEf9h`. `next` is the
/// `after` of the next page, and null on the last one. With `Accept: text/event-stream` it sends
/// the pending ones, then every new one and every change.
pub(in crate::http) async fn list(
    State(app): State<App>,
    Extension(streams): Extension<Streams>,
    caller: Caller,
    headers: HeaderMap,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let door = caller.door();
    let principal = caller.able(Power::ApprovalRead)?;
    if wants_events(&headers) {
        if let Some((name, _)) = asked.first() {
            return Err(unfit(name, "unknown parameter of the stream"));
        }
        let reader = principal.id();
        return streams.answer(app.clone(), &reader, OpenApprovals::new(app, principal, door));
    }
    let (mut list, mut limit) = (ApprovalsAsked::default(), limits::PAGE_ITEMS);
    for (name, value) in &asked {
        match name.as_str() {
            "state" => {
                let must = "must be `pending`, `granted`, `refused`, `expired`, `spent` or `void`";
                list.state = Some(Standing::parse(value).ok_or_else(|| unfit("state", must))?);
            }
            "after" => {
                let after = value.parse().map_err(|_| unfit("after", "must be the `next` of a page"))?;
                list.after = Some(after);
            }
            "requester" => list.requester = Some(value.clone()),
            "order" => {
                list.is_newest_first = match value.as_str() {
                    "oldest" => false,
                    "newest" => true,
                    _ => return Err(unfit("order", "must be `oldest` or `newest`")),
                }
            }
            "limit" => {
                let fits = value.parse().ok().filter(|limit| (1..=limits::PAGE_ITEMS_MAX).contains(limit));
                let must = format!("must be a number from 1 to {}", limits::PAGE_ITEMS_MAX);
                limit = fits.ok_or_else(|| unfit("limit", &must))?;
            }
            other => return Err(unfit(other, "unknown parameter of this list")),
        }
    }
    let sight = app.agent.gate().sight(&principal, Power::ApprovalRead, door)?;
    let read = move || Approval::page(app.agent.ledger(), &list, limit, |owner| sight.sees(owner));
    let (items, next) = tokio::task::spawn_blocking(read).await.map_err(Problem::internal)??;
    Ok(Json(json!({ "items": items, "next": next.map(|next| next.to_string()) })).into_response())
}

/// Approvals that can still change.
struct OpenApprovals {
    app: App,
    principal: Principal,
    door: Door,
    /// The state of each one that was sent last.
    sent: BTreeMap<ApprovalId, Standing>,
    /// The last entry that was searched.
    after: u64,
    /// The ledger's size at the last check, and the time of that check.
    looked: Option<(u64, u64)>,
}

impl OpenApprovals {
    fn new(app: App, principal: Principal, door: Door) -> Self {
        Self { app, principal, door, sent: BTreeMap::new(), after: 0, looked: None }
    }

    /// Reads the changes from the ledger. Blocking.
    fn look(
        app: &App,
        sight: &Sight,
        sent: &mut BTreeMap<ApprovalId, Standing>,
        after: &mut u64,
        is_first: bool,
    ) -> Result<String, Problem> {
        let ledger = app.agent.ledger();
        let mut out = String::new();
        for id in sent.keys().cloned().collect::<Vec<_>>() {
            if let Some(approval) =
                Approval::find(ledger, &id)?.filter(|approval| sight.sees(&approval.requester.principal))
            {
                write_event(&approval, sent, &mut out);
            }
        }
        loop {
            let (items, next) =
                Approval::list(ledger, None, *after, limits::PAGE_ITEMS_MAX, |owner| sight.sees(owner))?;
            for approval in items {
                *after = approval.ledger.max(*after);
                // Only the pending ones among the earlier approvals are sent.
                if is_first && approval.state != Standing::Pending {
                    if is_open(approval.state) {
                        sent.insert(approval.id, approval.state);
                    }
                } else {
                    write_event(&approval, sent, &mut out);
                }
            }
            if next.is_none() {
                return Ok(out);
            }
        }
    }
}

impl Events for OpenApprovals {
    /// Returns `None` if the ledger cannot be read.
    async fn next(&mut self) -> Option<String> {
        let (size, now) = (self.app.agent.ledger().head().size, clock::mono_us());
        let is_due = |(seen, at): (u64, u64)| size != seen || now.saturating_sub(at) >= LOOK_US;
        if !self.looked.is_none_or(is_due) {
            return Some(String::new());
        }
        let is_first = self.looked.replace((size, now)).is_none();
        let (app, mut sent, mut after) = (self.app.clone(), std::mem::take(&mut self.sent), self.after);
        // Asked again each time: the rules may have changed.
        let sight = app.agent.gate().sight(&self.principal, Power::ApprovalRead, self.door).ok()?;
        let look = move || {
            let text = Self::look(&app, &sight, &mut sent, &mut after, is_first);
            text.map(|text| (text, sent, after))
        };
        let (text, sent, after) = tokio::task::spawn_blocking(look).await.ok()?.ok()?;
        (self.sent, self.after) = (sent, after);
        Some(text)
    }

    async fn has_access(&self) -> bool {
        let may = |by: &Principal| self.app.agent.gate().holds(by, Power::ApprovalRead, self.door).is_ok();
        self.app.authority.standing(&self.principal).await.is_ok_and(|by| may(&by))
    }
}

fn is_open(state: Standing) -> bool {
    matches!(state, Standing::Pending | Standing::Granted)
}

/// Writes one event if the approval differs from what was sent last. JSON contains no line breaks
/// here.
fn write_event(approval: &Approval, sent: &mut BTreeMap<ApprovalId, Standing>, out: &mut String) {
    if sent.get(&approval.id) == Some(&approval.state) {
        return;
    }
    if is_open(approval.state) {
        sent.insert(approval.id.clone(), approval.state);
    } else {
        sent.remove(&approval.id);
    }
    let one = serde_json::to_string(approval).unwrap_or_default();
    out.push_str(&format!("event: approval\ndata: {one}\n\n"));
}
