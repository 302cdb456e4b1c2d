//! `par audit renew`: sets a damaged log aside unchanged and begins a new one after it.

use super::summary;
use crate::cli::exit::{self, Fail};
use crate::cli::remote::known;
use crate::cli::{compose, show};
use crate::config::Config;
use crate::ledger::{self, Ledger, Lock, PreviousLog, Reader};
use crate::types::{limits, text};
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct Renew {
    /// Reason, recorded in the first entry of the new log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Renew {
    /// Deletes nothing: whatever is readable of the old log stays readable.
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let reason = text::visible_line(self.reason.trim());
        if reason.is_empty() || reason.len() > limits::REDACTION_REASON_BYTES_MAX {
            let most = limits::REDACTION_REASON_BYTES_MAX;
            return Err(Fail::usage(format!("`--reason`: must have 1 to {most} bytes")));
        }
        let files = compose::files(config);
        let lock = Lock::take(&files, Duration::ZERO).map_err(Fail::failed)?;
        let report = ledger::audit(&files, &compose::PROJECTIONS, &[]);
        // A server that recorded damage takes no work again, even if the bytes were put back.
        let reader = Reader::open(&files.ledger()).ok();
        let is_recorded =
            reader.is_some_and(|reader| ledger::recorded_damage(&reader).is_ok_and(|is| is.is_some()));
        if report.verdict.holds() && !is_recorded {
            return Err(Fail::usage("the ledger verifies: there is nothing to set aside"));
        }
        let mut before = PreviousLog::new(&files, &report, "damage", &reason);
        let at = |e| Fail::failed(format!("{}: {e}", config.home.data.display()));
        let place = ledger::set_aside(&files, &mut before).map_err(at)?;
        let log = Ledger::succeed(files, lock, &compose::PROJECTIONS).map_err(Fail::failed)?;
        let key = log.reader().log_key().map_err(Fail::failed)?;
        // The person who renews knows of the new log. Other users and clients must be informed.
        known::remember(&known::address(&config.home), &key, None)?;
        if is_json {
            show::json(&serde_json::json!({ "before": before, "place": place, "key": key.to_string() }))?;
            return Ok(exit::OK);
        }
        summary::summary(&report).iter().try_for_each(|line| show::line(line))?;
        let lines = [
            format!("the old log is in {}: {} files, unchanged", place.display(), before.files.len()),
            format!(
                "  `par audit show --before {0}` reads it, `par audit verify --before {0}` verifies it",
                before.log
            ),
            format!("a new log begins: {key}"),
            "  no API key was kept: create new ones with `par key create`. Waiting runs stay in the old log."
                .to_owned(),
            "  clients that know the old log refuse this one until they run \
             `par audit trust ADDRESS --key KEY`"
                .to_owned(),
        ];
        lines.iter().try_for_each(|line| show::line(line))?;
        Ok(exit::OK)
    }
}
