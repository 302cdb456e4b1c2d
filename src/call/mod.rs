//! The vocabulary that launcher and gate share: the object that an argument names, and how a call
//! ended.
//!
//! These are plain values: this room does nothing, and holding one of them permits nothing. The
//! values come from another process, so the room that takes them (`gate`) checks them like any
//! input. It names neither secrets, connections nor the gate.
//!
//! # Layout
//!
//! * `object`: what prepare found.
//! * `exclusion`: what a call leaves out below its object.
//! * `held`: the child that waits for the permit. `unprepared`: why no child waits.
//! * `end`: how a call ended.
//! * `connection`: the connections that a call asked for.
//! * `execution`: end, output and the layers that were enforced.

mod connection;
mod end;
mod object;
mod exclusion;
mod execution;
mod held;
mod unprepared;

pub use connection::{Connection, Connections};
pub use end::End;
pub use exclusion::Exclusion;
pub use execution::{Execution, Given};
pub use held::{Held, Prepared};
pub use object::{Beneath, Content, FileId, FileKind, Listing, Object, PathObject, UnreadableObject};
pub use unprepared::Unprepared;
