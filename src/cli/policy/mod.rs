//! `par policy`: one file for each subcommand.
//!
//! # Layout
//!
//! * `subject`: the principal and the resource of a question that no run asks
//! * `model`: the configured language model as the object of such a question
//! * `lead`: where a denial leads
//! * `gates`: rules that ask a person, in messages about other rules
//! * `holder`: who a new rule is for; `model_rule`: a new rule about a language model
//! * `notes`: what rules name that is not there
//! * `check`, `diff`, `explain`, `fmt`, `new`, `replay`, `test`: a subcommand each

mod subject;
mod model;
mod lead;
mod notes;
mod check;
mod test;
mod explain;
mod replay;
mod diff;
mod fmt;
mod gates;
mod holder;
mod model_rule;
mod new;

pub(super) use explain::{ruling_on, why};
pub(super) use subject::{key_subject, resource, role_subject};

use super::exit::Fail;
use crate::config::Config;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Check policies and tools; errors name file and line
    Check,
    /// Add a rule and its cases, from a form that reads like a sentence
    ///
    /// Such as `par policy new --who operator --may read --on /var/www --until approved:release`.
    New(new::NewPolicy),
    /// Run the policies' own tests, then check which changes to the policies the tests notice
    ///
    /// The tests are in policies/tests/*.toml. Exits with 1 if a case fails, or if a policy can be
    /// removed and no case fails.
    Test,
    /// Explain how a call would be decided and why, without running or recording anything
    Explain(explain::Explain),
    /// Decide every recorded call again, under the rules in force at the time or under other rules
    Replay(replay::Replay),
    /// Compare two folders of rules: policies and tools added, removed or changed, and decisions
    /// that flip
    ///
    /// Exits with 0 if nothing differs, with 1 if something does, and with 2 if the folders cannot
    /// be compared.
    Diff(diff::Diff),
    /// Format policy files and keep their comments
    Fmt(fmt::Fmt),
}

impl Policy {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::Check => check::check(config, is_json),
            Self::New(new) => new.run(config, is_json),
            Self::Diff(diff) => diff.run(config, is_json),
            Self::Fmt(fmt) => fmt.run(config, is_json),
            Self::Test => test::test(config, is_json),
            Self::Explain(explain) => explain.run(config, is_json),
            Self::Replay(replay) => replay.run(config, is_json),
        }
    }
}
