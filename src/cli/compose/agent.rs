//! Builds the model provider, and the agent over an open ledger.

use crate::agent::Agent;
use crate::cli::exit::Fail;
use crate::config::{Config, ModelKeys, NamedModel};
use crate::egress::Way;
use crate::gate::{Gate, Rules};
use crate::ledger::{Hour, Ledger};
use crate::llm::{self, Provider, ProviderKind};
use crate::sandbox;
use crate::secrets::Secrets;
use crate::types::{nearest, text};
use std::path::PathBuf;
use std::sync::Arc;

/// Builds the providers of the models that are asked, with their keys: the first, which knows the
/// next.
pub(in crate::cli) fn provider(
    config: &Config,
    keys: &ModelKeys,
    secrets: &Secrets,
) -> Result<Arc<dyn Provider>, Fail> {
    let asked = config.models.asked().map(|model| settings(config, model, keys, secrets));
    let asked = asked.collect::<Result<_, _>>()?;
    llm::build_all(asked).map_err(|e| Fail::usage(format!("`[llm]`: {e}")))
}

/// Builds the provider of one model, which knows no other.
pub(in crate::cli) fn provider_of(
    config: &Config,
    model: &NamedModel,
    keys: &ModelKeys,
    secrets: &Secrets,
) -> Result<Arc<dyn Provider>, Fail> {
    llm::build(settings(config, model, keys, secrets)?)
        .map_err(|e| Fail::usage(format!("`{}`: {e}", model.table)))
}

/// The protocol of a model.
pub(in crate::cli) fn wire(model: &NamedModel) -> Result<ProviderKind, Fail> {
    ProviderKind::parse(&model.wire).ok_or_else(|| {
        let setting = if model.table == "llm" { "llm.provider".to_owned() } else { model.setting("wire") };
        let (known, word) = (ProviderKind::names(), text::visible_line(&model.wire));
        let meant = nearest(&model.wire, ProviderKind::ALL.map(ProviderKind::as_str));
        let meant = meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
        Fail::usage(format!("`{setting}`: unknown provider `{word}`, expected one of {known}{meant}"))
    })
}

fn settings(
    config: &Config,
    model: &NamedModel,
    keys: &ModelKeys,
    secrets: &Secrets,
) -> Result<llm::Settings, Fail> {
    let file = config.home.file();
    let in_file = |fail: Fail| Fail { what: format!("{}: {}", file.display(), fail.what), ..fail };
    Ok(llm::Settings {
        name: model.name.clone(),
        table: model.table.clone(),
        provider: wire(model).map_err(in_file)?,
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        keys: keys.clone(),
        way: Way::of(model),
        reply_tokens_max: model.reply_tokens_max,
        context_tokens: model.window_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        secrets: secrets.clone(),
        workspace: config.home.workspace.clone(),
        logs: config.paths.get("logs").cloned().unwrap_or_else(|| PathBuf::from("/var/log")),
    })
}

/// Builds the gate over an open ledger.
pub(in crate::cli) fn gate(
    config: &Config,
    rules: &Rules,
    ledger: Ledger,
    secrets: Secrets,
) -> Result<Gate, Fail> {
    Gate::new(ledger, rules.clone(), config.paths.clone(), secrets).map_err(Fail::failed)
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
    let gate = gate(config, rules, ledger, secrets)?;
    gate.bound_open_approvals(config.open_key_max, config.open_run_max);
    let key_hour = Hour { runs: config.key_runs_hour_max, bytes: config.key_bytes_hour_max };
    let agent = Agent::new(gate.with_approval_ms(config.approval_ms), launcher, provider);
    Ok(agent.with_key_hour(key_hour))
}
