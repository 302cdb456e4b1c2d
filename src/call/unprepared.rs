//! Why the sandbox did not prepare a call.

use crate::types::RefusalClass;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The refusal of a call before a decision. Nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unprepared {
    /// Whether this host or a limit of PAR refuses.
    pub class: RefusalClass,
    /// What was found.
    pub reason: String,
}

impl Unprepared {
    /// A limit of PAR was reached: the same call may succeed later.
    pub fn at_capacity(reason: impl Into<String>) -> Self {
        Self { class: RefusalClass::Capacity, reason: reason.into() }
    }
}

/// What a step of the sandbox reports as a text is about this host.
impl From<String> for Unprepared {
    fn from(reason: String) -> Self {
        Self { class: RefusalClass::Host, reason }
    }
}

impl From<&str> for Unprepared {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl fmt::Display for Unprepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
