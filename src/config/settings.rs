//! The configuration in force: what was written, after checks.

use super::environment;
use super::error::{ConfigError, ConfigFaults};
use super::home::Home;
use super::model_key::{FoundKey, KeyPlace};
use super::model_keys::{self, ModelKeys};
use super::models::{Models, NamedModel};
use super::raw::{OsUser, ROLE_NAMES, RawConfig};
use super::secret::SecretSource;
use super::shown::Shown;
use super::trusted;
use crate::types::{Level, limits, nearest};
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
    /// Open questions to people that one key or user may have.
    pub open_key_max: u64,
    /// Open questions to people that one run may have.
    pub open_run_max: u64,
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
    ///
    /// # Errors
    ///
    /// Every fault of the file and of the variables, at once.
    pub fn load(home: Home) -> Result<Self, ConfigFaults> {
        let file = home.file();
        let bytes = trusted::read(&file).map_err(|e| ConfigError::file(&file, None, e.to_string()))?;
        let (raw, shown, faults) = RawConfig::read(&file, &bytes, environment::overrides()?)?;
        Self::resolve(home, raw, shown, faults)
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

    /// Checks the values. `faults` are those of the file as it is written.
    fn resolve(
        home: Home,
        raw: RawConfig,
        shown: Vec<Shown>,
        faults: Vec<ConfigError>,
    ) -> Result<Self, ConfigFaults> {
        let mut values = CheckedValues { file: home.file(), faults };
        let listen = values.take("server.listen", listen(&raw.server.listen));
        let paths = values.all(named_paths(&raw, &home));
        values.add(check_names(&raw));
        values.add(check_roles(&raw));
        values.add(check_bounds(&raw).into_iter().map(|(key, reason)| (key.to_owned(), reason)).collect());
        let approval_ms = raw.approvals.expire_s.saturating_mul(1_000);
        let secrets = SecretSource::all(&raw.secrets, &home.root);
        let secrets = values.all(secrets.map_err(|(name, e)| vec![(format!("secrets.{name}"), e)]));
        let relative = |path: &str| (!path.is_empty()).then(|| home.root.join(path));
        let models = Models::resolve(raw.llm, raw.models, &home);
        let models = values.all(models.map_err(|fault| vec![fault]));
        let log = LogFormat::parse(&raw.server.log)
            .ok_or_else(|| format!("unknown format `{}`, expected `text` or `json`", raw.server.log));
        let log = values.take("server.log", log);
        let sandbox_minimum = values.take("sandbox.minimum", minimum(&raw.sandbox.minimum));
        let slot_uids = values.take("sandbox.slot_uids", slot_uids(&raw.sandbox.slot_uids));
        let (
            Some(listen),
            Some(paths),
            Some(secrets),
            Some(models),
            Some(log),
            Some(sandbox_minimum),
            Some(slot_uids),
            [],
        ) = (listen, paths, secrets, models, log, sandbox_minimum, slot_uids, values.faults.as_slice())
        else {
            return Err(ConfigFaults(values.faults));
        };
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
            open_key_max: unbounded(raw.approvals.open_key_max),
            open_run_max: unbounded(raw.approvals.open_run_max),
            key_runs_hour_max: unbounded(raw.limits.key_runs_hour_max),
            key_bytes_hour_max: unbounded(raw.limits.key_bytes_hour_max),
            shown,
            home,
        })
    }
}

/// A key with the reason why its value is refused.
type KeyFault = (String, String);

/// Collects what is wrong with the values.
struct CheckedValues {
    file: PathBuf,
    faults: Vec<ConfigError>,
}

impl CheckedValues {
    fn add(&mut self, found: Vec<KeyFault>) {
        let of_file = |(key, reason)| ConfigError::file(&self.file, None, format!("`{key}`: {reason}"));
        self.faults.extend(found.into_iter().map(of_file).collect::<Vec<_>>());
    }

    fn take<T>(&mut self, key: &str, value: Result<T, String>) -> Option<T> {
        self.all(value.map_err(|reason| vec![(key.to_owned(), reason)]))
    }

    fn all<T>(&mut self, value: Result<T, Vec<KeyFault>>) -> Option<T> {
        value.map_err(|found| self.add(found)).ok()
    }
}

fn listen(address: &str) -> Result<SocketAddr, String> {
    address.parse().map_err(|_| {
        format!("invalid address `{address}`, expected an IP address and a port, such as `127.0.0.1:7117`")
    })
}

