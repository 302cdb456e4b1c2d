//! Identifiers: a prefix and a ULID (`run_01JD…`), which sort by creation time.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// A new identifier.
            #[must_use]
            pub fn generate() -> Self {
                Self(format!(concat!($prefix, "_{}"), ulid::Ulid::generate()))
            }

            /// Parses `text`; `None` unless it has the form of this identifier.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let rest = text.strip_prefix(concat!($prefix, "_"))?;
                let fits = rest.len() == 26 && rest.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
                fits.then(|| Self(text.to_owned()))
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// One request to the agent, from its message to its answer.
    RunId = "run";
    /// A conversation; the Cedar principal of every call in it.
    SessionId = "ses";
    /// One proposed tool call.
    CallId = "call";
    /// One request for a person's approval of one exact call.
    ApprovalId = "apr";
    /// One HTTP request.
    RequestId = "req";
}

/// The public part of an API key: eight base-62 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(String);

impl KeyId {
    /// Length of the identifier, in characters.
    pub const CHARS: usize = 8;

    /// Parses `text`; `None` unless it is eight ASCII letters or digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == Self::CHARS && text.bytes().all(|b| b.is_ascii_alphanumeric());
        fits.then(|| Self(text.to_owned()))
    }

    /// The identifier as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyId, RunId};

    #[test]
    fn parse_takes_what_generate_makes_and_little_else() {
        let run = RunId::generate();
        assert_eq!(RunId::parse(run.as_str()), Some(run));
        for bad in [
            "run_",
            "ses_01JD0000000000000000000000",
            "run_01jd0000000000000000000000",
            "run_../../../../etc/passwd__",
        ] {
            assert_eq!(RunId::parse(bad), None, "{bad}");
        }
        assert!(KeyId::parse("Ab3dEf9h").is_some());
        assert!(KeyId::parse("Ab3dEf9").is_none());
        assert!(KeyId::parse("Ab3dEf9-").is_none());
    }
}
