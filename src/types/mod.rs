//! Words that every room shares: identifiers, digests, time, limits, strict JSON, visible text.
//!
//! Architecture invariant: this room imports no other room, and `clock` is the only reader of the
//! clock.

mod version;
pub mod limits;
pub mod text;
pub mod clock;
pub mod digest;
pub mod host;
pub mod id;
pub mod json;
pub mod level;
pub mod secret;
pub mod shares;
pub mod step;
pub mod run_status;
#[cfg(test)]
pub(crate) mod laws;

pub use digest::Digest;
pub use host::{HostError, HostPort, WebUrl};
pub use id::{ApprovalId, CallId, KeyId, RequestId, RunId, SessionId};
pub use level::Level;
pub use run_status::RunStatus;
pub use secret::Secret;
pub use shares::{Full, Share, Shares};
pub use step::{Decision, StepStatus};
pub use version::VERSION;
