//! The default provider: built in, without a model and without a network.
//!
//! It proposes a message that is written as calls as those calls, has fixed steps for a few plain
//! requests, and answers from the results. To any other message it replies with what it
//! understands.

mod calls;
mod tell;
pub(super) mod provider;
