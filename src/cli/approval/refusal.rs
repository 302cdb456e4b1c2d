//! Why an answer was refused, with the exit code.

use crate::cli::exit::{self, Fail};
use crate::gate::AnswerError;
use crate::http::admin::{AdminError, FailureCode};
use serde_json::Value;

pub(super) fn ok(answered: Result<Value, AdminError>) -> Result<Value, Fail> {
    answered.map_err(|e| match e {
        AdminError::Refused(why) => Fail::new(exit::UNAUTHENTICATED, why),
        AdminError::Failed(code, why) => Fail::new(code_of(code), why),
        other => Fail::failed(other),
    })
}

pub(super) fn refused(error: AnswerError) -> Fail {
    Fail::new(code_of((&error).into()), error)
}

fn code_of(code: FailureCode) -> u8 {
    match code {
        FailureCode::Invalid => exit::USAGE,
        FailureCode::OwnRequest | FailureCode::NotInGroup | FailureCode::Forbidden => exit::DENIED,
        _ => exit::FAILED,
    }
}
