//! Queries: one grammar, its evaluation on an entry, and the index that finds entries faster.
//!
//! The command line, the API and the pages share one grammar and one type ([`Filter`]): conditions
//! on headers, and words of payloads. Evaluating them is pure. The ledger alone answers every
//! query, page by page, each bounded in entries and in bytes of payloads. The index changes no
//! result: each is a header of the ledger that matches, and only queries read `index.db`. This wing
//! writes nothing to the ledger.
//!
//! # Layout
//!
//! `error` is why a query cannot be parsed · `tokens` cuts texts into words · `term` is one term of
//! a query · `filter` is a query · `scan` searches the ledger alone · `told` is one line for an
//! entry, for people · `named` are keys and users that a query names · `index_row` and `index_file`
//! are index.db, with `counts` by time and `run_lines` of its runs · `index` keeps it · `search`
//! uses it · `indexer` is the thread that follows the ledger.

mod error;
mod tokens;
mod term;
mod filter;
mod scan;
mod told;
mod named;
mod index_row;
mod counts;
mod run_lines;
mod index_file;
mod index;
mod search;
mod indexer;

pub use counts::{CountedEntries, SPAN_US};
pub use error::QueryError;
pub use filter::{Filter, split, word};
pub use index::{Coverage, Index};
pub use index_file::IndexError;
pub(super) use index_file::{IndexFile, forget_one, text_of};
pub(super) use index_row::{BLOCK_ENTRIES, seal};
pub use indexer::Follower;
pub use run_lines::RunLine;
pub use scan::Order;
pub use search::HeaderPage;
pub use told::{EntryLine, EntryTeller, KeyNames, line_of};
