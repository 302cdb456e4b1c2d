//! The configuration in force: what was written, after checks.

use super::environment;
use super::error::ConfigError;
use super::home::Home;
use super::model_key::{FoundKey, KeyPlace};
use super::model_keys::{self, ModelKeys};
use super::models::{Models, NamedModel};
use super::raw::{OsUser, RawConfig};
use super::secret::SecretSource;
use super::shown::Shown;
use super::trusted;
use crate::types::{Level, limits};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

/// The configuration in force.
#[derive(Debug)]
pub struct Config {
    /// The home.
    pub home: Home,
    /// The address on which the server listens.
    pub listen: SocketAddr,
    /// Names that requests may use as `Host`, in addition to the listen address and loopback names.
    pub hosts: Vec<String>,
    /// How log lines are written.
    pub log: LogFormat,
    /// A socket on which every connection is a launcher; `None`: the server forks its own.
    pub launcher: Option<PathBuf>,
    /// The lowest level accepted from a launcher; `None`: any launcher with at least one layer for
    /// each protection.
    pub sandbox_minimum: Option<Level>,
    /// Certificates (PEM) that builtins trust on their connections, in addition to the system's.
    pub sandbox_ca_file: Option<PathBuf>,
    /// The newest version of Landlock whose rights are used; `None` is the kernel's.
    pub landlock_abi_max: Option<u32>,
    /// First and last uid for calls that write nothing, if the launcher is root; `None`: all calls
    /// share one uid.
    pub slot_uids: Option<(u32, u32)>,
    /// The models.
    pub models: Models,
    /// `[paths]`: name without `@` → absolute folder.
    pub paths: BTreeMap<String, PathBuf>,
    /// Role of a command that runs without a server, as written.
    pub local_role: String,
    /// `[auth.os_users]`: the name of a user of this host → its user and role.
    pub os_users: BTreeMap<String, OsUser>,
    /// `[groups]`: name → users, as keys name them, or `os:root` and the like.
    pub groups: BTreeMap<String, Vec<String>>,
    /// How long a call waits for a person's approval, in milliseconds.
    pub approval_ms: u64,
    /// Runs of one key in an hour.
    pub key_runs_hour_max: u64,
    /// What the runs of one key put on the ledger in an hour, in bytes.
    pub key_bytes_hour_max: u64,
    /// Free space below which new runs are refused, in bytes.
    pub free_bytes_min: u64,
    /// How the ledger is split into files, and how long payloads are kept.
    pub segments: Segments,
    /// Where the ledger's checkpoints are anchored.
    pub anchoring: Anchoring,
    /// How often the server verifies what was appended since, and every entry, in seconds.
    pub verify_every_s: (u64, u64),
    /// `[secrets]`: name → the source of its value, which is read each time that it is needed.
    pub secrets: BTreeMap<String, SecretSource>,
    /// `[secret_patterns]`: name → regular expression, as written.
    pub secret_patterns: BTreeMap<String, String>,
    /// Each key with its displayed value and its origin.
    pub shown: Vec<Shown>,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable text, one line per event.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// Parses the name of a format.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// How the ledger is split into files, and how long payloads are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Size of one segment, in bytes.
    pub bytes_max: u64,
    /// Age of one segment, in seconds; `None` is unbounded.
    pub s_max: Option<u64>,
    /// Age of the payloads of a sealed segment, in seconds; `None` keeps them.
    pub payload_s_max: Option<u64>,
}

/// Where the ledger's checkpoints are anchored, as configured; the anchoring code parses `place`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchoring {
    /// `journal`, `file:` and an absolute path, the URL of a witness, or `none`.
    pub place: String,
    /// The witness's verifier key.
    pub key: String,
    /// Interval between two anchors, in milliseconds.
    pub every_ms: u64,
    /// Age of the newest anchor at which a warning is given if the ledger has grown since, in
    /// milliseconds.
    pub age_ms_max: u64,
}

impl Config {
    /// Reads `par.toml` of `home` and the environment. Reads no secret's value.
    pub fn load(home: Home) -> Result<Self, ConfigError> {
        let file = home.file();
        let bytes = trusted::read(&file).map_err(|e| ConfigError::file(&file, None, e.to_string()))?;
        let (raw, shown) = RawConfig::read(&file, &bytes, environment::overrides()?)?;
        Self::resolve(home, raw, shown)
    }

    /// Reads the keys of the models that are asked, for the code that makes the providers.
    ///
    /// INVARIANT: not called before a launcher is forked, because the launcher would have a copy of
    /// the keys.
    pub fn model_keys(&self) -> Result<ModelKeys, ConfigError> {
        ModelKeys::read(&self.models, &self.home)
    }

