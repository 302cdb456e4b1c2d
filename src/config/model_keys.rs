//! The keys of the models in use.

use super::error::ConfigError;
use super::home::Home;
use super::model_key::FoundKey;
use super::models::{Models, NamedModel};
use crate::types::Secret;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The keys of the models that are asked, by the models' names. Clones share them; a reload
/// exchanges them for every clone.
#[derive(Clone, Debug, Default)]
pub struct ModelKeys(Arc<RwLock<Arc<KeysByModel>>>);

/// Keys by the names of their models.
type KeysByModel = BTreeMap<String, Arc<Secret>>;

impl ModelKeys {
    /// Starts with one key.
    #[must_use]
    pub fn of(name: &str, key: Secret) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(BTreeMap::from([(name.to_owned(), Arc::new(key))])))))
    }

    /// Reads the keys of the models that are asked. Blocking.
    pub(super) fn read(models: &Models, home: &Home) -> Result<Self, ConfigError> {
        let mut keys = BTreeMap::new();
        for model in models.asked() {
            if let Some(found) = find(model, home)? {
                keys.insert(model.name.clone(), Arc::new(found.key));
            }
        }
        Ok(Self(Arc::new(RwLock::new(Arc::new(keys)))))
    }

    /// The keys at present. One request uses the same ones from beginning to end.
    #[must_use]
    pub fn now(&self) -> Arc<KeysByModel> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on holds the keys of `other`, except those that are not known to the finder of
    /// secrets: these stay as they are, because text that comes back is not searched for them.
    pub fn exchange(&self, other: &Self, is_known: impl Fn(&str, &Secret) -> bool) {
        let before = self.now();
        let known = |(name, key): (&String, &Arc<Secret>)| match is_known(name, key) {
            true => Some((name.clone(), key.clone())),
            false => before.get(name).map(|key| (name.clone(), key.clone())),
        };
        let keys = other.now().iter().filter_map(known).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Reads the keys again from where they were read before, for models whose settings may have
    /// changed since. `started` are the models in use, `now` those that `par.toml` describes.
    /// Blocking.
    ///
    /// A key that is gone is used no more, whatever has changed. A new one is taken only if it
    /// goes where the earlier one went.
    pub fn reread(&self, started: &Models, now: &Models, home: &Home) -> Result<RereadKeys, ConfigError> {
        let (before, mut keys, mut reread) = (self.now(), BTreeMap::new(), RereadKeys::default());
        for model in started.asked() {
            let found = find_unless_gone(model, home)?.map(|found| Arc::new(found.key));
            let differs = now.find(&model.name).map_or_else(
                || vec![model.table.clone()],
                |other| model.sends_differently(other).into_iter().map(|key| model.setting(key)).collect(),
            );
            let (held, name) = (before.get(&model.name), model.name.clone());
            let is_same = held.map(|key| key.expose()) == found.as_ref().map(|key| key.expose());
            let key = match (held, found) {
                (_, found) if is_same => found,
                (_, None) => {
                    reread.removed.push(name);
                    None
                }
                (held, Some(_)) if !differs.is_empty() => {
                    reread.not_taken.insert(name, differs);
                    held.cloned()
                }
                (None, found) => {
                    reread.added.push(name);
                    found
                }
                (Some(_), found) => {
                    reread.replaced.push(name);
                    found
                }
            };
            keys.extend(key.map(|key| (model.name.clone(), key)));
        }
        Ok(RereadKeys { keys: Self(Arc::new(RwLock::new(Arc::new(keys)))), ..reread })
    }
}

/// The keys of models, read again, and what became of each that changed. All names are sorted as
/// the models are asked.
#[derive(Debug, Default)]
pub struct RereadKeys {
    /// Those to use from now on.
    pub keys: ModelKeys,
    /// Models that had no key and have one now.
    pub added: Vec<String>,
    /// Models whose key is another one now.
    pub replaced: Vec<String>,
    /// Models whose key is gone.
    pub removed: Vec<String>,
    /// Models with a new key that is not used, and the settings that say where it would go: they
    /// have changed too, and take effect at the next start.
    pub not_taken: BTreeMap<String, Vec<String>>,
}

/// Reads the key of one model; a place that `par.toml` names may be empty.
fn find_unless_gone(model: &NamedModel, home: &Home) -> Result<Option<FoundKey>, ConfigError> {
    match model.key.is_absent() {
        true => Ok(None),
        false => find(model, home),
    }
}

/// Reads the key of one model. Blocking.
pub(super) fn find(model: &NamedModel, home: &Home) -> Result<Option<FoundKey>, ConfigError> {
    let setting = match (model.table.as_str(), model.key.is_named()) {
        ("llm", true) => "llm.api_key_file".to_owned(),
        _ => model.setting("key"),
    };
    model.key.read(home).map_err(|why| ConfigError::file(&home.file(), None, format!("`{setting}`: {why}")))
}
