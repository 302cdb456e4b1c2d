//! `par doctor`: checks this host and this home, one line for each check.
//!
//! # Layout
//!
//! * `check`: a check and its line
//! * `files`: files of etc/ and data/
//! * `ledger`: the ledger, clock and anchors
//! * `around`: secrets, disk and model
//! * `walls`: the protections around tools
//! * `question`: what policies answer about a path
//! * `rights/`: paths that tools are granted and may not read
//! * `path`: which layer refuses a path

mod check;
mod files;
mod ledger;
mod around;
mod walls;
mod question;
mod rights;
mod path;

use crate::cli::exit::{self, Fail};
use crate::cli::table::Screen;
use crate::cli::{compose, remote, show, tool};
use crate::config::{Config, Home, ModelKeys};
use crate::rules;
use check::{Checks, Severity};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Doctor {
    /// Count the ledger's entries without verifying them
    #[arg(long)]
    quick: bool,
    #[command(subcommand)]
    about: Option<About>,
}

#[derive(Debug, Subcommand)]
enum About {
    /// Show, for each tool, which layer refuses a path: the manifest, the Unix rights of the tool's
    /// user, or the policy
    Path(path::Of),
}

impl Doctor {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        if let Some(About::Path(of)) = &self.about {
            return of.run(&Config::load(home).map_err(Fail::usage)?, is_json);
        }
        let mut checks = Checks::default();
        match Config::load(home) {
            Ok(config) => self.examine(&config, &mut checks),
            Err(e) => checks.fail("configuration", e.to_string()),
        }
        if is_json {
            checks.0.iter().try_for_each(show::json)?;
        } else {
            check::table(&checks.0).print(&Screen::stdout())?;
        }
        let is_ill = checks.0.iter().any(|check| check.level == Severity::Fail);
        Ok(if is_ill { exit::FAILED } else { exit::OK })
    }

    fn examine(&self, config: &Config, checks: &mut Checks) {
        // First, while this process has one thread. A launcher that cannot read the manifests says
        // what the check of the configuration says below.
        let loaded = rules::load_rules(config);
        let is_known =
            |why: &str| loaded.as_ref().is_err_and(|e| e.0.iter().any(|fault| why.contains(fault)));
        walls::examine(config, &is_known, checks);
        match loaded {
            Ok(rules) => {
                let (tools, policies) = (rules.catalog.manifests().count(), rules.bundle.policies().count());
                checks.ok("configuration", format!("{tools} tools, {policies} policies"));
                tool::unpermitted(&rules).into_iter().for_each(|note| checks.warn("configuration", note));
                ledger::in_force(config, &rules, checks);
                rights::examine(config, &rules, checks);
            }
            Err(e) => e.0.into_iter().for_each(|fault| checks.fail("configuration", fault)),
        }
        files::etc_modes(config, checks);
        // To another user, keys, ledger and server would only look missing.
        if let Err(e) = std::fs::read_dir(&config.home.data) {
            let whose = "only its owner and root can read it";
            return checks.fail("files of data/", format!("{}: {e}: {whose}", config.home.data.display()));
        }
        files::data_modes(config, checks);
        let model_keys = config.model_keys().unwrap_or_else(|e| {
            checks.fail("model", e.to_string());
            ModelKeys::default()
        });
        around::secrets(config, &model_keys, checks);
        ledger::verified(config, self.quick, checks);
        ledger::anchors(config, checks);
        ledger::clock(config, checks);
        around::disk(config, checks);
        around::models(config, &model_keys, checks);
        match remote::url(&compose::files(config)) {
            Some(url) => checks.ok("server", format!("running at {url}")),
            None => checks.ok("server", "not running"),
        }
    }
}
