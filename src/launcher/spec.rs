//! What a launcher is started with, why it did not start, and how many calls it accepts.

use crate::config::{Config, Home};
use crate::tools::Places;
use crate::types::Level;
use std::fmt;
use std::path::PathBuf;

/// Concurrent calls, including prepared ones; one more is refused.
pub(crate) const CALLS_MAX: usize = 64;

/// What a launcher needs to load and open the tools by itself.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The folder of the manifests.
    pub tools_dir: PathBuf,
    /// What the placeholders in manifests are resolved against.
    pub places: Places,
    /// Uid and gid of tools if the launcher is root; `None` is the user `par-tool`, else 65534.
    pub user: Option<(u32, u32)>,
    /// First and last of the uids for calls that write nothing, if the launcher is root; `None`
    /// uses [`Self::user`].
    pub slot_uids: Option<(u32, u32)>,
    /// The level that the machine must reach; a start below it is refused.
    pub minimum: Option<Level>,
    /// The highest Landlock ABI version whose rights are used: shows what an older kernel would
    /// provide.
    pub landlock_abi_max: Option<u32>,
    /// A file of certificates (PEM) that connections of builtins trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The home whose named secrets the launcher reads itself and gives to programs; `None` gives
    /// none.
    pub secrets: Option<Home>,
    /// Environment variables that hold keys of models, which only the front reads.
    pub key_variables: Vec<String>,
    /// The folder of the launcher's journal; `None` keeps no journal.
    pub journal: Option<PathBuf>,
}

impl Spec {
    /// The specification of a launcher for the home of `config`; the launcher reads the manifests
    /// itself.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        Self {
            tools_dir: config.home.etc.join("tools.d"),
            places: Places::from_config(config),
            user: None,
            slot_uids: config.slot_uids,
            minimum: config.sandbox_minimum,
            landlock_abi_max: config.landlock_abi_max,
            ca_file: config.sandbox_ca_file.clone(),
            secrets: Some(config.home.clone()),
            key_variables: config.key_variables(),
            journal: None,
        }
    }
}

/// Why a launcher did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the launcher did not start: {0}")]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(step: &str, cause: impl fmt::Display) -> Self {
        Self(format!("{step}: {cause}"))
    }

    /// The reason that the launcher itself gave.
    pub(crate) fn from_reason(reason: String) -> Self {
        Self(reason)
    }
}
