//! Where the arguments of a call came from: each sensitive value is looked for in what the run was
//! given, which is the message, trusted texts and untrusted texts.
//!
//! The two directions use two forms of text, so that an error of either is on the safe side. That
//! a *person* wrote a value is claimed only of the exact words (`exact`). That an *untrusted* text
//! holds a value is claimed generously (`loose`).
//!
//! A lookup does not prove intent: it finds words, not what they were meant for. Text that a model
//! decodes, joins or translates is found nowhere.
//!
//! Architecture invariant: this room is pure, without clock, disk or network.
//!
//! # Layout
//!
//! * `number`: numbers by their value.
//! * `exact`, `loose`: the two forms of text.
//! * `texts`: what a run was given, bounded.
//! * `origins`: what was found of the arguments of one call.

mod number;
mod exact;
mod loose;
mod texts;
mod origins;

pub use origins::ArgumentOrigins;
pub use texts::SourceTexts;

#[cfg(test)]
mod tests;
