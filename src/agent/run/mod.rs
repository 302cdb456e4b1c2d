//! One run, from its request to its reply.
//!
//! ```text
//! run.request → model → group of calls → model → … → run.reply
//! group of calls: validate, prepare, decide, commit, run, settle
//! ```
//!
//! The model is asked here, and its calls pass the gate and the sandbox. The model reads the
//! outcome of a call only as the gate returns it.
//!
//! # Layout
//!
//! * `prompt`: the system prompt
//! * `turn`: a run so far, and a reply whose calls are open
//! * `state`: the state of one walk
//! * `entries`: its entries
//! * `connect`: a call with its connections
//! * `calls`: the calls of a reply
//! * `ending`: the end and the reply
//! * `held`: the answer, held to the schema of the request
//! * `window`: what is left out so that a request fits
//! * `asking`: requests to the model
//! * `walk`: the loop

mod prompt;
mod turn;
mod state;
mod entries;
mod connect;
mod calls;
mod ending;
mod held;
mod window;
mod asking;
mod fallback;
mod walk;

pub(super) use calls::{put_message, take_in};
pub(super) use entries::{recalled_parts, recalled_runbook};
pub(super) use held::with_schema;
pub use prompt::SYSTEM;
#[cfg(test)]
pub(super) use state::length;
pub(super) use state::offer;
pub(super) use turn::{Begun, Measured, OpenTurn, Part, PartState, RecalledRun, SessionHistory};
pub(super) use walk::{resume, walk};
