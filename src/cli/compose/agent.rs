//! Builds the model provider, and the agent over an open ledger.

use crate::agent::Agent;
use crate::cli::exit::Fail;
use crate::config::Config;
use crate::gate::{Gate, Rules};
use crate::ledger::{Hour, Ledger};
use crate::llm::{self, Provider};
use crate::sandbox;
use crate::secrets::Secrets;
use crate::types::Secret;
use std::path::PathBuf;
use std::sync::Arc;

/// Builds the configured provider with its key.
pub(in crate::cli) fn provider(
    config: &Config,
    api_key: Option<Secret>,
    secrets: &Secrets,
) -> Result<Arc<dyn Provider>, Fail> {
    let name = &config.llm.provider;
    let kind = llm::ProviderKind::parse(name).ok_or_else(|| {
        Fail::usage(format!(
            "`llm.provider`: unknown provider `{name}`, expected one of {}",
            llm::ProviderKind::names()
        ))
    })?;
    llm::build(llm::Settings {
        name: String::new(),
        provider: kind,
        base_url: config.llm.base_url.clone(),
        model: config.llm.model.clone(),
        api_key,
        ca_file: config.llm.ca_file.clone(),
        reply_tokens_max: config.llm.reply_tokens_max,
        context_tokens: None,
        secrets: secrets.clone(),
        workspace: config.home.workspace.clone(),
        logs: config.paths.get("logs").cloned().unwrap_or_else(|| PathBuf::from("/var/log")),
    })
    .map_err(|e| Fail::usage(format!("`[llm]`: {e}")))
}

/// Builds the agent over an open ledger.
pub(in crate::cli) fn agent(
    config: &Config,
    rules: &Rules,
    ledger: Ledger,
    launcher: sandbox::Launcher,
    provider: Arc<dyn Provider>,
    secrets: Secrets,
) -> Result<Agent, Fail> {
    let gate = Gate::new(ledger, rules.clone(), config.paths.clone(), secrets).map_err(Fail::failed)?;
    let key_hour = Hour { runs: config.key_runs_hour_max, bytes: config.key_bytes_hour_max };
    let agent = Agent::new(gate.with_approval_ms(config.approval_ms), launcher, provider);
    Ok(agent.with_key_hour(key_hour))
}
