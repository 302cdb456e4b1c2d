//! What a person's word stops: all of PAR, one caller, one tool, one session or one run.

use super::id::{RunId, SessionId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is stopped. Its text is `all`, the caller's name on the ledger (`key:Ab3dEf9h`, `os:root`),
/// `tool:NAME`, `session:ses_…` or `run:run_…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StopScope {
    /// Everything.
    All,
    /// What a key or a user of this host asked for.
    Caller(String),
    /// The calls of a tool.
    Tool(String),
    /// A session.
    Session(SessionId),
    /// A run.
    Run(RunId),
}

/// The text names no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `all`, `key:ID`, `os:NAME`, `tool:NAME`, `session:ID` or `run:ID`")]
pub struct UnknownScope(String);

/// What is held against the scopes: a run, or one call of it.
#[derive(Clone, Copy, Debug)]
pub struct Stoppable<'a> {
    /// The caller's name on the ledger.
    pub caller: &'a str,
    /// The session.
    pub session: &'a SessionId,
    /// The run.
    pub run: &'a RunId,
    /// The tool, if it is a call.
    pub tool: Option<&'a str>,
}

/// A run by its caller, its session and itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRun {
    /// The caller's name on the ledger.
    pub caller: String,
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
}

impl NamedRun {
    /// As it is held against the scopes, with the tool of one of its calls.
    #[must_use]
    pub fn with_tool<'a>(&'a self, tool: Option<&'a str>) -> Stoppable<'a> {
        Stoppable { caller: &self.caller, session: &self.session, run: &self.run, tool }
    }
}

impl StopScope {
    /// Whether `what` is within the scope.
    #[must_use]
    pub fn covers(&self, what: &Stoppable<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Caller(caller) => caller == what.caller,
            Self::Tool(tool) => what.tool == Some(tool),
            Self::Session(session) => session == what.session,
            Self::Run(run) => run == what.run,
        }
    }

    /// Parses the text of a scope.
    pub fn parse(text: &str) -> Result<Self, UnknownScope> {
        let unknown = || UnknownScope(text.to_owned());
        if text == "all" {
            return Ok(Self::All);
        }
        let (kind, of) = text.split_once(':').filter(|(_, of)| !of.is_empty()).ok_or_else(unknown)?;
        match kind {
            "key" | "os" => Ok(Self::Caller(text.to_owned())),
            "tool" => Ok(Self::Tool(of.to_owned())),
            "session" => SessionId::parse(of).map(Self::Session).ok_or_else(unknown),
            "run" => RunId::parse(of).map(Self::Run).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for StopScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Caller(caller) => f.write_str(caller),
            Self::Tool(tool) => write!(f, "tool:{tool}"),
            Self::Session(session) => write!(f, "session:{session}"),
            Self::Run(run) => write!(f, "run:{run}"),
        }
    }
}

impl From<StopScope> for String {
    fn from(scope: StopScope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for StopScope {
    type Error = UnknownScope;

    fn try_from(text: String) -> Result<Self, UnknownScope> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::{StopScope, Stoppable};
    use crate::types::id::{RunId, SessionId};

    #[test]
    fn a_scope_covers_what_it_names_and_its_text_parses_back() {
        let (run, session) = (RunId::generate(), SessionId::generate());
        let call = Stoppable { caller: "key:Ab3dEf9h", session: &session, run: &run, tool: Some("restart") };
        let other = (RunId::generate(), SessionId::generate());
        let check = |text: &str, covers: bool, covers_run: bool| {
            let scope = StopScope::parse(text).expect("a scope");
            assert_eq!(scope.to_string(), text);
            assert_eq!(scope.covers(&call), covers, "{text}");
            assert_eq!(scope.covers(&Stoppable { tool: None, ..call }), covers_run, "{text}");
        };
        check("all", true, true);
        check("key:Ab3dEf9h", true, true);
        check("key:Xb3dEf9h", false, false);
        check("os:root", false, false);
        check("tool:restart", true, false);
        check("tool:deploy", false, false);
        check(&format!("session:{session}"), true, true);
        check(&format!("session:{}", other.1), false, false);
        check(&format!("run:{run}"), true, true);
        check(&format!("run:{}", other.0), false, false);
        for unknown in ["", "everything", "tool:", "session:7", "run:x", "Key:Ab3dEf9h"] {
            StopScope::parse(unknown).expect_err(unknown);
        }
    }
}
