//! The configuration in force: what was written, checked.

use super::environment;
use super::error::ConfigError;
use super::home::Home;
use super::raw::RawConfig;
use super::secret::SecretSource;
use super::shown::Shown;
use super::trusted;
use crate::types::{Level, Secret, limits};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The configuration in force.
#[derive(Debug)]
pub struct Config {
    /// The home.
    pub home: Home,
    /// Where the server listens.
    pub listen: SocketAddr,
    /// Names that requests may use as `Host`, beside the listen address and loopback names.
    pub hosts: Vec<String>,
    /// How log lines are written.
    pub log: LogFormat,
    /// A socket at which every connection is a launcher; `None`: the server forks its own.
    pub launcher: Option<PathBuf>,
    /// A launcher whose machine reaches less is refused; `None`: any that has every protection by one layer.
    pub sandbox_minimum: Option<Level>,
    /// Certificates (PEM) that builtins believe on their connections, beside the system's.
    pub sandbox_ca_file: Option<PathBuf>,
    /// The newest version of Landlock's whose rights are used; `None` is the kernel's.
    pub landlock_abi_max: Option<u32>,
    /// First and last of the uids of calls that write nothing, where the launcher is root; `None`: all have one.
    pub slot_uids: Option<(u32, u32)>,
    /// The model.
    pub llm: Llm,
    /// `[paths]`: name without `@` → absolute folder.
    pub paths: BTreeMap<String, PathBuf>,
    /// Role of a command that runs without a server, as written.
    pub local_role: String,
    /// `[groups]`: name → users, as keys name them, or `os:root` and the like.
    pub groups: BTreeMap<String, Vec<String>>,
    /// How long a call waits for a person, in milliseconds.
    pub approval_ms: u64,
    /// Runs of one key within an hour.
    pub key_runs_hour_max: u64,
    /// What they put on the ledger, in bytes.
    pub key_bytes_hour_max: u64,
    /// Free space below which new runs are refused, in bytes.
    pub free_bytes_min: u64,
    /// How the ledger's files are split, and how long payloads stay.
    pub segments: Segments,
    /// Where the ledger's checkpoints are told.
    pub anchoring: Anchoring,
    /// `[secrets]`: name → where its value is read from, each time that it is asked for.
    pub secrets: BTreeMap<String, SecretSource>,
    /// `[secret_patterns]`: name → regular expression, as written.
    pub secret_patterns: BTreeMap<String, String>,
    /// Each key with its value for people and where it came from.
    pub shown: Vec<Shown>,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people, one line each.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The format that is called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The `[llm]` part.
#[derive(Debug)]
pub struct Llm {
    /// `offline`, `openai` or `anthropic`.
    pub provider: String,
    /// Address of the server; empty for the provider's own.
    pub base_url: String,
    /// The model.
    pub model: String,
    /// The file that holds its key; see [`Config::model_key`].
    pub api_key_file: Option<PathBuf>,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Most tokens of one reply.
    pub reply_tokens_max: Option<u32>,
}

/// How the ledger's files are split, and how long payloads stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of one segment.
    pub bytes_max: u64,
    /// Age of one segment, in seconds; `None` is any.
    pub s_max: Option<u64>,
    /// Age of the payloads of a sealed segment, in seconds; `None` keeps them.
    pub payload_s_max: Option<u64>,
}

/// Where the ledger's checkpoints are told, as configured: who anchors reads the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchoring {
    /// `journal`, `file:` and an absolute path, the URL of a witness, or `none`.
    pub place: String,
    /// The witness's verifier key.
    pub key: String,
    /// Between two anchors, in milliseconds.
    pub every_ms: u64,
    /// Age of the newest anchor of a ledger that has grown beyond which it is warned of, in milliseconds.
    pub age_ms_max: u64,
}

impl Config {
    /// Reads `par.toml` of `home` and the environment. No value of a secret is read.
    pub fn load(home: Home) -> Result<Self, ConfigError> {
        let file = home.file();
        let bytes = trusted::read(&file).map_err(|e| ConfigError::file(&file, None, e.to_string()))?;
        let (raw, shown) = RawConfig::read(&file, &bytes, environment::overrides()?)?;
        Self::resolve(home, raw, shown)
    }

    /// Reads the model's key, for who makes the provider: of the file that `llm.api_key_file` names, else of the service
    /// manager's credential, else of the provider's usual variable; `None` where there is none.
    ///
    /// INVARIANT: not called before a launcher is forked, which would have a copy of it.
    pub fn model_key(&self) -> Result<Option<Secret>, ConfigError> {
        let Some(path) = &self.llm.api_key_file else {
            return Ok(environment::model_key(&self.llm.provider));
        };
        let refuse = |e| ConfigError::file(&self.home.file(), None, format!("`llm.api_key_file`: {e}"));
        read_secret(path).map(Some).map_err(refuse)
    }

