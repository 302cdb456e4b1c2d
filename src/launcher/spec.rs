//! What a launcher is started with, why one is not there, and how many calls it takes.

use crate::config::{Config, Home};
use crate::tools::Places;
use crate::types::Level;
use std::fmt;
use std::path::PathBuf;

/// Calls at once, prepared ones among them; one more is refused.
pub(crate) const CALLS_MAX: usize = 64;

/// What a launcher needs to load and open the tools by itself.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The folder of the manifests.
    pub tools_dir: PathBuf,
    /// What the manifests' words are resolved against.
    pub places: Places,
    /// Uid and gid of tools where the launcher is root; `None` is the user `par-tool`, else 65534.
    pub user: Option<(u32, u32)>,
    /// First and last of the uids of calls that write nothing, where the launcher is root; `None` is [`Self::user`].
    pub slot_uids: Option<(u32, u32)>,
    /// A machine that reaches less is refused.
    pub minimum: Option<Level>,
    /// No right of a later version of Landlock's is used: to see what an older kernel would give.
    pub landlock_abi_max: Option<u32>,
    /// A file of certificates (PEM) that connections of builtins are believed for too, beside the system's.
    pub ca_file: Option<PathBuf>,
    /// The home whose named secrets it reads by itself, and gives to programs; `None` where it gives none.
    pub secrets: Option<Home>,
    /// The folder of the launcher's journal; `None` where it keeps none.
    pub journal: Option<PathBuf>,
}

impl Spec {
    /// What a launcher of the home that `config` is for needs; it reads the manifests itself.
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
            journal: None,
        }
    }
}

/// Why no launcher is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the launcher did not start: {0}")]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(step: &str, cause: impl fmt::Display) -> Self {
        Self(format!("{step}: {cause}"))
    }

    /// The launcher's own word for it.
    pub(crate) fn from_reason(reason: String) -> Self {
        Self(reason)
    }
}
