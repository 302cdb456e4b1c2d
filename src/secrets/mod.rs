//! Named secrets: replaced in everything that enters the process.
//!
//! Input from outside (a message, a model's answer, a tool's output, a log line) passes
//! [`Secrets::clean`] once, where it enters. Model, caller, page and ledger then get the same
//! bytes, in which `[secret:NAME:9f3c2a1b]` replaces the value: its name, and four bytes of an HMAC
//! under a key of the home.
//!
//! Invariant: only this room makes a [`Clean`] value, so code that requires one cannot be given a
//! value that was not searched:
//! ```compile_fail,E0451
//! fn forge(clean: par::secrets::Clean<String>) -> par::secrets::Clean<String> {
//!     par::secrets::Clean { ..clean }
//! }
//! ```
//! Nor can any crate declare a type to be searched that is not: [`Hold`] is sealed, and a
//! [`Parted`] value is taken apart into types that implement it.
//! ```compile_fail,E0277
//! struct Mine(String);
//! impl par::secrets::Parted for Mine {
//!     type Parts = Mine;
//!     fn apart(self) -> (Mine, fn(Mine) -> Mine) {
//!         (self, |mine| mine)
//!     }
//! }
//! ```
//!
//! # Layout
//!
//! * `known`: values and patterns. `forms`: the encodings of a value. `finder`: finds and replaces.
//! * `hold`: how values are searched. `passing`: text that is shown while it comes. `clean`: values
//!   without secrets.
//! * `found`: counts of replacements.

mod found;
mod forms;
mod known;
mod finder;
mod hold;
mod passing;
mod clean;
#[cfg(test)]
mod tests;

pub use clean::{Clean, CleanStream, Parted, Secrets};
pub use finder::Finder;
pub use found::SecretCounts;
pub use hold::{CutShort, Hold};
pub use known::{Named, Pattern, SecretError, SecretRefused};
