//! Who asks: an API key or an operating-system user becomes a [`Principal`].
//!
//! # Layout
//!
//! `key` is the text of a key; `verifier` what is kept to know it again; `record` its row in state.db;
//! `authority` the check; `keys` making, listing and revoking; `refused` the count of refusals;
//! `remembered` and `revoked` what is held in memory;
//! `standing` whether a key that was shown earlier still holds; `os` users of this host.
//!
//! Architecture invariants: only this room makes a [`Principal`]; a secret is never on the ledger, in
//! state.db or in a log line.
//!
//! Words are no principal:
//! ```compile_fail,E0423
//! fn forge(subject: par::auth::Subject) -> par::auth::Principal {
//!     par::auth::Principal(subject)
//! }
//! ```

mod authority;
#[cfg(test)]
pub(crate) mod fixture;
mod key;
mod keys;
mod os;
mod principal;
mod record;
mod refused;
mod remembered;
mod revoked;
mod standing;
#[cfg(test)]
mod tests;
mod verifier;

pub use authority::{Authority, OpenError};
pub use key::{MintedKey, key_pattern};
pub use keys::{KeyError, KeyState, KeyView, NewKey};
pub use os::{AdminDoor, NotOwner, local};
pub use principal::{Principal, Role, Source, Subject};
pub use record::PROJECTION;
pub use refused::{Refusal, network};
pub use verifier::{make_pepper, secret_digest_key};