    fn resolve(home: Home, raw: RawConfig, shown: Vec<Shown>) -> Result<Self, ConfigError> {
        let file = home.file();
        let refuse = |key: &str, reason: String| ConfigError::file(&file, None, format!("`{key}`: {reason}"));
        let listen = raw.server.listen.parse().map_err(|_| {
            refuse("server.listen", format!("`{}` is no address with a port", raw.server.listen))
        })?;
        let paths = named_paths(&raw, &home)
            .map_err(|name| refuse(&format!("paths.{name}"), "is no name for a path".to_owned()))?;
        for (group, users) in &raw.groups {
            if let Some(wrong) = std::iter::once(group).chain(users).find(|name| !is_user_or_group(name)) {
                let must = "must be 1 to 64 characters of `A-Z a-z 0-9 . _ - @ :`";
                return Err(refuse(&format!("groups.{group}"), format!("`{wrong}` {must}")));
            }
        }
        check_bounds(&raw).map_err(|(key, reason)| refuse(key, reason))?;
        let approval_ms = raw.approvals.expire_s.saturating_mul(1_000);
        let secrets = SecretSource::all(&raw.secrets, &home.root);
        let secrets = secrets.map_err(|(name, e)| refuse(&format!("secrets.{name}"), e))?;
        let relative = |path: &str| (!path.is_empty()).then(|| home.root.join(path));
        let log = LogFormat::parse(&raw.server.log).ok_or_else(|| {
            refuse("server.log", format!("`{}` is neither `text` nor `json`", raw.server.log))
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
            llm: Llm {
                provider: raw.llm.provider,
                base_url: raw.llm.base_url,
                model: raw.llm.model,
                api_key_file: relative(&raw.llm.api_key_file),
                ca_file: relative(&raw.llm.ca_file),
                reply_tokens_max: (raw.llm.reply_tokens_max > 0).then_some(raw.llm.reply_tokens_max),
            },
            paths,
            local_role: raw.auth.local_role,
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

/// `[paths]` and the workspace. The error is what is no name.
fn named_paths(raw: &RawConfig, home: &Home) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut paths = BTreeMap::from([("workspace".to_owned(), home.workspace.clone())]);
    for (name, path) in &raw.paths {
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !is_name || name == "workspace" {
            return Err(name.clone());
        }
        // Relative paths start at the home.
        paths.insert(name.clone(), home.root.join(path));
    }
    Ok(paths)
}

/// The level that is demanded; empty names none.
fn minimum(name: &str) -> Result<Option<Level>, String> {
    let unknown = || format!("`{name}` is neither `standard` nor `strict`");
    (!name.is_empty()).then(|| Level::parse(name).ok_or_else(unknown)).transpose()
}

/// A range as it is written, or none. Never of root's or nobody's, nor of the ids that mean none.
fn slot_uids(range: &str) -> Result<Option<(u32, u32)>, String> {
    if range.is_empty() {
        return Ok(None);
    }
    let ends =
        range.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) if 0 < first && first <= last && last < 65_534 => Ok(Some((first, last))),
        Some((first, last)) if 65_535 < first && first <= last && last < u32::MAX => Ok(Some((first, last))),
        _ => Err(format!("`{range}` is no range of uids, such as `60100-60163`")),
    }
}

/// A bound as it is written; 0 is none.
fn unbounded(bound: u64) -> u64 {
    if bound == 0 { u64::MAX } else { bound }
}

/// Refuses numbers out of bounds: the key and the reason.
fn check_bounds(raw: &RawConfig) -> Result<(), (&'static str, String)> {
    let approval_ms = raw.approvals.expire_s.saturating_mul(1_000);
    if approval_ms == 0 || approval_ms > limits::APPROVAL_MS_MAX {
        let most = limits::APPROVAL_MS_MAX / 1_000;
        return Err(("approvals.expire_s", format!("is not within 1 and {most}")));
    }
    if raw.ledger.anchor_every_ms < limits::ANCHOR_EVERY_MS_MIN {
        let least = limits::ANCHOR_EVERY_MS_MIN;
        return Err(("ledger.anchor_every_ms", format!("is less than {least}")));
    }
    if raw.ledger.segment_bytes_max < limits::SEGMENT_BYTES_MAX_MIN {
        let least = limits::SEGMENT_BYTES_MAX_MIN;
        return Err(("ledger.segment_bytes_max", format!("is less than {least}")));
    }
    Ok(())
}

fn is_user_or_group(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-@:".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Secret::new(text.trim().to_owned()).ok_or_else(|| format!("{}: is empty", path.display()))
}
