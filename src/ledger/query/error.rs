//! Why a query cannot be parsed.

use crate::types::{limits, text};
use std::borrow::Cow;

/// Why a query cannot be parsed, with the part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is too long.
    #[error("the query has {count} {unit}, more than {max}")]
    TooLong {
        /// How many units it has.
        count: usize,
        /// The unit: words or bytes.
        unit: &'static str,
        /// The maximum.
        max: usize,
    },
    /// A part of the query is wrong.
    #[error("`{word}`: {why}")]
    Word {
        /// The part, with control characters visible, cut if it is long.
        word: String,
        /// What is wrong with it, or what is expected.
        #[source]
        why: WordError,
    },
}

/// What is wrong with a part of a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WordError(pub(super) Cow<'static, str>);

impl WordError {
    /// The error of a query that contains this part.
    pub(super) fn at(self, word: &str) -> QueryError {
        let word = text::visible_line(text::prefix(word, limits::SHOWN_BYTES_MAX));
        QueryError::Word { word, why: self }
    }
}

impl From<&'static str> for WordError {
    fn from(why: &'static str) -> Self {
        Self(Cow::Borrowed(why))
    }
}

impl From<String> for WordError {
    fn from(why: String) -> Self {
        Self(Cow::Owned(why))
    }
}
