//! Groups of processes (cgroups(7), version 2): one for each call, if this process may divide its
//! own group.
//!
//! ```text
//! the group it starts in, which is delegated
//! ├── par-above            the processes above the launcher, if one of them has to make way
//! └── par-launcher-<pid>   held by a lock for as long as that launcher lives
//!     ├── main             the launcher: a group with controllers holds no process itself
//!     └── 0, 1, …          one call each
//! ```
//!
//! A group adds up what the processes of a call use, and kills them all at once. Groups are an
//! extra: each call has its other bounds anyway. A group in which nothing was killed is used again
//! by a call with the same bounds. A group that was killed is removed, since Linux 6.18 kills every
//! process that starts in it, and so is one that ran out of memory.
//!
//! # Layout
//!
//! * `files`: the kernel's files of a group.
//! * `base`: the group in which launchers' groups are made.
//! * `groups`: the groups of calls.

mod files;
mod base;
mod groups;

pub(crate) use groups::{CallGroups, GroupLimits, NO_GROUPS};
