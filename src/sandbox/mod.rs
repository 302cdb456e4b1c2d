//! Processes: supervisor, launcher, one confined child per call, and the front's own lock.
//!
//! ```text
//! supervisor ─┬─ front      asks by `Launcher`, cannot start anything
//!             └─ launcher   first stage, waits ── launcher proper ── one child per call
//! ```
//!
//! Under a service manager there is no supervisor: the front connects to a socket, and each connection
//! is a launcher that the manager starts, as a user of its own ([`dial`], [`attend`]).
//!
//! A call has two steps. *Prepare* starts a child that gives up everything but the sight of its tool's
//! folders and tells which object an argument names; nothing is read or changed. *Go* lets that same
//! child confine itself to that object and run. What was really enforced comes back with the result;
//! what is demanded and cannot be had is a refusal.
//!
//! Architecture invariants: only this room starts processes; only `sys` has `unsafe` blocks; nothing
//! here knows a policy.
//!

mod beneath;
mod call;
mod canary;
mod cgroup;
mod child;
mod connect;
mod fetch;
mod forks;
mod front;
mod given;
mod heap;
mod host;
mod init;
mod journal;
mod launcher;
mod layers;
mod link;
mod machine;
mod mounts;
mod namespaces;
mod network;
mod own_proc;
mod protect;
mod quota;
mod resolve;
mod seccomp;
mod slots;
mod spare;
mod supervisor;
mod sys;
#[cfg(test)]
mod tests;
mod tool;
mod trail;
mod tree;
mod vault;
mod view;
mod walk;
mod wire;
mod writes;

pub use front::{end_listening, lock_front};
pub use journal::{Journals, Ordered};
pub use launcher::attend;
pub use link::{Launcher, LinkSeed, PrepareError, Renewal};
pub use machine::tool_owner;
pub use mounts::mounted_since;
pub use supervisor::{Spec, StartError, dial, serve, start};
pub use wire::{Mounted, ProgramDigest, RefusedTool, Report, SkippedRoot, ToolDigest};
