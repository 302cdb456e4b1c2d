//! Named secrets: what is replaced before anything else sees it.
//!
//! What comes from outside (a message, a model's answer, a tool's output, a log line) passes [`Secrets::clean`] once,
//! at the door that it comes in by. Model, caller, page and ledger get the same replaced bytes, in which
//! `[secret:NAME:9f3c2a1b]` stands for the value: its name, and four bytes of an HMAC under a key of the home.
//!
//! Architecture invariant: a [`Clean`] value is made here and nowhere else, so that what demands one cannot be
//! given what was not looked through:
//! ```compile_fail,E0451
//! fn forge(clean: par::secrets::Clean<String>) -> par::secrets::Clean<String> {
//!     par::secrets::Clean { ..clean }
//! }
//! ```
//! nor can another crate say of a type of its own how it is looked through:
//! ```compile_fail,E0277
//! struct Mine(String);
//! impl par::secrets::Hold for Mine {
//!     fn passed(self, _: &mut par::secrets::Pass<'_>) -> Self {
//!         self
//!     }
//! }
//! ```
//!
//! # Layout
//!
//! `sealed`: who may say how a value is looked through · `found`: what was replaced · `forms`, `known`, `finder`: what is
//! looked for, and finding it · `clean`: values without secrets · `execution`: what a call wrote.

pub(crate) mod sealed;
mod found;
mod forms;
mod known;
mod finder;
mod clean;
mod execution;
#[cfg(test)]
mod tests;

pub use clean::{Clean, Hold, Pass, Secrets};
pub use finder::Finder;
pub use found::SecretCounts;
pub use known::{Named, Pattern, SecretRefused};
