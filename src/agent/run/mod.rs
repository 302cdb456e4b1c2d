//! One run, from its request to its reply.
//!
//! ```text
//! run.request → model → group of calls: validate, prepare, decide, commit, run, settle → model → … → run.reply
//! ```
//!
//! Here the model is asked and its calls pass the gate and the sandbox. What it is told of a call comes out
//! of the gate.
//!
//! # Layout
//!
//! `prompt`: what the model is told first · `turn`: a run as far as it has come · `state`: what one walk
//! holds · `entries`: what it writes · `connect`: a call with its connections · `calls`: the calls of a reply
//! · `ending`: how it ends · `walk`: the loop.

mod prompt;
mod turn;
mod state;
mod entries;
mod connect;
mod calls;
mod ending;
mod walk;

pub(super) use calls::taint;
pub(super) use entries::add;
pub(super) use prompt::SYSTEM;
pub(super) use turn::{Begun, OpenTurn, Part, PartState, RecalledRun};
pub(super) use walk::{go_on, walk};
