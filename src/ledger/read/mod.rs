//! Reading what is stored, entry by entry, each held to its header.
//!
//! What may happen here: the files of the ledger are opened to be read, and write-ahead logs of sealed
//! segments are ended. What cannot: nothing in this wing appends or erases, and no payload is given out that
//! its header does not commit to. Reading is not verifying: chain, tree and signatures are held together in
//! `verify`.
//!
//! # Layout
//!
//! `error` · `segments` are the connections to the files · `rows` reads single rows · `schema` holds a
//! database to its migrations · `reader` is what the rooms above ask.

mod error;
mod segments;
mod rows;
mod schema;
mod reader;

pub use error::ReadError;
pub use reader::{Reader, Stored};
pub(super) use rows::{body, header_bytes, number, root_at, subtree, tile};
pub(super) use schema::{Schema, SchemaError, schema, unlike_made};
pub(super) use segments::OpenSegments;
