//! `POST /agent/run` with `Accept: text/event-stream`: what the run does, as it happens.
//!
//! An event of something recorded has the number of its entry as its `id`. Words of a reply that is
//! still coming have none: they are provisional. The last event has the same JSON as a response
//! that is not a stream. A reader that goes away does not stop the run.

use crate::agent::{DecidedCall, LiveWords, RunError, RunNews, RunReply, RunRequest, RunStatus, Step, Watch};
use crate::auth::Principal;
use crate::http::app::App;
use crate::http::middleware::{IsStream, KeptAlive};
use crate::http::problem::Problem;
use crate::http::stream::{Events, Streams};
use crate::policy::{Door, Over, Power};
use crate::types::{StepStatus, limits};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Runs a message and streams what the run does. A run that does not begin is a problem, as without
/// a stream.
pub(super) async fn answer(
    app: App,
    streams: &Streams,
    alive: KeptAlive,
    (principal, door): (Principal, Door),
    asked: RunRequest,
) -> Result<Response, Problem> {
    let slot = streams.take(&principal.id())?;
    let (tell, mut news) = mpsc::unbounded_channel();
    // Without a reader nothing is kept.
    let watch = Watch::new(move |one| drop(tell.send(one))).with_words();
    let (agent, by) = (app.agent.clone().watched(watch), principal.clone());
    let (done, ended) = oneshot::channel();
    tokio::spawn(async move {
        let made = agent.run(&by, door, asked).await;
        // The news end before the outcome is there.
        drop(agent);
        drop(done.send(made));
        drop(alive);
    });
    let Some(first) = news.recv().await else {
        let made: Result<RunReply, RunError> = ended.await.map_err(Problem::internal)?;
        return Ok(super::responded::respond(made?));
    };
    let kept = (app.clone(), principal, door);
    let events = RunEvents { kept, first: Some(first), news, ended: Some(ended), has_words: false };
    let mut response = slot.answer(app, events);
    response.extensions_mut().insert(IsStream);
    Ok(response)
}

/// The events of one run.
struct RunEvents {
    kept: (App, Principal, Door),
    first: Option<RunNews>,
    news: mpsc::UnboundedReceiver<RunNews>,
    /// The outcome of the run; `None` once it was sent.
    ended: Option<oneshot::Receiver<Result<RunReply, RunError>>>,
    /// Whether words were sent that no reply has confirmed.
    has_words: bool,
}

/// Events that are sent at once, in bytes; one more may be added to them.
const BATCH_BYTES: usize = 16 << 10;

impl Events for RunEvents {
    async fn has_access(&self) -> bool {
        let (app, principal, door) = &self.kept;
        let may = |by: &Principal| app.agent.gate().may(by, Power::Run, Over::Server, *door).is_ok();
        app.authority.standing(principal).await.is_ok_and(|by| may(&by))
    }

    /// Returns `None` after the last event, or if the reader has lost access.
    async fn next(&mut self) -> Option<String> {
        self.ended.as_ref()?;
        let heard = match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => tokio::time::timeout(Duration::from_millis(limits::TAIL_MS), self.news.recv()).await,
        };
        let (mut events, mut is_recorded) = (String::new(), false);
        match heard {
            Err(_) => return Some(events),
            Ok(None) => {
                is_recorded = true;
                self.last(&mut events).await;
            }
            Ok(Some(news)) => {
                let mut next = Some(news);
                while let Some(news) = next {
                    next = self.add(news, &mut events, &mut is_recorded);
                }
            }
        }
        if is_recorded && !self.has_access().await {
            return None;
        }
        Some(events)
    }

    /// [`next`](Events::next) waits itself.
    async fn wait(&mut self) {}

    /// As the response to a run that is not streamed.
    fn outlasts_stop(&self) -> bool {
        true
    }
}

impl RunEvents {
    /// Adds the events of `news`. Returns the next news, if there are some and there is room.
    fn add(&mut self, news: RunNews, events: &mut String, is_recorded: &mut bool) -> Option<RunNews> {
        let mut next = self.news.try_recv().ok();
        *is_recorded |=
            !matches!(news, RunNews::Asking | RunNews::Words(_) | RunNews::Void(_) | RunNews::Retrying(_));
        match news {
            RunNews::Begun(begun) => event(events, Some(begun.seq), "run.started", &begun),
            RunNews::Asking => {}
            RunNews::Words(words) => {
                self.has_words = true;
                let mut text = words.text().to_owned();
                while let Some(RunNews::Words(more)) =
                    next.take_if(|next| matches!(next, RunNews::Words(_)) && text.len() < BATCH_BYTES)
                {
                    text.push_str(LiveWords::text(&more));
                    next = self.news.try_recv().ok();
                }
                event(events, None, "text.delta", &json!({ "text": text }));
            }
            RunNews::Void(reason) => {
                if std::mem::take(&mut self.has_words) {
                    event(events, None, "text.void", &json!({ "reason": reason }));
                }
            }
            RunNews::Retrying(retried) => event(events, None, "model.retry", &retried),
            RunNews::Trimmed(trimmed) => event(events, Some(trimmed.seq), "context.trim", &trimmed),
            RunNews::NextModel(change) => event(events, None, "model.changed", &change),
            RunNews::Said(reply) => {
                self.has_words = false;
                event(events, Some(reply.seq), "message", &reply);
            }
            RunNews::Decided(calls) => calls.iter().for_each(|call| decided(events, call)),
            RunNews::Step(step) => event(events, step.ledger.result, "call.result", &step),
        }
        match next {
            Some(more) if events.len() >= BATCH_BYTES => {
                self.first = Some(more);
                None
            }
            next => next,
        }
    }

    async fn last(&mut self, events: &mut String) {
        let Some(ended) = self.ended.take() else { return };
        let made = match ended.await {
            Ok(made) => made.map_err(Problem::from),
            Err(e) => Err(Problem::internal(e)),
        };
        match made {
            Ok(reply) => {
                let waits = matches!(reply.status, RunStatus::Waiting | RunStatus::Paused);
                let name = if waits { "run.waiting" } else { "run.finished" };
                event(events, reply.ledger.as_ref().map(|ledger| ledger.last), name, &reply);
            }
            Err(problem) => event(events, None, "error", &problem.members(None)),
        }
    }
}

fn decided(events: &mut String, call: &DecidedCall) {
    let waits = |step: &Step| step.status == StepStatus::Waiting;
    match call {
        DecidedCall::Allowed(call) => event(events, Some(call.seq), "call.decision", call),
        DecidedCall::Other(step) => {
            let name = if waits(step) { "approval.requested" } else { "call.decision" };
            event(events, Some(step.ledger.decision), name, step);
        }
    }
}

fn event(events: &mut String, id: Option<u64>, name: &str, data: &impl Serialize) {
    // JSON contains no line breaks here, and writing to a String cannot fail.
    let data = serde_json::to_string(data).unwrap_or_default();
    if let Some(id) = id {
        let _ = writeln!(events, "id: {id}");
    }
    let _ = write!(events, "event: {name}\ndata: {data}\n\n");
}
