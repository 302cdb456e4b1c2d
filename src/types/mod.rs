//! Words that every room shares: identifiers, digests, time, limits, strict JSON, visible text.
//!
//! Architecture invariant: this room imports no other room, and `clock` is the only reader of the
//! clock.

pub mod clock;
pub mod digest;
pub mod host;
pub mod id;
pub mod json;
#[cfg(test)]
pub(crate) mod laws;
pub mod level;
pub mod limits;
pub mod run_status;
pub mod secret;
pub mod shares;
pub mod step;
pub mod text;

pub use digest::Digest;
pub use host::{HostPort, WebUrl};
pub use id::{ApprovalId, CallId, KeyId, RequestId, RunId, SessionId};
pub use level::Level;
pub use run_status::RunStatus;
pub use shares::{Full, Share, Shares};
pub use step::{Decision, StepStatus};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
pub use secret::Secret;
