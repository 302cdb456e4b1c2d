//! Why a request cannot be put to Cedar.

use std::error::Error;

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
