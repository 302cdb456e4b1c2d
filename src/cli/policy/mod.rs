//! `par policy`: one file per subcommand, and `subject`: in whose name and about what a question is asked.

mod subject;
mod check;
mod test;
mod explain;
mod replay;
mod diff;
mod fmt;

pub(super) use subject::{key_subject, resource, role_subject};

use super::exit::Fail;
use crate::config::Config;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Check policies and tools; errors name file and line
    Check,
    /// Run the policies' own tests (policies/tests/*.toml), also on changed policies. Ends with 1 where a
    /// case fails, or where a policy could be dropped and no case would notice
    Test,
    /// Ask how a call would be decided, and why. Runs nothing and records nothing
    Explain(explain::Explain),
    /// Make every decision of the ledger again, under its own rules and under others
    Replay(replay::Replay),
    /// Compare two folders of rules: policies and tools that were added, removed or changed, and the
    /// decisions that flip. Ends with 0 where nothing differs, with 1 where something does, with 2 where
    /// they cannot be compared
    Diff(diff::Diff),
    /// Lay out policy files in one way, comments kept. With `--check` nothing is written, and it ends with 1
    /// where a file is laid out otherwise
    Fmt(fmt::Fmt),
}

impl Policy {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::Check => check::check(config, is_json),
            Self::Diff(diff) => diff.run(config, is_json),
            Self::Fmt(fmt) => fmt.run(config, is_json),
            Self::Test => test::test(config, is_json),
            Self::Explain(explain) => explain.run(config, is_json),
            Self::Replay(replay) => replay.run(config, is_json),
        }
    }
}
