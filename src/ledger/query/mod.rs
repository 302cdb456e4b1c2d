//! Queries: one grammar, what it says of an entry, and the index that finds entries faster.
//!
//! What may happen here: headers are read and compared, and `index.db` follows the ledger. What cannot: the
//! index changes no answer, since each is a header of the ledger that matches; nothing in this wing writes to
//! the ledger.
//!
//! # Layout
//!
//! `error` is why a query cannot be read · `tokens` cuts texts into words · `term` is one word of a query · `filter` is a query · `scan` answers from
//! the ledger alone · `index_row` and `index_file` are index.db · `index` keeps it · `search` answers with it
//! · `indexer` is the thread that follows.

mod error;
mod tokens;
mod term;
mod filter;
mod scan;
mod index_row;
mod index_file;
mod index;
mod search;
mod indexer;

pub use error::QueryError;
pub use filter::{Filter, split, word};
pub use index::{Coverage, Index};
pub use index_file::IndexError;
pub(super) use index_file::{IndexFile, forget_one, text_of};
pub(super) use index_row::{BLOCK_ENTRIES, seal};
pub use indexer::Follower;
pub use scan::Order;
pub use search::HeaderPage;
