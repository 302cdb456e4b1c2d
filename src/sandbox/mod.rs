//! The front's side of the processes: the supervisor, the front's own lock, and its connection to a
//! launcher.
//!
//! ```text
//! supervisor ─┬─ front      asks through `Launcher`, cannot start a process
//!             └─ launcher   `crate::launcher`
//! ```
//!
//! A service manager takes the place of the supervisor: the front connects to a socket, and for
//! each connection the manager starts a launcher, as a different user ([`dial`],
//! [`crate::launcher::attend`]).
//!
//! Architecture invariants: only this room and `launcher` start processes; all `unsafe` blocks are
//! in `launcher::sys`; nothing here knows a policy.
//!
//! # Layout
//!
//! * `filter`, `lock`: what the front gives up.
//! * `source`: where launchers come from.
//! * `link`: the socket of one launcher.
//! * `client`: calls over that socket.
//! * `supervisor`: forks front and launcher.
//!
//! The messages between the two sides are in `launcher::protocol`.

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
