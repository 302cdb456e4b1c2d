//! The proofs of this room, each in a module of its own.
//!
//! A proof's fields are private to its module, and its constructors, which stand there and nowhere else, demand the
//! evidence by type: a receipt of the ledger, an entry that was read back from it, or the rules' own verdict. No
//! constructor takes a bare number or text for it. So no other file, of this room or above, can make one up;
//! `tests/it/forgery.rs` has the compiler say so.
//!
//! # Layout
//!
//! `asked`: a call that a person was asked about ([`Asked`](asked::Asked)). `granted`: a power of the API for one use
//! ([`Granted`](granted::Granted)). `running`: a call that was let go ([`Running`](running::Running)). `permit`: leave to
//! run one call, and the order for the sandbox ([`Permit`](permit::Permit), [`Order`](permit::Order)). `told`: what the model
//! may be told ([`ToolResult`](told::ToolResult)), and what waits ([`Waiting`](told::Waiting)).

pub(super) mod asked;
pub(super) mod granted;
pub(super) mod running;
pub(super) mod permit;
pub(super) mod told;
