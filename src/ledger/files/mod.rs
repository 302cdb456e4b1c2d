//! The files of a ledger: their names, the lock against a second writer, and the high-water mark.
//!
//! This wing makes paths and opens files that are not databases. It opens no database, and it
//! appends and erases nothing.
//!
//! # Layout
//!
//! `names` are the names of segments · `paths` has the path of each file · `lock` keeps a second
//! writer out · `high_water` is the mark next to the databases · `raw` opens files for a search of
//! their bytes.

mod names;
mod paths;
mod lock;
mod high_water;
mod raw;

pub use high_water::HighWater;
pub use lock::{Lock, LockError};
pub(super) use names::{firsts, path_of, strays};
pub(super) use paths::KeyFiles;
pub use paths::{Files, Rotation};
pub(super) use raw::{RawFiles, name};
