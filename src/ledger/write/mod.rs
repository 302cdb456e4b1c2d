//! The one writer: a thread that appends, signs, rotates segments and erases. It creates receipts.
//!
//! Only [`receipt`] makes a [`Receipt`], after the commit and its sync. No entry is committed
//! without a checkpoint over it, so that no moment, and no crash, leaves an entry that could be
//! changed without a key. Only the writer's thread writes to the newest segment.
//!
//! One append is one commit. The writer drains its queue into one transaction, so that many runs
//! share a sync, and it advances chain, tree and high-water mark only after the commit. Results of
//! calls and replies of runs are *owed*: they have already happened, so a full disk makes them wait
//! instead of refusing them (`full_disk`). After any other disk error, or if a database is replaced
//! while it is open, the state of the file is unknown, and no append succeeds until a restart.
//!
//! # Layout
//!
//! `error` · `counters` and `spending` count what was committed · [`receipt`] has the transaction
//! and makes receipts · `queue` leads to the writer · `shared` is the state that it publishes ·
//! `segment` is the file that it writes · `reserve` is space held back for a full disk · `sealed`
//! erases in older segments · `follow` brings state.db up to date · `wal` copies write-ahead logs,
//! on its own thread · `writer` is the loop, with the parts `full_disk`, `rotate` and `wal_cut`,
//! each an `impl Writer` · `retention` drops payloads by age · `succession` sets a log aside and
//! names it in the next one · `open` resumes a ledger and starts the threads.

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
pub use error::WAY_OUT;
pub use error::{AppendError, OpenError};
pub use open::recorded_damage;
pub(super) use open::{Opened, open};
pub(super) use queue::{Queue, ScrubError};
pub use receipt::Receipt;
pub(super) use shared::Shared;
pub use spending::{Hour, Spent};
pub use succession::{copy, digest_of, set_aside};
