//! `data/admin.sock`: users of this host create and revoke keys, read runs, answer approvals, erase
//! payloads and reload rules while the server runs. It cannot start runs.
//!
//! A connection carries one JSON object on one line in each direction. The kernel supplies the
//! peer's uid, and `data/admin.token` supplies the token; both must be right. The response is
//! `{"ok": …}` or `{"error": {"code": …, "detail": …}}`.
//!
//! Each operation uses a power of the host's user, which the gate grants and the ledger records.
//! Nothing here runs a tool or asks a model.
//!
//! # Layout
//!
//! * `words`: the vocabulary of both sides
//! * `client`: the client
//! * `failure`: why an operation failed
//! * `room`: what the operations work on
//! * `answering`: the operations on approvals
//! * `runs`: the operations on runs; `stops`: halts, and the cancelling of runs
//! * `actions`: the other operations
//! * `socket`: the server

mod words;
mod client;
mod failure;
mod room;
mod answering;
mod runs;
mod stops;
mod actions;
mod socket;

pub use client::{AdminError, call, socket_path};
pub use room::Room;
pub use socket::Socket;
pub use words::{FailureCode, Operation};
