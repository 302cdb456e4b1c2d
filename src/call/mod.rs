//! What launcher and gate both speak of: the object that an argument names, and how a call ended.
//!
//! Plain values: this room does nothing, and holding one of them permits nothing. They come from another process, and are
//! checked like any input by the room that takes them (`gate`). It names neither secrets, connections nor the gate.
//!
//! # Layout
//!
//! `object` (what prepare found), `exclusion` (what a call leaves out below it), `held` (the child that waits), `end`,
//! `connection` (what a call asked for), `execution` (end, output and what was enforced).

mod connection;
mod end;
mod object;
mod exclusion;
mod execution;
mod held;

pub use connection::{Connection, Connections};
pub use end::End;
pub use exclusion::Exclusion;
pub use execution::{Execution, Given};
pub use held::{Held, Prepared};
pub use object::{Beneath, Content, FileId, FileKind, Listing, Object, PathObject};
