//! What manifests are resolved against, in one home.

use super::manifest::Places;
use crate::config::Config;
use std::path::Path;

impl Places {
    /// Of the home that `config` is for.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { names: config.paths.clone(), private: vec![real(&config.home.etc), real(&config.home.data)] }
    }
}
