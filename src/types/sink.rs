//! A sink: where what a run has read can leave this host.

/// A language model, as rules and the ledger name it. Each request to it is decided first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSink {
    /// Its name in the configuration; [`ModelSink::DEFAULT`] for the one of `[llm]`.
    pub name: String,
    /// The protocol, such as `openai`.
    pub provider: String,
    /// The model that its server is asked for.
    pub model: String,
    /// The server, as `name:port`: lower case, and an IPv6 address in brackets.
    pub host: String,
    /// Tokens that are reserved for one reply.
    pub reply_tokens_max: u32,
}

impl ModelSink {
    /// The name of the model of `[llm]`.
    pub const DEFAULT: &'static str = "default";
    /// What the names of such sinks begin with in policies.
    pub const PREFIX: &'static str = "model:";

    /// Its name in policies, such as `model:default`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}{}", Self::PREFIX, self.name)
    }
}