    /// Reads the key of one model, under the same condition.
    pub fn model_key(&self, model: &NamedModel) -> Result<Option<FoundKey>, ConfigError> {
        model_keys::find(model, &self.home)
    }

    /// The environment variables from which keys of models are read.
    #[must_use]
    pub fn key_variables(&self) -> Vec<String> {
        let places = self.models.all.iter().flat_map(|model| model.key.places());
        let variable = |place: &KeyPlace| match place {
            KeyPlace::Variable(name) => Some(name.clone()),
            KeyPlace::File(_) | KeyPlace::Credential(_) => None,
        };
        places.filter_map(variable).collect()
    }

    fn resolve(home: Home, raw: RawConfig, shown: Vec<Shown>) -> Result<Self, ConfigError> {
        let file = home.file();
        let refuse = |key: &str, reason: String| ConfigError::file(&file, None, format!("`{key}`: {reason}"));
        let listen = raw.server.listen.parse().map_err(|_| {
            refuse(
                "server.listen",
                format!(
                    "invalid address `{}`, expected an IP address and a port, such as `127.0.0.1:7117`",
                    raw.server.listen
                ),
            )
        })?;
        let paths =
            named_paths(&raw, &home).map_err(|(name, reason)| refuse(&format!("paths.{name}"), reason))?;
        check_names(&raw).map_err(|(key, reason)| refuse(&key, reason))?;
        check_bounds(&raw).map_err(|(key, reason)| refuse(key, reason))?;
        let approval_ms = raw.approvals.expire_s.saturating_mul(1_000);
        let secrets = SecretSource::all(&raw.secrets, &home.root);
        let secrets = secrets.map_err(|(name, e)| refuse(&format!("secrets.{name}"), e))?;
        let relative = |path: &str| (!path.is_empty()).then(|| home.root.join(path));
        let models = Models::resolve(raw.llm, raw.models, &home).map_err(|(key, e)| refuse(&key, e))?;
        let log = LogFormat::parse(&raw.server.log).ok_or_else(|| {
            refuse("server.log", format!("unknown format `{}`, expected `text` or `json`", raw.server.log))
        })?;
        let sandbox_minimum = minimum(&raw.sandbox.minimum).map_err(|e| refuse("sandbox.minimum", e))?;
        let slot_uids = slot_uids(&raw.sandbox.slot_uids).map_err(|e| refuse("sandbox.slot_uids", e))?;
        Ok(Self {
            listen,
            hosts: raw.server.hosts,
            log,
            launcher: relative(&raw.sandbox.launcher),
            sandbox_minimum,
            sandbox_ca_file: relative(&raw.sandbox.ca_file),
            landlock_abi_max: (raw.sandbox.landlock_abi_max > 0).then_some(raw.sandbox.landlock_abi_max),
            slot_uids,
            models,
            paths,
            local_role: raw.auth.local_role,
            os_users: raw.auth.os_users,
            free_bytes_min: raw.ledger.free_bytes_min.unwrap_or(limits::LEDGER_FREE_BYTES_MIN),
            segments: Segments {
                bytes_max: raw.ledger.segment_bytes_max,
                s_max: (raw.ledger.segment_s_max > 0).then_some(raw.ledger.segment_s_max),
                payload_s_max: (raw.ledger.payload_s_max > 0).then_some(raw.ledger.payload_s_max),
            },
            anchoring: Anchoring {
                place: raw.ledger.anchor,
                key: raw.ledger.anchor_key,
                every_ms: raw.ledger.anchor_every_ms,
                age_ms_max: raw.ledger.anchor_age_ms_max,
            },
            verify_every_s: (raw.ledger.verify_every_s, raw.ledger.verify_whole_every_s),
            secrets,
            secret_patterns: raw.secret_patterns,
            groups: raw.groups,
            approval_ms,
            key_runs_hour_max: unbounded(raw.limits.key_runs_hour_max),
            key_bytes_hour_max: unbounded(raw.limits.key_bytes_hour_max),
            shown,
            home,
        })
    }
}

/// `[paths]` and the workspace. The error is the first invalid name or path, with the reason.
fn named_paths(raw: &RawConfig, home: &Home) -> Result<BTreeMap<String, PathBuf>, (String, String)> {
    let mut paths = BTreeMap::from([("workspace".to_owned(), home.workspace.clone())]);
    for (name, path) in &raw.paths {
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !is_name || name == "workspace" {
            return Err((name.clone(), "not a valid name for a path".to_owned()));
        }
        paths.insert(name.clone(), named_path(path, home).map_err(|reason| (name.clone(), reason))?);
    }
    Ok(paths)
}

