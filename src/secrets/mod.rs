//! Named secrets: what is replaced before anything else sees it.
//!
//! What comes from outside (a message, a model's answer, a tool's output, a log line) passes
//! [`Secrets::clean`] once, at the door that it comes in by. Model, caller, page and ledger get the same
//! replaced bytes, in which `[secret:NAME:9f3c2a1b]` stands for the value: its name, and four bytes of an
//! HMAC under a key of the home.
//!
//! Architecture invariant: a [`Clean`] value is made here and nowhere else, so that what demands one cannot
//! be given what was not looked through:
//! ```compile_fail,E0451
//! fn forge(clean: par::secrets::Clean<String>) -> par::secrets::Clean<String> {
//!     par::secrets::Clean { ..clean }
//! }
//! ```
//! nor can a type be said to be looked through that is not, here or in another crate: [`Hold`] is sealed, and [`Parted`]
//! takes a value apart into what holds.
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
//! `found`: what was replaced · `forms`, `known`, `finder`: what is looked for, and finding it · `hold`: how a value is
//! looked through · `clean`: values without secrets.

mod found;
mod forms;
mod known;
mod finder;
mod hold;
mod clean;
#[cfg(test)]
mod tests;

pub use clean::{Clean, Parted, Secrets};
pub use finder::Finder;
pub use found::SecretCounts;
pub use hold::Hold;
pub use known::{Named, Pattern, SecretFault, SecretRefused};
