//! Language models, as implementations of one trait.
//!
//! A provider turns a conversation into a reply: a text, and the calls that it proposes. Both are
//! hostile input. This room does not read the arguments, runs no call, and does not know which
//! tools exist.
//!
//! Invariant: a model's output leaves this room as text and `ProposedCall`, never as a type that
//! another room takes as checked.
//!
//! # Layout
//!
//! * `provider`: the trait, and the request. `conversation`: the messages. `reply`, `error`: the
//!   outcome. `proposer`: a run's source of calls.
//! * `form`, `request`: the bytes of a request.
//! * `probe`: a request outside any run.
//! * `settings`: the configuration of a provider. `choose`: builds a provider from it.
//! * `remote/`: everything that protocols share. `wires/`: the protocols.
//! * `offline/`, `direct`: providers without a model.
//! * `breaker`, `guarded`: a model that fails is left alone for a while.

mod form;
mod reply;
mod error;
mod conversation;
mod probe;
mod proposer;
mod provider;
mod settings;
mod remote;
mod wires;
mod request;
mod offline;
mod direct;
mod breaker;
mod guarded;
mod choose;
#[cfg(any(test, fuzzing))]
pub(crate) mod borders;
#[cfg(test)]
mod tests;

pub use choose::{build, build_all};
pub use conversation::{Conversation, Message, OldResult};
pub use direct::Direct;
pub use error::{ModelError, ModelErrorKind, SentRequest};
pub use form::{OpaqueOrigin, RequestForm};
pub use proposer::{Proposer, ProviderKind};
pub use provider::{BoxFuture, DeltaSink, ModelRequest, Provider, RetriedAsk, ToolOffer};
pub use reply::{ModelReply, OpaqueState, ReplyPart, Stop, StreamedBytes, TokenUsage};
pub use settings::Settings;
