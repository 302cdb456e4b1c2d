//! Repeats every decision of a ledger from its own record.
//!
//! Under the bundle that its header names, a decision must come out as recorded; under another
//! bundle it may not, and those that do not are the flips. Nothing is written, and only the ledger
//! and the stored bundles are read. The chain is not verified here: `ledger::audit` does that.
//!
//! What is compared: decisions, ids of the determining policies, exclusions, and whether there were
//! errors. Reasons and error texts are not compared, so their wording may change between versions.
//!
//! # Layout
//!
//! * `told`: the report.
//! * `share`: what one thread finds, and how shares add up.
//! * `kept`: stored bundles, each rebuilt once.
//! * `beneath`: the exclusions of a call.
//! * `decision`, `ask`, `power`: one decision, one request to a model, one use of a power.
//! * `walk`: the whole ledger.

mod told;
mod share;
mod kept;
mod beneath;
mod decision;
mod ask;
mod power;
mod walk;

pub use told::{Difference, Example, Flips, Replayed};
pub use walk::Replay;
