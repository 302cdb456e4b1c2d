//! `data/admin.sock`: keys made and withdrawn, questions answered, payloads erased and rules loaded anew
//! while the server runs, by users of this host. Nothing can be run from here.
//!
//! One JSON object on one line in, one out, then the connection ends. The peer's uid comes from the
//! kernel, the token from `data/admin.token`; both must be right. An answer is `{"ok": …}` or
//! `{"error": {"code": …, "detail": …}}`.
//!
//! Here the powers of the host's own users are used, each asked of the gate and recorded. Nothing here runs a
//! tool or asks a model.
//!
//! # Layout
//!
//! `words`: what both sides speak · `client`: the asking side · `actions`: what may be asked · `socket`: the
//! serving side.

mod words;
mod client;
mod actions;
mod socket;

pub use actions::Room;
pub use client::{AdminError, call, socket_path};
pub use socket::Socket;
pub use words::{FailureCode, Operation};
