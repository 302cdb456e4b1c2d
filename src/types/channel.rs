//! Where a run came in.

use serde::{Deserialize, Serialize};

/// Where a run came in, as policies and the ledger name it. The set is closed: a rule that names
/// another channel is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// The API, with a key.
    Http,
    /// The dashboard.
    Page,
    /// A command on this host.
    Cli,
    /// A client of the Model Context Protocol.
    Mcp,
    /// A chat.
    Telegram,
    /// A webhook.
    Hook,
    /// A task that runs by itself.
    Task,
    /// Another run.
    Delegate,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Self; 8] = [
        Self::Http,
        Self::Page,
        Self::Cli,
        Self::Mcp,
        Self::Telegram,
        Self::Hook,
        Self::Task,
        Self::Delegate,
    ];

    /// Whether a person types the message of a run that comes in here. Elsewhere another program,
    /// another run or a stored text may have written it.
    #[must_use]
    pub fn is_typed(self) -> bool {
        match self {
            Self::Http | Self::Page | Self::Cli => true,
            Self::Mcp | Self::Telegram | Self::Hook | Self::Task | Self::Delegate => false,
        }
    }

    /// The word in policies and on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Page => "page",
            Self::Cli => "cli",
            Self::Mcp => "mcp",
            Self::Telegram => "telegram",
            Self::Hook => "hook",
            Self::Task => "task",
            Self::Delegate => "delegate",
        }
    }

    /// The channel of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.as_str() == word)
    }

    /// The channel of a run whose record does not name one: until the ledger named it, a run came
    /// in over the network, and then had a source address, or by a command.
    #[must_use]
    pub fn unrecorded(has_source_ip: bool) -> Self {
        if has_source_ip { Self::Http } else { Self::Cli }
    }
}
