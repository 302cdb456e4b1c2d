//! The level of protection that the sandbox must give.

use serde::{Deserialize, Serialize};

/// A level of the sandbox; a higher one compares greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// At least one layer gives each protection.
    Standard,
    /// Two layers give each protection that has two.
    Strict,
}

impl Level {
    /// Parses the name of a level.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Standard, Self::Strict].into_iter().find(|level| level.as_str() == name)
    }

    /// The name in records and configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }
}
