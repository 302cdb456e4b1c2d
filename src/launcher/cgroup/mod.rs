//! Groups of processes (cgroups(7), version 2): one for each call, where this process's own group is its to divide.
//!
//! ```text
//! the group it starts in, which is delegated
//! ├── par-above            the processes above the launcher, where one of them has to leave the way
//! └── par-launcher-<pid>   held by a lock for as long as that launcher lives
//!     ├── main             the launcher itself: a group with controllers has no processes of its own
//!     └── 0, 1, …          one call each
//! ```
//!
//! A group adds up what the processes of a call use, and kills them all at once. What is there is an extra: each call has
//! its other bounds anyway. A group that nothing happened to is used again by a call with the same bounds; one that
//! was killed is removed, since Linux 6.18 kills whoever starts in it, and so is one that ran out of memory.
//!
//! # Layout
//!
//! `files` (the kernel's), `base` (where launchers' groups are made), `groups` (those of calls).

mod files;
mod base;
mod groups;

pub(crate) use groups::{CallGroups, GroupLimits, NO_GROUPS};
