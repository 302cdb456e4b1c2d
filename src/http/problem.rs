//! Every error, as RFC 9457 `application/problem+json` with a stable code.
//!
//! A problem contains only what the caller may know. Details for the operator go to the log where
//! the problem is created. `middleware` adds the request id.

use crate::agent::{CancelError, RunError, RunListError, SchemaFault, SessionRefusal};
use crate::auth::Refusal;
use crate::gate::{AnswerError, HaltError};
use crate::ledger::ReadError;
use crate::types::{RunId, limits, text};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:ident $text:literal $title:literal;)*) => {
        /// The kind of an error, for programs: the `code` member and the end of `type`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub(super) fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            pub(super) fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The request cannot be parsed.
    Malformed = BAD_REQUEST "malformed" "The request cannot be read";
    /// The schema for the answer is not one that an answer can be held to.
    BadSchema = BAD_REQUEST "bad_schema" "The response schema cannot be used";
    /// No valid key.
    Unauthenticated = UNAUTHORIZED "unauthenticated" "A valid API key is required";
    /// The key never holds this power.
    Forbidden = FORBIDDEN "forbidden" "This key may not do this";
    /// The requester of a call cannot approve it.
    OwnRequest = FORBIDDEN "own_request" "The requester cannot approve their own call";
    /// The user is not in the required group.
    NotInGroup = FORBIDDEN "not_in_group" "This user is not in the group that must approve";
    /// Unknown, or not visible to the caller.
    NotFound = NOT_FOUND "not_found" "Not found, or not visible to this key";
    /// The resource exists, with other methods.
    WrongMethod = METHOD_NOT_ALLOWED "wrong_method" "This resource does not support this method";
    /// The body did not arrive in time.
    TimedOut = REQUEST_TIMEOUT "timed_out" "The request did not arrive in time";
    /// It is answered already or no longer needs an answer.
    Answered = CONFLICT "answered" "The approval is already answered";
    /// It expired.
    Expired = CONFLICT "expired" "The approval has expired";
    /// The answer names another call.
    WrongCall = CONFLICT "wrong_call" "The answer is for another call";
    /// Policy or tools have changed since.
    Changed = CONFLICT "changed" "The call or its rules have changed since it was requested";
    /// A person halted PAR, or what was asked for.
    Halted = CONFLICT "halted" "A person has halted this";
    /// The run has ended.
    Ended = CONFLICT "ended" "The run has already ended";
    /// A run of the session has not ended.
    SessionBusy = CONFLICT "session_busy" "A run of this session has not ended";
    /// The session has ended, or has the largest number of runs.
    SessionEnded = CONFLICT "session_ended" "The session does not go on";
    /// The session has read what its owner may not read under the rules of now.
    Withheld = FORBIDDEN "withheld" "The rules do not let this session go on";
    /// The body is too long.
    TooLarge = PAYLOAD_TOO_LARGE "too_large" "The request body is too large";
    /// The body is not JSON.
    WrongType = UNSUPPORTED_MEDIA_TYPE "wrong_type" "The request body must be JSON";
    /// The host name is not this server's.
    UnknownHost = MISDIRECTED_REQUEST "unknown_host" "This server does not serve that host name";
    /// Well-formed, but a value is not valid.
    Invalid = UNPROCESSABLE_ENTITY "unfit" "A value in the request is not valid";
    /// Known, but not supported yet.
    NotSupported = UNPROCESSABLE_ENTITY "not_supported" "This is not supported yet";
    /// A limit of number or rate was reached.
    TooMany = TOO_MANY_REQUESTS "too_many" "Too many requests";
    /// A fault of the server.
    Internal = INTERNAL_SERVER_ERROR "internal" "Internal server error";
    /// An entry does not verify.
    Damaged = INTERNAL_SERVER_ERROR "damaged" "The ledger is damaged";
    /// A verification found damage: the server only shows what is there.
    LedgerDamaged = SERVICE_UNAVAILABLE "ledger_damaged" "The ledger is damaged, and the server is read-only";
    /// The ledger cannot be written or read.
    Ledger = SERVICE_UNAVAILABLE "ledger" "The ledger is not available";
}

