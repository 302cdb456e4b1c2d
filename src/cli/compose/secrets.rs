//! What is replaced in all that comes from outside.

use crate::cli::exit::Fail;
use crate::config::Config;
use crate::rules;
use crate::secrets::Secrets;
use crate::types::Secret;

/// The model's key. Read behind the fork of the launcher.
pub(in crate::cli) fn model_key(config: &Config) -> Result<Option<Secret>, Fail> {
    config.model_key().map_err(Fail::usage)
}

/// What is replaced in all that comes from outside; one that cannot be read refuses the start by its name.
pub(in crate::cli) fn secrets(config: &Config, model_key: Option<&Secret>) -> Result<Secrets, Fail> {
    let secrets = Secrets::default();
    exchange_secrets(config, model_key, &secrets)?;
    Ok(secrets)
}

/// The same anew: a ledger that was opened may have made its first epoch key.
pub(in crate::cli) fn load_secrets(config: &Config, secrets: &Secrets) -> Result<(), Fail> {
    exchange_secrets(config, None, secrets)
}

fn exchange_secrets(config: &Config, model_key: Option<&Secret>, secrets: &Secrets) -> Result<(), Fail> {
    let finder = rules::load_secrets(config, model_key, &secrets.now());
    secrets.exchange(finder.map_err(|e| Fail::usage(e.0.join("\npar: ")))?);
    Ok(())
}
