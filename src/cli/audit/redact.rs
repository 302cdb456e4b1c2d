//! `par audit redact`: through the admin socket of the running server, or directly on the ledger if
//! none runs.

use crate::auth::{self, Role};
use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::Config;
use crate::http::admin::{self, AdminError, Operation};
use crate::ledger::{Erasure, Lock, RedactError, Targets};
use crate::types::text;
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(in crate::cli) struct Redact {
    /// Numbers of the entries
    #[arg(required_unless_present = "run", conflicts_with = "run", value_name = "SEQ")]
    entries: Vec<u64>,
    /// Erase every payload of this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Reason, recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Redact {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let report = self.ask(config)?;
        if is_json {
            show::json(&report)?;
        } else {
            lines(&report).iter().try_for_each(|line| show::line(&text::visible_line(line)))?;
        }
        if list(&report, "left").is_empty() {
            return Ok(exit::OK);
        }
        Err(Fail::failed("the payloads are erased, but parts of them remain in the files above"))
    }

    /// Sends the request to the running server, or erases in this process if none runs.
    fn ask(&self, config: &Config) -> Result<Value, Fail> {
        let op = Operation::AuditRedact.as_str();
        let request = match &self.run {
            Some(run) => json!({ "op": op, "run": run, "reason": self.reason }),
            None => json!({ "op": op, "entries": self.entries, "reason": self.reason }),
        };
        match admin::call(&config.home.data, &request) {
            Err(AdminError::NotRunning) => self.redact_locally(config),
            Err(other) => Err(other.into()),
            Ok(mut answer) => Ok(answer.get_mut("redacted").map(Value::take).unwrap_or_default()),
        }
    }

    /// Does the same without a server: takes the ledger's lock and asks no policy.
    fn redact_locally(&self, config: &Config) -> Result<Value, Fail> {
        if let Some(holder) = Lock::holder(&compose::files(config)) {
            show::note(&format!("par: waiting for the ledger, held by {}", holder.replace('\n', " ").trim()));
        }
        let by =
            auth::local(&config.home.data, Role::Admin).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
        let targets = match &self.run {
            Some(run) => Targets::Run(run.clone()),
            None => Targets::Entries(self.entries.clone()),
        };
        let reason = compose::secrets(config, Some(&compose::model_keys(config)?))?
            .clean(self.reason.clone())
            .into_inner();
        let erasure = Erasure { targets, reason, principal: by.id(), power: None };
        let report = compose::open_to_act(config)?.redact(&erasure).map_err(|e| match e {
            RedactError::Invalid(..) => Fail::usage(e),
            RedactError::Read(_) => Fail::new(exit::UNVERIFIED, e),
            other => Fail::failed(other),
        })?;
        serde_json::to_value(report).map_err(Fail::failed)
    }
}

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The outcome, one line for each part.
fn lines(report: &Value) -> Vec<String> {
    let word = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let mut lines: Vec<String> = list(report, "entries")
        .iter()
        .map(|erased| {
            let (seq, bytes, by) =
                (number(erased, "seq"), number(erased, "bytes"), number(erased, "redaction"));
            format!("erased #{seq} {}, {bytes} bytes: recorded in entry #{by}", word(erased, "kind"))
        })
        .collect();
    let same = |may: bool| {
        let those =
            list(report, "same_words").iter().filter(|same| same.get("may_be_erased") == Some(&json!(may)));
        those
            .map(|same| format!("#{} {}", number(same, "seq"), word(same, "kind")))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (others, stay) = (same(true), same(false));
    if !others.is_empty() {
        lines.push(format!("the same text is in {others}: redact these too, or the whole run with --run"));
    }
    if !stay.is_empty() {
        lines.push(format!("the same text stays in {stay}, which are never erased"));
    }
    let left = list(report, "left");
    let files = number(report, "files");
    lines.push(if left.is_empty() {
        format!("searched the raw bytes of {files} files in data/: no trace of it is left")
    } else {
        format!("searched the raw bytes of {files} files in data/:")
    });
    lines.extend(left.iter().filter_map(Value::as_str).map(|left| format!("  ! {left}")));
    lines.push("not searched:".to_owned());
    lines.extend(list(report, "beyond").iter().filter_map(Value::as_str).map(|what| format!("  - {what}")));
    lines
}
