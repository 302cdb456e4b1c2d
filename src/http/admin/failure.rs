//! Why an operation was not performed, and the members of a request.

use super::words::FailureCode;
use crate::auth::KeyError;
use crate::gate::{AnswerError, Refused};
use crate::ledger::RedactError;
use crate::rules::ReloadError;
use serde_json::{Map, Value};

/// Why an operation was not performed.
pub(super) struct Failure {
    pub(super) code: FailureCode,
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(code: FailureCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCode::Failed, error.to_string())
}

pub(super) fn text<'a>(asked: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Failure> {
    match asked.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Failure::new(FailureCode::Invalid, format!("`{name}` must be a string"))),
    }
}

pub(super) fn known(asked: &Map<String, Value>, names: &[&str]) -> Result<(), Failure> {
    match asked.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let name = crate::types::text::visible_line(name);
            Err(Failure::new(FailureCode::Invalid, format!("unknown member `{name}` in this request")))
        }
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}

impl From<RedactError> for Failure {
    fn from(error: RedactError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}

impl From<ReloadError> for Failure {
    fn from(error: ReloadError) -> Self {
        tracing::error!(%error, "the rules on disk were not loaded: the previous ones remain in force");
        Self::new((&error).into(), error.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::new(FailureCode::Forbidden, refused.to_string())
    }
}

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Self {
        Self::new((&error).into(), error.to_string())
    }
}
