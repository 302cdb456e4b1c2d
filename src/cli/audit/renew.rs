//! `par audit renew`: a log that is damaged is set aside as it is, and another one begins behind it.

use super::summary;
use crate::cli::exit::{self, Fail};
use crate::cli::remote::known;
use crate::cli::{compose, show};
use crate::config::Config;
use crate::ledger::{self, Before, Ledger, Lock};
use crate::types::{limits, text};
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct Renew {
    /// Why: it stands in the first entry of the new log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Renew {
    /// Deletes nothing: what can be read of the old log can be read on.
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let reason = text::visible_line(self.reason.trim());
        if reason.is_empty() || reason.len() > limits::REDACTION_REASON_BYTES_MAX {
            let most = limits::REDACTION_REASON_BYTES_MAX;
            return Err(Fail::usage(format!("`--reason`: is empty, or longer than {most} bytes")));
        }
        let files = compose::files(config);
        let lock = Lock::take(&files, Duration::ZERO).map_err(Fail::failed)?;
        let report = ledger::audit(&files, &compose::PROJECTIONS, &[]);
        if report.verdict.holds() {
            return Err(Fail::usage("the ledger holds: there is nothing to set aside"));
        }
        let mut before = Before::new(&files, &report, "damage", &reason);
        let at = |e| Fail::failed(format!("{}: {e}", config.home.data.display()));
        let place = ledger::set_aside(&files, &mut before).map_err(at)?;
        let log = Ledger::succeed(files, lock, &compose::PROJECTIONS).map_err(Fail::failed)?;
        let key = log.reader().log_key().map_err(Fail::failed)?;
        // Who renews it knows it: other users and clients have to be told.
        known::remember(&known::address(&config.home), &key, None)?;
        if is_json {
            show::json(&serde_json::json!({ "before": before, "place": place, "key": key.to_string() }))?;
            return Ok(exit::OK);
        }
        summary::summary(&report).iter().try_for_each(|line| show::line(line))?;
        let lines = [
            format!("set aside in {}: {} files, as they are", place.display(), before.files.len()),
            format!("a new log begins: {key}"),
            "  no API key was taken over: make new ones with `par key create`. Runs that waited are in the log before."
                .to_owned(),
            "  clients that know the log before refuse this one until `par audit trust ADDRESS --key KEY`".to_owned(),
        ];
        lines.iter().try_for_each(|line| show::line(line))?;
        Ok(exit::OK)
    }
}