/// An error in the form that the caller receives.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    code: Code,
    detail: String,
    run: Option<RunId>,
    /// The place in the request, as a JSON pointer.
    pointer: Option<String>,
    retry_after_s: Option<u64>,
}

impl Problem {
    /// A problem of this `code`. `detail` says what is wrong and how to correct it, and reveals no
    /// internals.
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), run: None, pointer: None, retry_after_s: None }
    }

    /// A fault of the server. The cause goes only to the log.
    pub(super) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(error = %cause, "a request failed");
        Self::new(Code::Internal, "the cause is in the server's log under the request id")
    }

    /// A run that does not exist for the caller.
    pub(super) fn no_run(run: Option<RunId>) -> Self {
        Self { run, ..Self::new(Code::NotFound, "no such run, or this key may not see it") }
    }

    /// An error that a lower layer answered with only a status.
    pub(super) fn from_status(status: StatusCode) -> Self {
        let code = Code::ALL.iter().copied().find(|code| code.status() == status);
        let code = code.unwrap_or(if status.is_client_error() { Code::Malformed } else { Code::Internal });
        Self::new(code, code.title())
    }

    /// Status, title and detail, for a page.
    pub(super) fn words(&self) -> (StatusCode, &'static str, &str) {
        (self.code.status(), self.code.title(), &self.detail)
    }

    pub(super) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    /// The members of the problem.
    pub(super) fn members(&self, request_id: Option<&str>) -> Value {
        let mut members = json!({
            "type": format!("/problems/{}", self.code.as_str()),
            "title": self.code.title(),
            "status": self.code.status().as_u16(),
            "code": self.code.as_str(),
            "detail": self.detail,
        });
        let more = [
            ("request_id", request_id),
            ("run", self.run.as_ref().map(RunId::as_str)),
            ("pointer", self.pointer.as_deref()),
        ];
        for (name, value) in more {
            if let (Some(value), Some(members)) = (value, members.as_object_mut()) {
                members.insert(name.to_owned(), Value::from(value));
            }
        }
        members
    }

    /// Writes the problem into a response and keeps its other headers.
    pub(super) fn fill(self, response: &mut Response<axum::body::Body>, request_id: &str) {
        let members = self.members(Some(request_id));
        *response.status_mut() = self.code.status();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        // The length is that of the body that is replaced here.
        response.headers_mut().remove(CONTENT_LENGTH);
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthenticated {
            let challenge = HeaderValue::from_static("Bearer realm=\"par\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        *response.body_mut() = axum::body::Body::from(members.to_string());
    }
}

/// Carries the problem to `middleware`, which writes it.
impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// All refusals read the same, so that no caller learns which part of a key was right.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooMany { retry_after_s } => {
                Self::new(Code::TooMany, "too many requests with a refused key: wait and try again")
                    .retry_after(retry_after_s)
            }
            Refusal::Unreadable => Self::new(Code::Ledger, "keys cannot be checked at the moment"),
            _ => Self::new(
                Code::Unauthenticated,
                "send a valid key as `Authorization: Bearer par_…` or `X-API-Key: par_…`",
            ),
        }
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Invalid(..) => Self::new(Code::Invalid, error.to_string()),
            RunError::Schema(SchemaFault { ref at, .. }) => {
                let pointer =
                    format!("/response_schema{}", text::prefix(at, limits::RESPONSE_POINTER_BYTES_MAX));
                Self { pointer: Some(pointer), ..Self::new(Code::BadSchema, error.to_string()) }
            }
            RunError::Busy { .. } => Self::new(Code::TooMany, error.to_string()).retry_after(1),
            RunError::Spent { retry_after_s, .. } => {
                Self::new(Code::TooMany, error.to_string()).retry_after(retry_after_s)
            }
            RunError::Session(refusal) => refusal.into(),
            RunError::Halted(_) => Self::new(Code::Halted, error.to_string()),
            RunError::Damaged(what) => Self::new(Code::LedgerDamaged, what),
            RunError::Ledger(what) => {
                tracing::error!(error = %what, "a run was not recorded");
                Self::new(
                    Code::Ledger,
                    "the ledger cannot be written: nothing runs and no result is returned",
                )
            }
        }
    }
}

