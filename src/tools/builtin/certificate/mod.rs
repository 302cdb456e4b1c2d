//! What a chain of certificates says, and what is wrong with it. All of it comes from a stranger.
//!
//! * `parsed`: one certificate
//! * `chain`: the whole chain, as a client that trusts this host's certificates would judge it

mod parsed;
mod chain;
#[cfg(test)]
mod tests;

pub use chain::{ChainQuestion, DAYS_LEFT_FEW, days_left, judge};
