//! The secrets to replace in everything that comes from outside.

use crate::cli::exit::Fail;
use crate::config::{Config, ModelKeys};
use crate::rules;
use crate::secrets::Secrets;

/// Reads the models' keys. To be called after the launcher is forked.
pub(in crate::cli) fn model_keys(config: &Config) -> Result<ModelKeys, Fail> {
    config.model_keys().map_err(Fail::usage)
}

/// Reads the secrets to replace. A secret that cannot be read stops the start; the error names it.
pub(in crate::cli) fn secrets(config: &Config, model_keys: Option<&ModelKeys>) -> Result<Secrets, Fail> {
    let secrets = Secrets::default();
    exchange_secrets(config, model_keys, &secrets)?;
    Ok(secrets)
}

/// Reads them again: opening the ledger may have made its first epoch key.
pub(in crate::cli) fn load_secrets(config: &Config, secrets: &Secrets) -> Result<(), Fail> {
    exchange_secrets(config, None, secrets)
}

fn exchange_secrets(config: &Config, model_keys: Option<&ModelKeys>, secrets: &Secrets) -> Result<(), Fail> {
    let finder = rules::load_secrets(config, model_keys, &secrets.now());
    secrets.exchange(finder.map_err(|e| Fail::usage(e.0.join("\npar: ")))?);
    Ok(())
}
