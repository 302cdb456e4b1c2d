//! Why an answer was refused, with the exit code.

use crate::cli::exit::{self, Fail};
use crate::gate::AnswerError;
use crate::http::admin::{AdminError, FailureCode};
use serde_json::Value;

pub(super) fn ok(answered: Result<Value, AdminError>) -> Result<Value, Fail> {
    answered.map_err(|e| match e {
        AdminError::Failed(code, why) => Fail::new(code_of(code), why),
        other => other.into(),
    })
}

pub(super) fn refused(error: AnswerError) -> Fail {
    Fail::new(code_of((&error).into()), error)
}

fn code_of(code: FailureCode) -> u8 {
    match code {
        // The rules do not let this credential answer.
        FailureCode::Forbidden => exit::DENIED,
        code => exit::of_failure(code),
    }
}
