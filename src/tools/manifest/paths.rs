//! The folders that the paths of a manifest are resolved against.

use crate::config::Config;
use crate::types::nearest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders that the paths of a manifest are resolved against.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `[paths]` of `par.toml`: name without `@` → absolute folder.
    pub names: BTreeMap<String, PathBuf>,
    /// Folders that no manifest may grant, contain or lie in: `etc/` and `data/`, as real paths.
    pub private: Vec<PathBuf>,
}

impl Places {
    /// The places of the home that `config` is for.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { names: config.paths.clone(), private: vec![real(&config.home.etc), real(&config.home.data)] }
    }

    /// The path of a grant: absolute, or `@name` from the configuration followed by folders below
    /// it.
    pub(super) fn spell(&self, grant: &str) -> Result<PathBuf, String> {
        let path = match grant.strip_prefix('@').map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
            Some((name, below)) => {
                let known = self.names.get(name);
                let known = known.ok_or_else(|| self.unknown(name))?;
                // Not with `join`, which an absolute rest would lead elsewhere.
                let mut path = known.clone().into_os_string();
                path.push("/");
                path.push(below);
                PathBuf::from(path)
            }
            None => PathBuf::from(grant),
        };
        let plain = path.is_absolute()
            && path
                .components()
                .all(|c| matches!(c, std::path::Component::RootDir | std::path::Component::Normal(_)));
        if !plain {
            return Err(format!("`{grant}` is not an absolute path without `.` and `..`"));
        }
        // A name may be followed by more than one slash.
        Ok(path.components().collect())
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<String> = self.names.keys().map(|name| format!("@{name}")).collect();
        let meant = nearest(name, self.names.keys().map(String::as_str));
        let meant = meant.map_or_else(String::new, |meant| format!(" did you mean `@{meant}`?"));
        let listed = match known.is_empty() {
            true => "it has no names".to_owned(),
            false => format!("expected one of {}", known.join(", ")),
        };
        format!("`@{name}` is not in `[paths]` of par.toml:{meant} {listed}")
    }

    /// The folder or socket that a grant names, without links.
    pub(super) fn resolve(&self, grant: &str) -> Result<PathBuf, String> {
        let path = self.spell(grant)?;
        // A grant through a link is judged by where it leads; an absent one by its path.
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if real.starts_with("/proc") {
            return Err(format!(
                "`{grant}` is in /proc, which cannot be granted: `proc = \"self\"` gives a program its own /proc, \
                 `proc = \"host\"` gives a builtin the host's figures"
            ));
        }
        for private in &self.private {
            if real.starts_with(private) || private.starts_with(&real) {
                return Err(format!(
                    "`{grant}` contains, equals or lies in `{}`, which no tool may see",
                    private.display()
                ));
            }
        }
        Ok(real)
    }
}
