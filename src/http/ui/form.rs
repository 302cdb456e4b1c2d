//! The fields of a submitted form.

use crate::http::problem::{Code, Problem};
use axum::Form;
use axum::extract::{FromRequest as _, Request};
use axum::response::IntoResponse as _;
use std::time::Duration;

/// Names and values, in the order sent.
pub(super) type Fields = Vec<(String, String)>;

/// Reads a form within the limits of any body, in `time_max`.
pub(super) async fn read(time_max: Duration, request: Request) -> Result<Fields, Problem> {
    let reading = Form::<Fields>::from_request(request, &());
    let late = |_| Problem::new(Code::TimedOut, "the form did not arrive in time");
    let Form(fields) = tokio::time::timeout(time_max, reading)
        .await
        .map_err(late)?
        .map_err(|e| Problem::from_status(e.into_response().status()))?;
    Ok(fields)
}

pub(super) fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(is, _)| is == name).map_or("", |(_, value)| value)
}
