//! Values that every room shares: identifiers, digests, time, limits, strict JSON, visible text.
//!
//! Invariants: this room imports no other room, and only `clock` reads the clock.
//!
//! # Layout
//!
//! * `limits`: every limit of the program, with its unit and its default, in one flat table.
//! * `clock`: wall time, time since boot, and the boot id.
//! * `id`: ULID identifiers of runs, sessions, calls, approvals and requests; the id of an API key.
//! * `digest`: SHA-256 values. `secret`: a credential that does not print itself, and the proof
//!   that two processes hold the same one.
//! * `host`: hosts and URLs, parsed to one canonical spelling.
//! * `json`: strict parsing and the canonical form that is hashed. `text`: untrusted text made safe
//!   to display. `nearest`: the known word that a mistyped one stands for.
//! * `labels`: where stored data comes from. `sink`: where it may leave this host. `price`: prices
//!   of models, and money.
//! * `ceiling`: the only tools that a run may use.
//! * `channel`, `level`, `run_status`, `step`: the enumerations that appear in the ledger and in
//!   the API.
//! * `stop_scope`: what a person's word stops.
//! * `found_in`: where the value of an argument was found.
//! * `shares`: a semaphore with a bound for each key.
//! * `laws`: the number of cases for property tests. `version`: the version of this program.

mod version;
pub mod channel;
mod ceiling;
pub mod limits;
pub mod text;
mod found_in;
pub mod clock;
pub mod digest;
pub mod host;
pub mod id;
pub mod json;
pub mod level;
mod nearest;
mod price;
pub mod secret;
pub mod shares;
pub mod labels;
pub mod sink;
pub mod step;
pub mod run_status;
mod stop_scope;
#[cfg(test)]
pub(crate) mod laws;

pub use ceiling::Ceiling;
pub use channel::Channel;
pub use digest::Digest;
pub use found_in::{FoundIn, told_origins};
pub use host::{HostError, HostPort, WebUrl};
pub use id::{ApprovalId, CallId, KeyId, RequestId, RunId, SessionId};
pub use labels::{DataLabels, Labelled, UNTRUSTED};
pub use level::Level;
pub use nearest::{nearest, with_meant};
pub use price::{Money, Price};
pub use run_status::RunStatus;
pub use secret::Secret;
pub use shares::{Full, Share, Shares};
pub use sink::ModelSink;
pub use step::{Decision, RefusalClass, StepStatus};
pub use stop_scope::{NamedRun, StopScope, Stoppable, UnknownScope};
pub use version::VERSION;
