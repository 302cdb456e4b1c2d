//! Language models, behind one trait.
//!
//! A provider turns a conversation into a reply: a text, and calls that it proposes. Both are hostile
//! input. Nothing here reads the arguments, runs a call, or knows which tools exist.
//!
//! Architecture invariant: what a model says leaves this room as text and `ProposedCall`, never as
//! anything that another room takes for checked.
//!
//! # Layout
//!
//! `error`, `reply`: why there is no reply, and what one is · `proposer`: who proposes calls ·
//! `conversation`, `provider`: what is asked, and by which trait · `settings`: the configuration · `remote/`:
//! all that no protocol changes · `openai`, `anthropic`: protocols · `offline/`, `direct`: without a model ·
//! `choose`: from configuration to a provider.

mod error;
mod reply;
mod conversation;
mod proposer;
mod provider;
mod settings;
mod remote;
mod openai;
mod anthropic;
mod offline;
mod direct;
mod choose;
#[cfg(any(test, fuzzing))]
pub(crate) mod borders;
#[cfg(test)]
mod tests;

pub use choose::build;
pub use conversation::{Conversation, Message};
pub use direct::Direct;
pub use error::{ModelError, ModelErrorKind};
pub use proposer::{Proposer, ProviderKind};
pub use provider::{BoxFuture, ModelRequest, Provider, ToolOffer};
pub use reply::{ModelReply, Stop, TokenUsage};
pub use settings::Settings;
