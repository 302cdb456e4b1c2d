//! Writing.

pub(super) mod counters;
pub(super) mod spending;
pub(super) mod open;
pub(super) mod sealed;
pub(super) mod reserve;
pub(super) mod wal;
pub(super) mod wal_cut;
pub(super) mod rotate;
pub(super) mod retention;
pub(super) mod succession;
pub(super) mod writer;

pub(super) use counters::Tally;
pub(super) use spending::{Hour, Spent};
pub(super) use open::{Files, HighWater, Lock, OpenError};
pub(super) use retention::{dropped, sealed};
pub(super) use succession::Before;
pub(super) use writer::{Append, Scrub, Task};
