//! The secrets of a home: those that PAR itself holds, those that the configuration names, and its
//! patterns.

use super::error::RulesError;
use crate::auth;
use crate::config::{Config, ModelKeys, log_key_file};
use crate::ledger::{Files, key};
use crate::secrets::{Finder, Named, Pattern};
use zeroize::Zeroizing;

/// Whether a secret of this name is the key of a model ([`NamedModel::secret_name`]).
///
/// [`NamedModel::secret_name`]: crate::config::NamedModel::secret_name
fn is_model_key(name: &str) -> bool {
    name == "llm.api_key" || (name.starts_with("models.") && name.ends_with(".key"))
}

/// Reads every secret of a home; the error names each one that cannot be read. Blocking.
///
/// Without given keys of models they are those in `before`. A key that is shorter than the minimum
/// of a secret is not searched for: self-hosted servers accept any value.
pub fn load_secrets(
    config: &Config,
    model_keys: Option<&ModelKeys>,
    before: &Finder,
) -> Result<Finder, RulesError> {
    let mut errors = Vec::new();
    let keys = model_keys.map(ModelKeys::now);
    let mut named: Vec<Named> = match &keys {
        Some(keys) => {
            let of_model = config.models.all.iter().filter_map(|model| {
                let key = keys.get(&model.name)?.expose().as_bytes().to_vec();
                Named::new(&model.secret_name(), Zeroizing::new(key)).ok()
            });
            of_model.collect()
        }
        None => {
            before.names().filter(|name| is_model_key(name)).filter_map(|name| before.named(name)).collect()
        }
    };
    let mut take = |name: &str, value: Result<Zeroizing<Vec<u8>>, String>| match value {
        Ok(value) => match Named::new(name, value) {
            Ok(one) => named.push(one),
            Err(refused) => errors.push(refused.to_string()),
        },
        Err(e) => errors.push(format!("the secret `{name}`: {e}")),
    };
    let files = Files { log_key: log_key_file(), ..Files::below(&config.home.data) };
    match key::seeds(&files) {
        Ok(seeds) => seeds.into_iter().for_each(|(name, seed)| take(name, Ok(seed))),
        Err(e) => take("log.key", Err(e.to_string())),
    }
    let pepper = config.home.data.join("pepper");
    let at_pepper = |e: std::io::Error| format!("{}: {e}", pepper.display());
    take("pepper", std::fs::read(&pepper).map(Zeroizing::new).map_err(at_pepper));
    for (name, source) in &config.secrets {
        take(name, source.read());
    }
    let patterns = std::iter::once(auth::key_pattern())
        .chain(config.secret_patterns.iter().map(|(name, pattern)| Pattern::new(name, pattern)));
    let patterns: Vec<Pattern> =
        patterns.filter_map(|one| one.map_err(|refused| errors.push(refused.to_string())).ok()).collect();
    let digest_key = auth::secret_digest_key(&pepper).map_err(at_pepper);
    match digest_key {
        Ok(key) if errors.is_empty() => {
            Finder::new(key, named, patterns).map_err(|refused| RulesError(vec![refused.to_string()]))
        }
        Ok(_) => Err(RulesError(errors)),
        Err(e) => Err(RulesError(if errors.is_empty() { vec![e] } else { errors })),
    }
}
