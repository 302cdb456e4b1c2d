//! Whether one person or several approve calls.

use super::ask;
use crate::cli::exit::Fail;
use crate::config::Home;
use clap::ValueEnum;

/// Who approves calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum People {
    /// The person who asked confirms, outside the run
    One,
    /// Another user, in a group that the policy names, approves
    Several,
}

impl People {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Several => "several",
        }
    }

    /// What a home of a version that kept no record was made for, by its policies.
    pub(super) fn of_home(home: &Home) -> Self {
        let rules = std::fs::read_to_string(home.etc.join("policies/20-deploy.cedar")).unwrap_or_default();
        if rules.contains("@require_confirm") { Self::One } else { Self::Several }
    }

    /// Asks on the terminal. An invalid answer is an error, and no home is created.
    pub(super) fn ask() -> Result<Self, Fail> {
        let question = "Will one person use this home, or several? With several, another person must approve calls. \
                        [one/SEVERAL]";
        match ask::answer(question)?.as_str() {
            "one" | "o" | "1" => Ok(Self::One),
            "several" | "s" | "" => Ok(Self::Several),
            other => Err(ask::unknown(other, "one or several")),
        }
    }
}
