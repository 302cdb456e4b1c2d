//! Where the value of an argument was found.

use super::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where the value of an argument was found among what a run was given, as policies and the ledger
/// name it. The set is closed. The order is from the safest to the least safe: what is true of
/// several values together is the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundIn {
    /// In the message, as a person typed it, and in no untrusted text.
    Message,
    /// In a trusted text, and neither in the message nor in an untrusted text.
    Trusted,
    /// In the message or a trusted text, and in an untrusted text.
    Both,
    /// In none of them: the model made it up, or put it together.
    Nowhere,
    /// In an untrusted text alone. Also what cannot be known.
    Untrusted,
}

impl FoundIn {
    /// Every value, the safest first.
    pub const ALL: [Self; 5] = [Self::Message, Self::Trusted, Self::Both, Self::Nowhere, Self::Untrusted];

    /// The word in policies and on the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Trusted => "trusted",
            Self::Both => "both",
            Self::Nowhere => "nowhere",
            Self::Untrusted => "untrusted",
        }
    }

    /// The value of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// For a person, after the name of an argument.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Self::Message => "from the message",
            Self::Trusted => "from a trusted result",
            Self::Both => "from the message or a trusted result, and in an untrusted one",
            Self::Nowhere => "in nothing that the run was given",
            Self::Untrusted => "from an untrusted result",
        }
    }
}

/// Where each argument of a call was found, on one line for a person: `members` is the recorded
/// object of names and words. `None` if it has none.
#[must_use]
pub fn told_origins(members: &Value) -> Option<String> {
    let one = |(name, word): (&String, &Value)| {
        let word = word.as_str().unwrap_or_default();
        let told =
            FoundIn::parse(word).map_or_else(|| text::visible_line(word), |found| found.told().to_owned());
        format!("`{}`: {told}", text::visible_line(name))
    };
    let all: Vec<String> = members.as_object()?.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::{FoundIn, told_origins};
    use serde_json::json;

    #[test]
    fn the_origins_of_a_call_are_one_line() {
        let members = json!({ "path": "message", "pattern": "untrusted", "later": "new\n" });
        assert_eq!(
            told_origins(&members).as_deref(),
            Some("`path`: from the message; `pattern`: from an untrusted result; `later`: new\\n")
        );
        assert_eq!(told_origins(&json!({})), None);
        assert_eq!(told_origins(&json!(null)), None);
    }

    #[test]
    fn every_word_is_read_back_and_the_order_is_the_one_in_the_list() {
        for one in FoundIn::ALL {
            assert_eq!(FoundIn::parse(one.as_str()), Some(one));
            assert_eq!(serde_json::to_value(one).expect("JSON"), one.as_str());
        }
        assert!(FoundIn::ALL.is_sorted());
        assert_eq!(FoundIn::parse("Message"), None);
    }
}
