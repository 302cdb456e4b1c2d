//! Queries.

pub(super) mod tokens;
pub mod filter;
pub(super) mod index_row;
pub(super) mod index;
pub(super) mod search;
pub(super) mod indexer;

pub(super) use index::{BLOCK_ENTRIES, IndexError, Inner, forget_one, text_of};
pub(super) use index_row::seal;
pub use filter::{Filter, split, word};
