//! How much stands around tools, in one word.

use serde::{Deserialize, Serialize};

/// A level of the sandbox; a higher one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every protection is given by one layer at least.
    Standard,
    /// Where two are wanted, two.
    Strict,
}

impl Level {
    /// The level that is called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Standard, Self::Strict].into_iter().find(|level| level.as_str() == name)
    }

    /// Its name in records and configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }
}
