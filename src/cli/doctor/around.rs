//! Checks of secrets, disk space and the model.

use super::check::Checks;
use crate::cli::compose;
use crate::config::{Config, ModelKeys};
use crate::llm::ProviderKind;
use crate::rules;
use crate::secrets::Finder;
use crate::types::limits;

/// The secrets to replace. A server does not start if a named secret is missing.
pub(super) fn secrets(config: &Config, model_keys: &ModelKeys, checks: &mut Checks) {
    match rules::load_secrets(config, Some(model_keys), &Finder::default()) {
        Ok(finder) => {
            let (own, named) = (finder.names().count(), config.secrets.len());
            let patterns = config.secret_patterns.len();
            let own = own.saturating_sub(named + patterns);
            checks.ok("secrets", format!("{named} named, {patterns} patterns, {own} of PAR's own"));
        }
        Err(e) => e.0.into_iter().for_each(|reason| checks.fail("secrets", reason)),
    }
    let least = limits::SECRET_BYTES_MIN;
    let keys = model_keys.now();
    for model in config.models.asked() {
        if keys.get(&model.name).is_some_and(|key| key.expose().len() < least) {
            let name = model.secret_name();
            let why = format!("`{name}` is shorter than {least} bytes: it is too short to be replaced");
            checks.warn("secrets", why);
        }
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

/// Any answer of a model's server is enough. Only a real request would show whether the key is
/// right: `par model test`.
pub(super) fn models(config: &Config, model_keys: &ModelKeys, checks: &mut Checks) {
    for model in config.models.asked() {
        let has_key = model_keys.now().contains_key(&model.name);
        if let Some(why) = compose::key_in_clear(model).filter(|_| has_key) {
            checks.warn("model", why);
        }
        let name = if model.table == "llm" { String::new() } else { format!("{}: ", model.name) };
        match compose::wire(model).map(ProviderKind::base_url) {
            Err(e) => checks.fail("model", e.what),
            Ok(None) => checks.ok("model", format!("{name}{}: no model, no network", model.wire)),
            Ok(Some(usual)) => {
                let base = if model.base_url.is_empty() { usual } else { &model.base_url };
                match compose::reach(model, base) {
                    Ok(status) => {
                        let asked = format!("{} {}", model.wire, model.model);
                        checks.ok("model", format!("{name}{asked}: {base} answers ({status})"));
                    }
                    Err(e) => checks.fail("model", format!("{name}{base}: {e}")),
                }
            }
        }
    }
}
