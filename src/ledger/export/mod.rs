//! What leaves the ledger, with everything that another person needs to check it: proof files and
//! exports.
//!
//! This wing reads entries and writes files. An `export` entry is appended, and signed at once,
//! before an export begins. It records the query, the size, the count and a digest of the numbers;
//! the lines with their audit paths are then made piece by piece from that entry alone. No payload
//! leaves that may not be shown, and no export is made without its record.
//!
//! # Layout
//!
//! `error` · `line` is a line of JSON · [`proof_file`] holds entries with their proof, which can be
//! checked without a ledger · `prove` makes one · `record` records who exported what · `table` is
//! for people · `stream` makes an export piece by piece · [`verify`] checks one.

mod error;
mod line;
pub mod proof_file;
mod prove;
mod record;
mod table;
mod stream;
pub mod verify;

pub use error::{ExportError, ProofError};
pub use record::Format;
pub use stream::Export;
