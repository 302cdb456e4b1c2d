//! `par runs cancel`: ends a run that has not ended.

use super::{One, RunSource};
use crate::agent::CancelError;
use crate::auth::{self, Principal, Role};
use crate::cli::exit::{self, Fail};
use crate::cli::local::{self, Inside};
use crate::cli::remote::managed;
use crate::cli::show;
use crate::config::Home;
use crate::policy::Door;
use crate::types::RunId;
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(in crate::cli) struct RunCancel {
    #[command(flatten)]
    one: One,
    /// Reason, which is recorded and shown in the run's answer
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl RunCancel {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let (id, source) = self.one.find(home)?;
        let reason = self.reason.as_deref();
        let seq = match source {
            RunSource::Managed(_, home) => {
                let cancelled = managed::cancel(&home, &id, reason)?;
                cancelled.pointer("/items/0/halt").and_then(Value::as_u64)
            }
            RunSource::Server(server) | RunSource::Asking(server, _) => {
                let body = json!({ "reason": reason });
                let cancelled = server.ask(&format!("/runs/{id}/cancel"), Some(&body))?;
                cancelled.get("cancelled_by").and_then(Value::as_u64)
            }
            RunSource::Files(config, ledger) => {
                // The lock is taken again by the command.
                drop(ledger);
                let by = auth::local(&config.home.data, Role::Admin);
                let by = by.map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
                Some(local::with_front(*config, "runs cancel", async |home| {
                    here(home, &by, &id, self.reason.clone()).await
                })?)
            }
        };
        if is_json {
            show::json(&json!({ "run": id, "cancelled_by": seq }))?;
        } else {
            show::line(&format!("cancelled {id}"))?;
            show::note(&format!("par: `par runs show {id}` shows what had happened"));
        }
        Ok(exit::OK)
    }
}

/// Without a server, only a run that waits for a person has not ended: it ends here.
async fn here(home: &Inside, by: &Principal, id: &RunId, reason: Option<String>) -> Result<u64, Fail> {
    let stop = home.agent.cancel(by, Door::LOCAL, id, reason).await.map_err(|e| match e {
        CancelError::Unknown | CancelError::Ended(_) => Fail::failed(e),
        CancelError::MayNot(_) => Fail::new(exit::DENIED, e),
        CancelError::Stop(_) | CancelError::Read(_) => Fail::failed(e),
    })?;
    home.agent.resume(&home.requesters, id).await.map_err(Fail::failed)?;
    Ok(stop.seq)
}
