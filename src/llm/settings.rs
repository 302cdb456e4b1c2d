//! The configuration of a provider.

use super::proposer::ProviderKind;
use crate::config::ModelKeys;
use crate::egress::Way;
use crate::secrets::Secrets;
use std::path::PathBuf;

/// A model of the configuration, resolved.
#[derive(Debug, Default)]
pub struct Settings {
    /// Its name in the configuration.
    pub name: String,
    /// The table that describes it, for messages.
    pub table: String,
    /// The protocol.
    pub provider: ProviderKind,
    /// Base URL of the server, without `/chat/completions` or `/messages`; empty is the provider's
    /// own.
    pub base_url: String,
    /// The model to ask for; needed by every provider but `offline`.
    pub model: String,
    /// The keys of all models, by their names; a server on this host may need none.
    pub keys: ModelKeys,
    /// How the server is reached.
    pub way: Way,
    /// Maximum number of tokens in one reply; `None` leaves it to the protocol.
    pub reply_tokens_max: Option<u32>,
    /// The size of the context, for a server that sets it by request; `None` is
    /// [`CONTEXT_TOKENS`](crate::types::limits::CONTEXT_TOKENS).
    pub context_tokens: Option<u32>,
    /// The secrets that are replaced in answers before they are parsed.
    pub secrets: Secrets,
    /// The folder of the host's logs, which sentences to `offline` may mean.
    pub logs: PathBuf,
    /// The folder in which tools may work, which they may mean too.
    pub workspace: PathBuf,
}
