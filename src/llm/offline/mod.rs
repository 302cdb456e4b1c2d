//! The default provider: built in, without a model and without a network.
//!
//! It proposes a message that is written as calls as those calls, follows the steps of a runbook,
//! has fixed steps or an answer for some seventy-five sentences of an operator's day, and answers
//! from the results. To any other message it replies with what it understands.
//!
//! # Layout
//!
//! * `form`, `meaning`, `table`, `host_table`, `sentences`: the sentences, and what they mean
//! * `shape`: parts that answers are made of
//! * `absent`: what is there in place of a file or a journal that is not
//! * `full_disk`: which full file system was not looked into
//! * `report`, `units`, `probed`, `reads`, `tell`: answers from results
//! * `provider`: the provider

mod form;
mod meaning;
mod table;
mod host_table;
pub(super) mod sentences;
mod shape;
mod absent;
mod full_disk;
mod report;
mod units;
mod probed;
mod reads;
mod tell;
pub(super) mod provider;
