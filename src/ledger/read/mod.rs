//! Reads stored entries one by one and checks each payload against its header.
//!
//! This wing opens the ledger's files for reading and removes the write-ahead logs of sealed
//! segments. It appends and erases nothing, and it returns no payload that its header does not
//! commit to. Reading is not verifying: `verify` checks chain, tree and signatures.
//!
//! The ledger's files are segments. Each holds the entries from the one in its name on, so that
//! readers find the file of an entry by its number.
//!
//! # Layout
//!
//! `error` · `alarm` wakes the thread that verifies · `segments` holds the connections to the files
//! · `rows` reads single rows · `schema` compares a database with its migrations · `reader` is the
//! interface for other rooms · `unverified` returns what does not verify.

mod error;
mod alarm;
mod segments;
mod rows;
mod schema;
mod reader;
mod unverified;

pub(super) use alarm::Wake;
pub use error::ReadError;
pub use reader::{Reader, Stored};
pub(super) use rows::{body, header_bytes, number, root_at, subtree, tile};
pub(super) use schema::{Schema, SchemaError, schema, unlike_made};
pub(super) use segments::OpenSegments;
pub use unverified::Unverified;
