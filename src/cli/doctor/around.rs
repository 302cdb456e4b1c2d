//! Checks of secrets, disk space and the model.

use super::check::Checks;
use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::config::Config;
use crate::egress::{Client, EgressError, Endpoint};
use crate::secrets::Finder;
use crate::types::{Secret, limits};
use crate::{llm, rules};
use std::path::PathBuf;
use std::time::Duration;

/// The secrets to replace. A server does not start if a named secret is missing.
pub(super) fn secrets(config: &Config, model_key: Option<&Secret>, checks: &mut Checks) {
    match rules::load_secrets(config, model_key, &Finder::default()) {
        Ok(finder) => {
            let (own, named) = (finder.names().count(), config.secrets.len());
            let patterns = config.secret_patterns.len();
            let own = own.saturating_sub(named + patterns);
            checks.ok("secrets", format!("{named} named, {patterns} patterns, {own} of PAR's own"));
        }
        Err(e) => e.0.into_iter().for_each(|reason| checks.fail("secrets", reason)),
    }
    let least = limits::SECRET_BYTES_MIN;
    if model_key.is_some_and(|key| key.expose().len() < least) {
        checks.warn(
            "secrets",
            format!("`llm.api_key` is shorter than {least} bytes: it is too short to be replaced"),
        );
    }
}

pub(super) fn disk(config: &Config, checks: &mut Checks) {
    let mib = |bytes: u64| bytes >> 20;
    let floor = config.free_bytes_min;
    match compose::files(config).free_bytes() {
        None => checks.fail("disk", format!("{}: the free space cannot be read", config.home.data.display())),
        Some(free) if free < floor => checks.fail(
            "disk",
            format!("{} MiB are free for the ledger, below the required {} MiB", mib(free), mib(floor)),
        ),
        Some(free) if free < floor.saturating_mul(4) => {
            checks.warn(
                "disk",
                format!("{} MiB are free for the ledger; {} are required", mib(free), mib(floor)),
            );
        }
        Some(free) => checks.ok("disk", format!("{} MiB are free for the ledger", mib(free))),
    }
}

/// Any answer of the model's server is enough. Only a real request would show whether the key is
/// right.
pub(super) fn model(config: &Config, checks: &mut Checks) {
    let name = &config.llm.provider;
    let Some(kind) = llm::ProviderKind::parse(name) else {
        return checks.fail(
            "model",
            format!(
                "`llm.provider`: unknown provider `{name}`, expected one of {}",
                llm::ProviderKind::names()
            ),
        );
    };
    let Some(usual) = kind.base_url() else {
        return checks.ok("model", format!("{name}: no model, no network"));
    };
    let base = if config.llm.base_url.is_empty() { usual } else { &config.llm.base_url };
    match reach(base, config.llm.ca_file.clone()) {
        Ok(status) => checks.ok("model", format!("{name} {}: {base} answers ({status})", config.llm.model)),
        Err(e) => checks.fail("model", format!("{base}: {e}")),
    }
}

/// Why the model's server did not answer.
#[derive(Debug, thiserror::Error)]
enum Unreached {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Here(#[from] Fail),
}

fn reach(base: &str, ca_file: Option<PathBuf>) -> Result<u16, Unreached> {
    let endpoint = Endpoint::parse(base, "")?;
    let client = Client::new(ca_file);
    let runtime = compose::runtime()?;
    let deadline = Duration::from_millis(limits::CONNECT_MS_MAX);
    Ok(runtime.block_on(client.reach(&endpoint, deadline))?)
}
