//! Keeps [`Hold`](super::Hold) to this crate: no other can name it.

/// A type of this crate, or one whose `Hold` stands in this room.
pub trait Sealed {}
