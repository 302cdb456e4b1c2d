//! Why a query cannot be read.

use crate::types::{limits, text};
use std::borrow::Cow;

/// Why a query cannot be read, with the word of it that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query as a whole.
    #[error("the query has {count} {unit}, more than {max}")]
    TooLong {
        /// How many it has.
        count: usize,
        /// Of what.
        unit: &'static str,
        /// How many it may have.
        max: usize,
    },
    /// One word of it.
    #[error("`{word}`: {why}")]
    Word {
        /// The word, visible and cut.
        word: String,
        /// What is wrong with it, or would be right.
        #[source]
        why: WordError,
    },
}

/// What is wrong with a word of a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WordError(pub(super) Cow<'static, str>);

impl WordError {
    /// The error of a query that has this word.
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