impl From<SessionRefusal> for Problem {
    fn from(refusal: SessionRefusal) -> Self {
        let words = refusal.to_string();
        match refusal {
            SessionRefusal::Unknown => Self::new(Code::NotFound, words),
            SessionRefusal::Entered => Self::new(Code::SessionBusy, words).retry_after(1),
            SessionRefusal::Busy { run, .. } => {
                Self { run: Some(run), ..Self::new(Code::SessionBusy, words) }
            }
            SessionRefusal::Ended { .. } | SessionRefusal::Idle | SessionRefusal::Full => {
                Self::new(Code::SessionEnded, words)
            }
            SessionRefusal::Withheld { .. } => Self::new(Code::Withheld, words),
        }
    }
}

impl From<CancelError> for Problem {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Unknown => Self::no_run(None),
            CancelError::Ended(_) => Self::new(Code::Ended, error.to_string()),
            CancelError::MayNot(refused) => (*refused).into(),
            CancelError::Stop(error) => error.into(),
            CancelError::Read(error) => error.into(),
        }
    }
}

impl From<HaltError> for Problem {
    fn from(error: HaltError) -> Self {
        match error {
            HaltError::MayRun => Self::new(Code::Forbidden, error.to_string()),
            HaltError::MayNot(refused) => (*refused).into(),
            HaltError::Invalid(..) => Self::new(Code::Invalid, error.to_string()),
            HaltError::Unknown(_) => Self::new(Code::NotFound, error.to_string()),
            HaltError::Ledger(error) => RunError::from(error).into(),
        }
    }
}

impl From<RunListError> for Problem {
    fn from(error: RunListError) -> Self {
        match error {
            RunListError::Read(error) => error.into(),
            error @ (RunListError::Index(_) | RunListError::NoIndex) => {
                tracing::error!(%error, "runs cannot be searched");
                Self::new(Code::Ledger, "runs cannot be searched at the moment: the index cannot be read")
            }
        }
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        let code = match error {
            AnswerError::Unknown => Code::NotFound,
            AnswerError::MayRun | AnswerError::MayNot(_) => Code::Forbidden,
            AnswerError::OwnRequest(_) => Code::OwnRequest,
            AnswerError::NotInGroup(_) => Code::NotInGroup,
            AnswerError::Expired => Code::Expired,
            AnswerError::Answered(_) => Code::Answered,
            AnswerError::WrongCall => Code::WrongCall,
            AnswerError::Changed => Code::Changed,
            AnswerError::Halted(_) => Code::Halted,
            AnswerError::Invalid(..) => Code::Invalid,
            AnswerError::Mismatch(_) => {
                return Self::new(Code::Damaged, "the approval does not match its ledger entries");
            }
            AnswerError::Ledger(e) => return RunError::from(e).into(),
            AnswerError::Read(e) => return e.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        tracing::error!(error = %error, "the ledger cannot be read");
        match error {
            ReadError::Damaged(seq, _) => {
                Self::new(Code::Damaged, format!("entry {seq} does not verify: run `par audit verify`"))
            }
            ReadError::Unsigned(..) => Self::new(Code::NotFound, error.to_string()),
            ReadError::Sqlite(_) | ReadError::Store(_) => {
                Self::new(Code::Ledger, "the ledger cannot be read at the moment")
            }
        }
    }
}
