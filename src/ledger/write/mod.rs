//! The one writer: a thread that appends, signs, rotates segments and erases. Receipts are minted here.
//!
//! What may happen here: entries, tiles and checkpoints are committed, payloads are erased, segments are
//! sealed. What cannot: nothing but [`receipt`] makes a [`Receipt`], which it does after the commit and its
//! sync; no entry is committed without a checkpoint over it; nobody but the writer's thread writes to the
//! segment that is written.
//!
//! # Layout
//!
//! `error` · `counters` and `spending` count what was committed · [`receipt`] is the transaction and the mint
//! · `queue` leads to the writer · `shared` is what it tells · `segment` is what it writes to · `reserve` is
//! space held back · `sealed` erases in files before the newest · `follow` brings state.db up · `wal` moves
//! write-ahead logs, on a thread of its own · `writer` is the loop, and `full_disk`, `rotate` and `wal_cut`
//! are parts of it, each an `impl Writer` · `retention` drops payloads by their age · `succession` sets a log
//! aside · `open` resumes what is there and starts the threads.

mod error;
mod counters;
mod spending;
mod segment;
mod receipt;
mod queue;
mod shared;
mod reserve;
mod sealed;
mod follow;
mod wal;
mod writer;
mod full_disk;
mod rotate;
mod wal_cut;
mod retention;
mod succession;
mod open;

pub use counters::{CallOutcome, Tally};
pub use error::{AppendError, OpenError};
pub(super) use open::{Opened, open};
pub(super) use queue::{Queue, ScrubError};
pub use receipt::Receipt;
pub(super) use shared::Shared;
pub use spending::{Hour, Spent};
pub use succession::{copy, digest_of, set_aside};