/// `[paths]` and the workspace, or each invalid name or path.
fn named_paths(raw: &RawConfig, home: &Home) -> Result<BTreeMap<String, PathBuf>, Vec<KeyFault>> {
    let mut paths = BTreeMap::from([("workspace".to_owned(), home.workspace.clone())]);
    let mut faults = Vec::new();
    for (name, path) in &raw.paths {
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        let path = match is_name && name != "workspace" {
            true => named_path(path, home),
            false => Err("not a valid name for a path".to_owned()),
        };
        match path {
            Ok(path) => drop(paths.insert(name.clone(), path)),
            Err(reason) => faults.push((format!("paths.{name}"), reason)),
        }
    }
    if faults.is_empty() { Ok(paths) } else { Err(faults) }
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
    let meant = nearest(name, ["standard", "strict"]).map(|meant| format!(": did you mean `{meant}`?"));
    let unknown =
        || format!("unknown level `{name}`, expected `standard` or `strict`{}", meant.unwrap_or_default());
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

/// The invalid names of users and groups in `[groups]` and `[auth.os_users]`.
fn check_names(raw: &RawConfig) -> Vec<KeyFault> {
    let groups = raw.groups.iter().map(|(group, users)| {
        (format!("groups.{group}"), std::iter::once(group).chain(users).collect::<Vec<_>>())
    });
    let hosts = raw.auth.os_users.iter();
    let hosts = hosts.map(|(name, of)| (format!("auth.os_users.{name}"), vec![name, &of.user]));
    let wrong = |(key, names): (String, Vec<&String>)| {
        let wrong = names.into_iter().find(|name| !is_user_or_group(name))?;
        Some((key, format!("`{wrong}` must be 1 to 64 characters of `A-Z a-z 0-9 . _ - @ :`")))
    };
    groups.chain(hosts).filter_map(wrong).collect()
}

/// The roles that do not exist.
fn check_roles(raw: &RawConfig) -> Vec<KeyFault> {
    let own = std::iter::once(("auth.local_role".to_owned(), &raw.auth.local_role));
    let named = raw.auth.os_users.iter().map(|(name, of)| (format!("auth.os_users.{name}.role"), &of.role));
    let unknown = |(key, role): (String, &String)| {
        let meant = nearest(role, ROLE_NAMES).map(|meant| format!(": did you mean `{meant}`?"));
        let known = ROLE_NAMES.join(", ");
        let reason = format!("unknown role `{role}`, expected one of {known}{}", meant.unwrap_or_default());
        (!ROLE_NAMES.contains(&role.as_str())).then_some((key, reason))
    };
    own.chain(named).filter_map(unknown).collect()
}

/// The numbers out of bounds.
fn check_bounds(raw: &RawConfig) -> Vec<(&'static str, String)> {
    let (approvals, ledger) = (&raw.approvals, &raw.ledger);
    let mut faults = Vec::new();
    let approval_ms = approvals.expire_s.saturating_mul(1_000);
    if approval_ms == 0 || approval_ms > limits::APPROVAL_MS_MAX {
        let most = limits::APPROVAL_MS_MAX / 1_000;
        faults.push(("approvals.expire_s", format!("must be between 1 and {most}")));
    } else if ledger.payload_s_max > 0 && approvals.expire_s > ledger.payload_s_max {
        let most_s = ledger.payload_s_max;
        let reason = format!(
            "must be at most `ledger.payload_s_max`, {most_s}: an approval needs the payloads of its run until it is \
             answered"
        );
        faults.push(("approvals.expire_s", reason));
    }
    if ledger.anchor_every_ms < limits::ANCHOR_EVERY_MS_MIN {
        let least = limits::ANCHOR_EVERY_MS_MIN;
        faults.push(("ledger.anchor_every_ms", format!("must be at least {least}")));
    }
    if ledger.verify_every_s == 0 {
        faults.push(("ledger.verify_every_s", "must be at least 1".to_owned()));
    }
    if ledger.verify_whole_every_s < ledger.verify_every_s {
        let least = "must be at least `ledger.verify_every_s`".to_owned();
        faults.push(("ledger.verify_whole_every_s", least));
    }
    if ledger.segment_bytes_max < limits::SEGMENT_BYTES_MAX_MIN {
        let least = limits::SEGMENT_BYTES_MAX_MIN;
        faults.push(("ledger.segment_bytes_max", format!("must be at least {least}")));
    }
    faults
}

fn is_user_or_group(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-@:".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}
