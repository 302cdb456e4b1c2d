//! The source of the calls in a run.

/// The providers that this version supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProviderKind {
    /// No model and no network.
    #[default]
    Offline,
    /// The chat completions protocol of OpenAI and compatible servers.
    OpenAi,
    /// OpenAI's Responses protocol.
    OpenAiResponses,
    /// Anthropic's Messages protocol.
    Anthropic,
    /// The generateContent protocol of Google's Gemini API.
    Gemini,
    /// Ollama's own chat protocol.
    Ollama,
}

impl ProviderKind {
    /// Every provider.
    pub const ALL: [Self; 6] =
        [Self::Offline, Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// The name in the configuration and on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The names of all, as an error lists them.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Parses the name of a provider in the configuration.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The source of the calls in a run; the member `provider` of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposer {
    /// A model, or a substitute for one.
    Model(ProviderKind),
    /// The person who made the request: one call.
    Person,
}

impl Proposer {
    /// The name on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model(kind) => kind.as_str(),
            Self::Person => "direct",
        }
    }

    /// Parses the name of a proposer.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match ProviderKind::parse(word) {
            Some(kind) => Some(Self::Model(kind)),
            None => Some(Self::Person).filter(|person| person.as_str() == word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Proposer, ProviderKind};

    #[test]
    fn names_parse_back_and_no_configuration_names_a_person() {
        let models = ProviderKind::ALL.map(Proposer::Model);
        for proposer in models.into_iter().chain([Proposer::Person]) {
            assert_eq!(Proposer::parse(proposer.as_str()), Some(proposer));
        }
        assert_eq!(Proposer::parse("Offline"), None);
        assert_eq!(ProviderKind::parse(Proposer::Person.as_str()), None);
    }
}
