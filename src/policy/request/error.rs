//! Why a request cannot be evaluated.

use crate::types::json::JsonError;
use std::error::Error;

/// Why a tool's schema has no Cedar type. Each error names the argument at fault; an empty name
/// stands for the schema itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::policy) enum InputSchemaError {
    #[error("`{0}`: names that start with `__` are PAR's own")]
    Reserved(String),
    /// The name under which policies see the length of another argument.
    #[error("`{0}` is reserved for the length of another argument")]
    LengthName(String),
    #[error("`{0}`: `opaque` must be `true` or absent")]
    OpaqueWord(String),
    #[error("`{0}`: an array needs `items`")]
    NoItems(String),
    #[error(
        "`{argument}`: policies have no type for {what}; with `opaque = true` they see its length and digest"
    )]
    OnlyOpaque { argument: String, what: String },
    #[error("`{0}` is not a schema")]
    NoSchema(String),
    #[error("`{argument}`: the schema keyword `{word}` is not supported")]
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
    #[error("the arguments are not an object")]
    NoObject,
    #[error("`{0}` is not declared")]
    Undeclared(String),
    #[error("`{0}` is not an array")]
    NoArray(String),
    #[error("`{0}` does not have the declared type")]
    OtherType(String),
    #[error("`{0}` is too long")]
    TooLong(String),
    #[error("`{argument}`: {source}")]
    NotCanonical { argument: String, source: JsonError },
    #[error(transparent)]
    Schema(#[from] InputSchemaError),
}

/// A fault in a request, or in the schema that it is built for. Either way the call is denied.
#[derive(Debug, thiserror::Error)]
pub(in crate::policy) enum RequestError {
    #[error("unknown entity type `{0}`")]
    UnknownType(String),
    #[error("unknown action `{0}`")]
    UnknownAction(String),
    #[error("`{0}` is its own ancestor")]
    InItself(String),
    #[error("an entity has an attribute that its type does not allow")]
    Attribute,
    #[error("an action is missing one of its groups")]
    ActionGroupMissing,
    /// A missing entity: type and id.
    #[error("the request is missing {0} `{1}`")]
    Missing(&'static str, String),
    #[error("nothing in the request is in {0} `{1}`")]
    Unreached(&'static str, String),
    #[error("the request is missing the membership of `{user}` in the group `{group}`")]
    MissingGroup { user: String, group: String },
    #[error("the request is missing the label `{0}`")]
    MissingLabel(String),
    #[error("the request is missing the label `{label}` of `{of}`")]
    MissingLabelOf { label: String, of: String },
    #[error("a policy is missing from its slice")]
    LostPolicy,
    #[error("entities: {0}")]
    Entities(#[source] Box<dyn Error + Send + Sync>),
    #[error("request: {0}")]
    Request(#[source] Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Cedar(Box<dyn Error + Send + Sync>),
}

impl RequestError {
    /// An error from Cedar.
    pub(in crate::policy) fn cedar(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Cedar(error.into())
    }

    /// An error from Cedar about entities.
    pub(in crate::policy) fn entities(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Entities(error.into())
    }
}
