//! The files of a ledger: their names, the lock against a second writer, the high-water mark.
//!
//! What may happen here: paths are made, and files that are not databases are opened. What cannot: nothing in
//! this wing opens a database, appends or erases.
//!
//! # Layout
//!
//! `names` are those of segments · `paths` says where each file lies · `lock` keeps a second writer out ·
//! `high_water` is the mark beside the databases · `raw` opens files for a search of their bytes.

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
