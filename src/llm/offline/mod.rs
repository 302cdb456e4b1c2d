//! The default provider: built in, without a model and without a network.
//!
//! It proposes a message that is written as calls as those calls, follows the steps of a runbook,
//! has fixed steps or an answer for some seventy sentences of an operator's day, and answers from
//! the results. To any other message it replies with what it understands.
//!
//! # Layout
//!
//! * `form`, `meaning`, `table`, `host_table`, `sentences`: the sentences, and what they mean
//! * `absent`: what is there in place of a file that is not
//! * `report`, `tell`: answers from results
//! * `provider`: the provider

mod form;
mod meaning;
mod table;
mod host_table;
pub(super) mod sentences;
mod absent;
mod report;
mod tell;
pub(super) mod provider;
