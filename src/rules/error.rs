//! Why rules were not loaded.

use std::fmt;

/// Why rules were not loaded: one reason for each fault, with its place where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesError(pub Vec<String>);

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for RulesError {}
