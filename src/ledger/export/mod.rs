//! What leaves the ledger, with all that a stranger needs to check it: proof files and exports.
//!
//! What may happen here: entries are read and written down, and an `export` entry is appended before an
//! export begins. What cannot: no payload leaves that may not be shown, and nothing is told without its
//! record.
//!
//! # Layout
//!
//! `error` · `line` is a line of JSON · [`proof_file`] is entries with their proof, checked without a ledger
//! · `prove` makes one · `record` says who took what · `table` is for people · `stream` tells an export piece
//! by piece · [`verify`] checks one.

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
