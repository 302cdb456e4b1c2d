//! Reading entries.

pub(super) mod segments;
pub(super) mod reader;

pub(super) use segments::{Shelf, path_of};
pub(super) use reader::{Order, ReadError, Reader, Stored, header_bytes, root_at, tile};
