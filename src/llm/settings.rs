//! The configuration of a provider.

use super::proposer::ProviderKind;
use crate::secrets::Secrets;
use crate::types::Secret;
use std::path::PathBuf;

/// The `[llm]` part of the configuration, resolved.
#[derive(Debug, Default)]
pub struct Settings {
    /// The wire.
    pub provider: ProviderKind,
    /// Address of the server, without `/chat/completions` or `/messages`; empty is the provider's own.
    pub base_url: String,
    /// The model to ask for; needed by every provider but `offline`.
    pub model: String,
    /// Its key; a server of one's own may need none.
    pub api_key: Option<Secret>,
    /// Certificates (PEM) to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Most tokens of one reply; left to the wire where absent.
    pub reply_tokens_max: Option<u32>,
    /// What is replaced in answers before they are read.
    pub secrets: Secrets,
    /// The folder of the host's logs, which `offline` lists.
    pub logs: PathBuf,
}
