//! Exit codes, and the error that carries one.

use crate::agent::RunStatus;
use crate::http::admin::{AdminError, FailureCode};
use std::fmt;

/// The command succeeded.
pub(super) const OK: u8 = 0;
/// The command failed.
pub(super) const FAILED: u8 = 1;
/// Wrong usage or configuration.
pub(super) const USAGE: u8 = 2;
/// A policy denied it, or a person refused it.
pub(super) const DENIED: u8 = 3;
/// A call waits for approval.
pub(super) const WAITING: u8 = 4;
/// The ledger does not verify.
pub(super) const UNVERIFIED: u8 = 5;
/// The caller is not authenticated.
pub(super) const UNAUTHENTICATED: u8 = 6;
/// The server is not reachable.
pub(super) const UNREACHABLE: u8 = 7;
/// A limit was reached.
pub(super) const LIMIT: u8 = 8;

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Fail {
    pub(super) code: u8,
    pub(super) what: String,
    /// Whether the tools or policies of the home are refused.
    pub(super) is_of_rules: bool,
}

impl Fail {
    pub(super) fn new(code: u8, what: impl fmt::Display) -> Self {
        Self { code, what: what.to_string(), is_of_rules: false }
    }

    pub(super) fn failed(what: impl fmt::Display) -> Self {
        Self::new(FAILED, what)
    }

    /// Tools or policies that are refused.
    pub(super) fn rules(what: impl fmt::Display) -> Self {
        Self { is_of_rules: true, ..Self::usage(what) }
    }

    pub(super) fn usage(what: impl fmt::Display) -> Self {
        Self::new(USAGE, what)
    }
}

/// An operation of the admin socket that was not performed.
impl From<AdminError> for Fail {
    fn from(error: AdminError) -> Self {
        let code = match &error {
            AdminError::NotRunning => UNREACHABLE,
            AdminError::Refused(_) => UNAUTHENTICATED,
            AdminError::Failed(code, _) => of_failure(*code),
            AdminError::Io(_) => FAILED,
        };
        Self::new(code, error)
    }
}

/// The exit code for the failure of an operation, by a server or in this process.
pub(super) fn of_failure(code: FailureCode) -> u8 {
    match code {
        FailureCode::Invalid | FailureCode::Rules => USAGE,
        FailureCode::OwnRequest | FailureCode::NotInGroup => DENIED,
        FailureCode::Damaged | FailureCode::LedgerDamaged => UNVERIFIED,
        _ => FAILED,
    }
}

/// The exit code for the status of a run.
pub(super) fn of_run(status: RunStatus) -> u8 {
    match status {
        RunStatus::Done => OK,
        RunStatus::Denied | RunStatus::Refused => DENIED,
        RunStatus::Waiting | RunStatus::Paused | RunStatus::Pending | RunStatus::Running => WAITING,
        RunStatus::Limit => LIMIT,
        RunStatus::Failed | RunStatus::Cancelled | RunStatus::Interrupted => FAILED,
    }
}
