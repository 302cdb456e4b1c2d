//! Where a model's key comes from.

use super::home::Home;
use super::{environment, trusted};
use crate::types::{ModelSink, Secret};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a model's key comes from: the first of these that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelKeySource {
    places: Vec<KeyPlace>,
    /// Whether `par.toml` names the place, so that a missing key is an error.
    is_named: bool,
    /// The file that a login writes; `None` if the key is elsewhere.
    login: Option<PathBuf>,
}

/// A place that may hold a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A file: of root, of the user that starts PAR or of the owner of `data/`, with mode 0600, or
    /// 0640 and the service's group.
    File(PathBuf),
    /// A credential of the service manager (systemd.exec(5), `LoadCredential=`).
    Credential(String),
    /// An environment variable.
    Variable(String),
}

/// A key, and where it was found.
#[derive(Debug)]
pub struct FoundKey {
    /// The key.
    pub key: Secret,
    /// Where it was.
    pub place: KeyPlace,
}

impl ModelKeySource {
    /// Parses `key` of `[models.NAME]`: `file:PATH` relative to the home, `env:NAME`,
    /// `credential:NAME`, `none`, or nothing.
    pub(super) fn parse(from: &str, name: &str, home: &Home) -> Result<Self, String> {
        let login = home.credentials().join(name);
        let one = |place| Self { places: vec![place], is_named: true, login: None };
        match from.split_once(':') {
            None if from.is_empty() => Ok(Self {
                places: vec![KeyPlace::Credential(format!("model_{name}")), KeyPlace::File(login.clone())],
                is_named: false,
                login: Some(login),
            }),
            None if from == "none" => Ok(Self { places: Vec::new(), is_named: true, login: None }),
            Some(("file", path)) if !path.is_empty() => {
                let path = home.root.join(path);
                let login = (path == login).then_some(login);
                Ok(Self { login, ..one(KeyPlace::File(path)) })
            }
            Some(("env", variable)) if is_variable(variable) => {
                Ok(one(KeyPlace::Variable(variable.to_owned())))
            }
            Some(("credential", name)) if !name.is_empty() && !name.contains(['/', '\0']) => {
                Ok(one(KeyPlace::Credential(name.to_owned())))
            }
            // The error does not quote the text, which may be the key itself.
            _ => Err("is not the source of a key, expected `file:PATH`, `env:NAME`, `credential:NAME` or \
                      `none`, not the key"
                .to_owned()),
        }
    }

    /// The sources of the model that `[llm]` describes.
    pub(super) fn of_default(wire: &str, file: &str, home: &Home) -> Self {
        if !file.is_empty() {
            let places = vec![KeyPlace::File(home.root.join(file))];
            return Self { places, is_named: true, login: None };
        }
        let login = home.credentials().join(ModelSink::DEFAULT);
        let mut places = vec![KeyPlace::Credential("llm_api_key".to_owned()), KeyPlace::File(login.clone())];
        places.extend(environment::key_variable(wire).map(|name| KeyPlace::Variable(name.to_owned())));
        Self { places, is_named: false, login: Some(login) }
    }

    /// The places that may hold the key, in order.
    #[must_use]
    pub fn places(&self) -> &[KeyPlace] {
        &self.places
    }

    /// The file that a login writes; `None` if `par.toml` names another place.
    #[must_use]
    pub fn login(&self) -> Option<&Path> {
        self.login.as_deref()
    }

    /// Whether `par.toml` names the place.
    pub(super) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Whether no place has a key. A file that cannot be looked at counts as one that has a key.
    /// Blocking.
    pub(super) fn is_absent(&self) -> bool {
        self.places.iter().all(|place| match place {
            KeyPlace::File(path) => is_gone(path),
            KeyPlace::Credential(name) => environment::credential(name).is_none_or(|path| is_gone(&path)),
            KeyPlace::Variable(name) => environment::key(name).is_none(),
        })
    }

    /// Reads the key from the first place that has one. Blocking.
    pub(super) fn read(&self, home: &Home) -> Result<Option<FoundKey>, String> {
        for place in &self.places {
            if let Some(key) = place.read(home)? {
                return Ok(Some(FoundKey { key, place: place.clone() }));
            }
            if self.is_named {
                return Err(match place {
                    KeyPlace::File(path) => {
                        format!("{}: No such file or directory (os error 2)", path.display())
                    }
                    KeyPlace::Credential(name) => {
                        format!("the service manager passed no credential `{name}` (`LoadCredential=`)")
                    }
                    KeyPlace::Variable(name) => format!("the variable `{name}` is not set"),
                });
            }
        }
        Ok(None)
    }
}

impl KeyPlace {
    /// The key, without surrounding white space; `None` if the place does not exist.
    fn read(&self, home: &Home) -> Result<Option<Secret>, String> {
        let (path, bytes) = match self {
            Self::Variable(name) => return Ok(environment::key(name)),
            Self::Credential(name) => {
                let Some(path) = environment::credential(name) else { return Ok(None) };
                let bytes = trusted::read_private(&path);
                (path, bytes)
            }
            Self::File(path) => (path.clone(), trusted::read_key(path, &home.data)),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("{}: {e}", path.display())),
        };
        let text =
            std::str::from_utf8(&bytes).map_err(|_| format!("{} is not valid UTF-8", path.display()))?;
        let key = Secret::new(text.trim().to_owned());
        key.map(Some).ok_or_else(|| format!("{} is empty", path.display()))
    }
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Credential(name) => write!(f, "credential {name}"),
            Self::Variable(name) => write!(f, "variable {name}"),
        }
    }
}

fn is_gone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

fn is_variable(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=64).contains(&name.len())
        && name.bytes().all(fits)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}
