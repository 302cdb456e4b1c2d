//! The front's side of the processes: the supervisor, the front's own lock, and its way to a launcher.
//!
//! ```text
//! supervisor ─┬─ front      asks by `Launcher`, cannot start anything
//!             └─ launcher   `crate::launcher`
//! ```
//!
//! Under a service manager there is no supervisor: the front connects to a socket, and each connection
//! is a launcher that the manager starts, as a user of its own ([`dial`], [`crate::launcher::attend`]).
//!
//! Architecture invariants: this room and `launcher` alone start processes; what has `unsafe` blocks is `launcher::sys`; nothing
//! here knows a policy.
//!
//! # Layout
//!
//! `filter` and `lock` (what the front gives up), `source` (where launchers come from), `link` (one
//! launcher's socket), `client` (calls over it), `supervisor` (who forks both). What both sides
//! say to each other is `launcher::protocol`.

pub(crate) mod filter;
mod lock;
mod source;
mod link;
mod client;
mod supervisor;
#[cfg(test)]
mod tests;

pub use client::{Launcher, LinkSeed, PrepareError, Renewal};
pub use filter::Dials;
pub use lock::{lock_front, narrow_front};
pub use supervisor::{dial, serve, start};