/// A folder of the host, or, if it begins with `./`, of the home. A path that only lost its first
/// `/` is neither.
fn named_path(path: &str, home: &Home) -> Result<PathBuf, String> {
    let has_dots = Path::new(path).components().any(|part| part == Component::ParentDir);
    if has_dots {
        return Err(format!("`{path}` contains `..`: write the folder itself"));
    }
    match path.strip_prefix("./") {
        Some(below) => Ok(home.root.join(below)),
        None if path.starts_with('/') => Ok(PathBuf::from(path)),
        None => Err(format!("`{path}` is relative: write `/{path}`, or `./{path}` for a folder of the home")),
    }
}

/// The required level; empty means none.
fn minimum(name: &str) -> Result<Option<Level>, String> {
    let unknown = || format!("unknown level `{name}`, expected `standard` or `strict`");
    (!name.is_empty()).then(|| Level::parse(name).ok_or_else(unknown)).transpose()
}

/// Parses a range of uids. Excludes root, `nobody` (65534) and 65535, and the uids that mean
/// "none".
fn slot_uids(range: &str) -> Result<Option<(u32, u32)>, String> {
    if range.is_empty() {
        return Ok(None);
    }
    let ends =
        range.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) if 0 < first && first <= last && last < 65_534 => Ok(Some((first, last))),
        Some((first, last)) if 65_535 < first && first <= last && last < u32::MAX => Ok(Some((first, last))),
        _ => Err(format!("invalid range of uids `{range}`, expected one such as `60100-60163`")),
    }
}

/// A bound as written; 0 means unbounded.
fn unbounded(bound: u64) -> u64 {
    if bound == 0 { u64::MAX } else { bound }
}

/// Refuses names of users and groups in `[groups]` and `[auth.os_users]`: the key and the reason.
fn check_names(raw: &RawConfig) -> Result<(), (String, String)> {
    let groups = raw.groups.iter().map(|(group, users)| {
        (format!("groups.{group}"), std::iter::once(group).chain(users).collect::<Vec<_>>())
    });
    let hosts = raw.auth.os_users.iter();
    let hosts = hosts.map(|(name, of)| (format!("auth.os_users.{name}"), vec![name, &of.user]));
    for (key, names) in groups.chain(hosts) {
        if let Some(wrong) = names.into_iter().find(|name| !is_user_or_group(name)) {
            let must = "must be 1 to 64 characters of `A-Z a-z 0-9 . _ - @ :`";
            return Err((key, format!("`{wrong}` {must}")));
        }
    }
    Ok(())
}

/// Refuses numbers out of bounds: the key and the reason.
fn check_bounds(raw: &RawConfig) -> Result<(), (&'static str, String)> {
    let approval_ms = raw.approvals.expire_s.saturating_mul(1_000);
    if approval_ms == 0 || approval_ms > limits::APPROVAL_MS_MAX {
        let most = limits::APPROVAL_MS_MAX / 1_000;
        return Err(("approvals.expire_s", format!("must be between 1 and {most}")));
    }
    let payload_s = Some(raw.ledger.payload_s_max).filter(|most_s| *most_s > 0);
    if let Some(most_s) = payload_s.filter(|most_s| raw.approvals.expire_s > *most_s) {
        let reason = format!(
            "must be at most `ledger.payload_s_max`, {most_s}: an approval needs the payloads of its run until it is \
             answered"
        );
        return Err(("approvals.expire_s", reason));
    }
    if raw.ledger.anchor_every_ms < limits::ANCHOR_EVERY_MS_MIN {
        let least = limits::ANCHOR_EVERY_MS_MIN;
        return Err(("ledger.anchor_every_ms", format!("must be at least {least}")));
    }
    if raw.ledger.verify_every_s == 0 {
        return Err(("ledger.verify_every_s", "must be at least 1".to_owned()));
    }
    if raw.ledger.verify_whole_every_s < raw.ledger.verify_every_s {
        let least = "must be at least `ledger.verify_every_s`".to_owned();
        return Err(("ledger.verify_whole_every_s", least));
    }
    if raw.ledger.segment_bytes_max < limits::SEGMENT_BYTES_MAX_MIN {
        let least = limits::SEGMENT_BYTES_MAX_MIN;
        return Err(("ledger.segment_bytes_max", format!("must be at least {least}")));
    }
    Ok(())
}

fn is_user_or_group(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-@:".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}
