//! The secrets of a home: those that PAR itself holds, those that the configuration names, and its
//! patterns.

use super::error::RulesError;
use crate::auth;
use crate::config::{Config, ModelKeys, log_key_file, secret_name};
use crate::ledger::{Files, key};
use crate::secrets::{Finder, Named, Pattern, Secrets};
use crate::types::Secret;
use zeroize::Zeroizing;

/// Whether a secret of this name is the key of a model ([`NamedModel::secret_name`]).
///
/// [`NamedModel::secret_name`]: crate::config::NamedModel::secret_name
fn is_model_key(name: &str) -> bool {
    name == "llm.api_key" || (name.starts_with("models.") && name.ends_with(".key"))
}

/// The key of the model `name`, as text is searched for it; `None` if it is too short for that.
fn named_key(name: &str, key: &Secret) -> Option<Named> {
    Named::new(&secret_name(name), Zeroizing::new(key.expose().as_bytes().to_vec())).ok()
}

/// Puts `keys` in force, except a key that `secrets` does not find in text.
pub(super) fn exchange_keys(model_keys: &ModelKeys, keys: &ModelKeys, secrets: &Secrets) {
    model_keys.exchange(keys, |name, key| {
        let is_found = || !secrets.clean(key.expose().to_owned()).found().is_none();
        named_key(name, key).is_none() || is_found()
    });
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
            // A model that `par.toml` does not describe any more is asked until the next start.
            keys.iter().filter_map(|(name, key)| named_key(name, key)).collect()
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

#[cfg(test)]
mod tests {
    use super::{exchange_keys, named_key};
    use crate::config::ModelKeys;
    use crate::secrets::{Finder, Secrets};
    use crate::types::Secret;

    const OLD: &str = "sk-old-abcdefghijkl";
    const NEW: &str = "sk-new-abcdefghijkl";

    /// The order inside a reload: the finder first. In another order the key is not exchanged.
    #[test]
    fn a_key_is_in_force_only_once_text_is_searched_for_it() {
        let key = |text: &str| Secret::new(text.to_owned()).expect("a key");
        let finder = |text: &str| {
            let named = named_key("fast", &key(text)).expect("long enough");
            Finder::new(Vec::new().into(), vec![named], Vec::new()).expect("one secret")
        };
        let (keys, secrets) = (ModelKeys::of("fast", key(OLD)), Secrets::new(finder(OLD)));
        let in_force = || keys.now().get("fast").map(|key| key.expose().to_owned());
        let new = ModelKeys::of("fast", key(NEW));
        exchange_keys(&keys, &new, &secrets);
        assert_eq!(in_force().as_deref(), Some(OLD), "text is not searched for the new key yet");
        secrets.exchange(finder(NEW));
        exchange_keys(&keys, &new, &secrets);
        assert_eq!(in_force().as_deref(), Some(NEW));
        // Too short to be searched for at all, as some servers of one's own accept.
        exchange_keys(&keys, &ModelKeys::of("fast", key("x")), &secrets);
        assert_eq!(in_force().as_deref(), Some("x"));
        exchange_keys(&keys, &ModelKeys::default(), &secrets);
        assert_eq!(in_force(), None, "a key that is gone needs no finder");
    }
}
