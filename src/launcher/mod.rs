//! The launcher: reads the manifests, starts one confined child per call, and owns its deadline, caps and end.
//!
//! ```text
//! first stage (attend): enters namespaces, waits ── launcher proper (serve) ── one child per call (child)
//! ```
//! A call has two steps. *Prepare* starts a child that gives up everything but the sight of its tool's folders and says
//! which object an argument names; nothing is read or changed. *Go* lets that same child confine itself to that object and
//! run. What was really enforced comes back with the result; what is demanded and cannot be had is a refusal.
//!
//! Architecture invariants: this room and `sandbox` alone start processes; only `sys` has `unsafe` blocks. Nothing here knows
//! a policy, the ledger or a model: it names `call`, `tools`, `config` and `types` and no other room, so that the binary
//! `par-launcher` holds no more than that.
//!
//! # Layout
//!
//! `sys` (calls that need `unsafe`), `spec` (what it is started with), `protocol` (messages), `journal` (its own record),
//! `uids`, `secrets`; `view/` (what is seen of the host), `confine/` (what is refused), `cgroup`, `host/` (what this machine
//! gives), `tool` (a manifest, opened), `child/` (the child of one call), `fork` (the start of a child), `call` (one call as
//! the launcher sees it), `serve` (the loop), `attend` (the first stage), `command` (the binary's own words).
//!
//! Of these `sandbox` names `sys`, `protocol`, `confine` and `view::files`, and its tests the rest that is not private.

pub(crate) mod sys;
pub(crate) mod spec;
pub(crate) mod protocol;
mod journal;
mod uids;
mod secrets;
pub(crate) mod view;
pub(crate) mod confine;
mod cgroup;
pub(crate) mod host;
mod tool;
mod child;
mod fork;
mod call;
mod serve;
mod attend;
mod command;

pub use attend::attend;
pub(crate) use attend::run;
pub use command::{ServeOptions, main};
pub use confine::identity::tool_owner;
pub use journal::{Journals, Ordered};
pub use protocol::{Mounted, ProgramDigest, RefusedTool, Report, SkippedRoot, ToolDigest};
pub use spec::{Spec, StartError};
pub use view::mounts::mounted_since;
