//! Authentication: turns an API key or an operating-system user into a [`Principal`].
//!
//! Invariants: only `principal` makes a [`Principal`]; a secret is never on the ledger, in state.db
//! or in a log line.
//!
//! # Layout
//!
//! From the bottom up:
//!
//! * `subject`: a principal as data, which proves nothing.
//! * `key`: the text of a key. `verifier`: what is stored to verify it.
//! * `refused`: why a credential is refused, and the counts.
//! * `record`: a key's row in state.db. `revoked`: the keys that the ledger has revoked.
//! * `os_users`: the users of this host who may use PAR without a key.
//! * `principal`: the only constructor of principals.
//! * `remembered`: keys that this process has verified.
//! * `authority`: verifies a presented key. `standing`: whether a key verified earlier is still
//!   valid.
//! * `keys`: creates, lists and revokes keys.
//! * `names`: keys by their names, for people.
//! * `links`: codes that open a login once.
//! * `os`: the doors for users of this host.
//!
//! A subject is not a principal:
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
mod os_users;
mod principal;
mod remembered;
mod authority;
mod keys;
mod names;
mod standing;
mod links;
mod os;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use authority::{Authority, AuthorityError};
pub use key::{MintedKey, key_pattern};
pub use keys::{KeyError, KeyState, KeyView, NewKey};
pub use links::LoginLinks;
pub use names::{key_names_of, known_keys};
pub use os::{AdminDoor, Admitted, AskDoor, NotOwner, local, local_user};
pub use os_users::{OsUsers, UnknownRole};
pub use principal::Principal;
pub use record::{PROJECTION, key_names};
pub use refused::{Refusal, network};
pub use subject::{Role, Source, Subject};
pub use verifier::{make_pepper, secret_digest_key};
