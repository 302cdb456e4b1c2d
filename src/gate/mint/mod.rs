//! The proofs of this room, each in its own module.
//!
//! A proof's fields are private to its module. Its constructors exist only there and take the
//! evidence by type: a receipt of the ledger, an entry that was read back from it, or the verdict
//! of the rules. No constructor takes a bare number or text as evidence. So no other file, of this
//! room or above, can forge one; `tests/it/forgery.rs` has the compiler confirm it.
//!
//! # Layout
//!
//! * `asked`: a call that waits for a person, or was approved ([`Asked`](asked::Asked)).
//! * `granted`: a power of the API, granted for one use ([`Granted`](granted::Granted)).
//! * `cleared`: permission to send a conversation to a model
//!   ([`ModelPermit`](cleared::ModelPermit)).
//! * `running`: a call that was started ([`Running`](running::Running)).
//! * `permit`: permission to run one call ([`Permit`](permit::Permit)), and the order for the
//!   sandbox ([`Order`](permit::Order)).
//! * `told`: what the model may see ([`ToolResult`](told::ToolResult)), and a waiting call
//!   ([`Waiting`](told::Waiting)).

pub(super) mod asked;
pub(super) mod granted;
pub(super) mod cleared;
pub(super) mod running;
pub(super) mod permit;
pub(super) mod told;
