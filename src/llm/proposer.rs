//! Who proposes the calls of a run.

/// The wires that this version speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProviderKind {
    /// No model and no network.
    #[default]
    Offline,
    /// Chat completions, as OpenAI and every compatible server offer them.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl ProviderKind {
    /// Every wire.
    pub const ALL: [Self; 3] = [Self::Offline, Self::OpenAi, Self::Anthropic];

    /// The name in the configuration and on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// The provider that the configuration calls `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Who proposes the calls of a run; the member `provider` of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposer {
    /// A model, or what stands in for one.
    Model(ProviderKind),
    /// The person who asked: one call of their own.
    Person,
}

impl Proposer {
    /// The word on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model(kind) => kind.as_str(),
            Self::Person => "direct",
        }
    }

    /// The proposer of this word.
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
    fn a_word_is_the_same_both_ways_and_no_configuration_names_a_person() {
        let models = ProviderKind::ALL.map(Proposer::Model);
        for proposer in models.into_iter().chain([Proposer::Person]) {
            assert_eq!(Proposer::parse(proposer.as_str()), Some(proposer));
        }
        assert_eq!(Proposer::parse("Offline"), None);
        assert_eq!(ProviderKind::parse(Proposer::Person.as_str()), None);
    }
}
