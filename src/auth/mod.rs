//! Who asks: an API key or an operating-system user becomes a [`Principal`].
//!
//! # Layout
//!
//! Lowest first: `subject` is a principal in words, which proves nothing; `key` the text of a key; `verifier` what is kept to
//! know it again; `refused` why a credential is not taken, and the count; `record` a key's row in state.db; `revoked` what the
//! ledger has revoked; `principal` the mint of principals; `remembered` the keys verified by this process; `authority` the
//! check; `keys` making, listing and revoking; `standing` whether a key that was shown earlier still holds; `os` users of this
//! host.
//!
//! Architecture invariants: only `principal` makes a [`Principal`]; a secret is never on the ledger, in
//! state.db or in a log line.
//!
//! Words are no principal:
//! ```compile_fail,E0451
//! fn forge(subject: par::auth::Subject, other: par::auth::Principal) -> par::auth::Principal {
//!     par::auth::Principal { subject, ..other }
//! }
//! ```

mod subject;
mod key;
mod verifier;
mod refused;
mod record;
mod revoked;
mod principal;
mod remembered;
mod authority;
mod keys;
mod standing;
mod os;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use authority::{Authority, AuthorityError};
pub use key::{MintedKey, key_pattern};
pub use keys::{KeyError, KeyState, KeyView, NewKey};
pub use os::{AdminDoor, NotOwner, local};
pub use principal::Principal;
pub use record::PROJECTION;
pub use refused::{Refusal, network};
pub use subject::{Role, Source, Subject};
pub use verifier::{make_pepper, secret_digest_key};
