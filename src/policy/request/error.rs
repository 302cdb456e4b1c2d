//! Why a request cannot be put to Cedar.

use crate::types::json::JsonError;
use std::error::Error;

/// Why a tool's schema has no Cedar type. Each names the argument that it is about; the schema itself has no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::policy) enum InputSchemaError {
    #[error("`{0}`: names that start with `__` are PAR's own")]
    Reserved(String),
    /// What policies see as the length of another argument.
    #[error("`{0}` is the name of a length")]
    LengthName(String),
    #[error("`{0}`: `opaque` is `true` or is not there")]
    OpaqueWord(String),
    #[error("`{0}`: an array needs `items`")]
    NoItems(String),
    #[error(
        "`{argument}`: policies have no type for {what}; with `opaque = true` they see its length and digest"
    )]
    OnlyOpaque { argument: String, what: String },
    #[error("`{0}` is no schema")]
    NoSchema(String),
    #[error("`{argument}`: the schema word `{word}` is not supported")]
    UnknownWord { argument: String, word: String },
}

impl InputSchemaError {
    pub(in crate::policy) fn unknown(argument: &str, word: &str) -> Self {
        Self::UnknownWord { argument: argument.to_owned(), word: word.to_owned() }
    }
}

/// Why the arguments of a call have no Cedar value. The call is denied.
#[derive(Debug, thiserror::Error)]
pub(in crate::policy) enum LowerError {
    #[error("the arguments are no object")]
    NoObject,
    #[error("`{0}` is not declared")]
    Undeclared(String),
    #[error("`{0}` is no array")]
    NoArray(String),
    #[error("`{0}` has not the declared type")]
    OtherType(String),
    #[error("`{0}` is too long")]
    TooLong(String),
    #[error("`{argument}`: {source}")]
    NotCanonical { argument: String, source: JsonError },
    #[error(transparent)]
    Schema(#[from] InputSchemaError),
}

/// What is wrong with a request, or with the schema that it is built for. Whichever it is, the call is denied.
#[derive(Debug, thiserror::Error)]
pub(in crate::policy) enum RequestError {
    #[error("`{0}` is no entity type")]
    UnknownType(String),
    #[error("`{0}` is no action")]
    UnknownAction(String),
    #[error("`{0}` is in itself")]
    InItself(String),
    #[error("an entity has an attribute that it cannot have")]
    Attribute,
    #[error("an action lacks what it is in")]
    ActionLacks,
    /// It lacks an entity: type and id.
    #[error("the request lacks {0} `{1}`")]
    Lacks(&'static str, String),
    #[error("in the request nothing is in {0} `{1}`")]
    Unreached(&'static str, String),
    #[error("the request lacks that `{user}` is in the group `{group}`")]
    LacksGroup { user: String, group: String },
    #[error("the request lacks the label `{0}`")]
    LacksLabel(String),
    #[error("the request lacks the label `{label}` of `{of}`")]
    LacksLabelOf { label: String, of: String },
    #[error("a policy was lost from its slice")]
    LostPolicy,
    #[error("entities: {0}")]
    Entities(#[source] Box<dyn Error + Send + Sync>),
    #[error("request: {0}")]
    Request(#[source] Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Cedar(Box<dyn Error + Send + Sync>),
}

impl RequestError {
    /// What Cedar says.
    pub(in crate::policy) fn cedar(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Cedar(error.into())
    }

    /// What Cedar says of entities.
    pub(in crate::policy) fn entities(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Entities(error.into())
    }
}
