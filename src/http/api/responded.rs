//! The response to a run.

use crate::agent::{RunReply, RunStatus};
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};

/// The response: 200 if the run has ended, 202 with a `Location` if it continues.
pub(super) fn respond(reply: RunReply) -> Response {
    use RunStatus::{
        Cancelled, Denied, Done, Failed, Interrupted, Limit, Paused, Pending, Refused, Running, Waiting,
    };
    match reply.status {
        Done | Denied | Refused | Failed | Limit | Cancelled | Interrupted => Json(reply).into_response(),
        Pending | Running | Waiting | Paused => {
            let location = format!("/runs/{}", reply.run);
            (StatusCode::ACCEPTED, [(LOCATION, location)], Json(reply)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::respond;
    use crate::agent::RunReply;
    use serde_json::json;

    #[test]
    fn a_finished_run_is_200_and_an_unfinished_one_is_202() {
        for (status, code) in [
            ("done", 200),
            ("denied", 200),
            ("refused", 200),
            ("failed", 200),
            ("limit", 200),
            ("cancelled", 200),
            ("interrupted", 200),
            ("waiting", 202),
            ("pending", 202),
            ("running", 202),
            ("paused", 202),
        ] {
            let reply: RunReply = serde_json::from_value(json!({
                "run": "run_01JD0000000000000000000000", "session": "ses_01JD0000000000000000000000",
                "status": status, "answer": null, "steps": [],
                "usage": { "model_calls": 0, "input_tokens": 0, "output_tokens": 0 }
            }))
            .expect("reply");
            let response = respond(reply);
            assert_eq!(response.status(), code, "{status}");
            let location = response.headers().get("location").map(|at| at.to_str().expect("text"));
            assert_eq!(location, (code == 202).then_some("/runs/run_01JD0000000000000000000000"));
        }
    }
}
