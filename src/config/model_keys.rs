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
pub struct ModelKeys(Arc<RwLock<Arc<BTreeMap<String, Secret>>>>);

impl ModelKeys {
    /// Starts with one key.
    #[must_use]
    pub fn of(name: &str, key: Secret) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(BTreeMap::from([(name.to_owned(), key)])))))
    }

    /// Reads the keys of the models that are asked. Blocking.
    pub(super) fn read(models: &Models, home: &Home) -> Result<Self, ConfigError> {
        let mut keys = BTreeMap::new();
        for model in models.asked() {
            if let Some(found) = find(model, home)? {
                keys.insert(model.name.clone(), found.key);
            }
        }
        Ok(Self(Arc::new(RwLock::new(Arc::new(keys)))))
    }

    /// The keys at present. One request uses the same ones from beginning to end.
    #[must_use]
    pub fn now(&self) -> Arc<BTreeMap<String, Secret>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on holds the keys of `other`.
    ///
    /// INVARIANT: the finder of secrets knows them already.
    pub fn exchange(&self, other: &Self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = other.now();
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
