//! Every decision of a ledger made again from its own record.
//!
//! Under the bundle that its header names it must come out as it is recorded; under another bundle it may
//! not, and those that do not are the flips. Nothing is written, and nothing but the ledger and the kept
//! bundles is read. The chain is not verified here: that is `ledger::audit`.
//!
//! # Layout
//!
//! `told`: what is found · `share`: what one thread finds, and how shares add up · `kept`: bundles, each made
//! again once · `beneath`: what a call leaves out below its object · `decision`, `power`: one decision, one
//! use of a power · `walk`: all of them.

mod told;
mod share;
mod kept;
mod beneath;
mod decision;
mod power;
mod walk;

pub use told::{Difference, Example, Flips, Replayed};
pub use walk::Replay;
