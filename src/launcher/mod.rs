//! The launcher: reads the manifests, starts one confined child per call, and owns its deadline,
//! caps and end.
//!
//! ```text
//! first stage (attend)        enters namespaces, then waits
//! └── launcher proper (serve)
//!     └── one child per call (child)
//! ```
//! A call has two steps. *Prepare* starts a child that gives up everything except access to its
//! tool's folders and reports which object an argument names; nothing is read or changed. *Go* lets
//! that same child confine itself to that object and run. The result reports the layers that were
//! enforced; a demanded layer that is unavailable is a refusal.
//!
//! Architecture invariants: only this room and `sandbox` start processes; only `sys` has `unsafe`
//! blocks. Nothing here knows a policy, the ledger or a model: the room names `call`, `tools`,
//! `config` and `types` and no other room, so that the binary `par-launcher` contains nothing else.
//!
//! # Layout
//!
//! * `sys`: the calls that need `unsafe`.
//! * `spec`: what a launcher is started with.
//! * `protocol`: the messages.
//! * `journal/`: the launcher's own record of orders and ends.
//! * `uids`, `secrets`: the uids of calls, and the named secrets.
//! * `view/`: what tools see of the host.
//! * `confine/`: what a process is refused.
//! * `cgroup/`: one group of processes for each call.
//! * `host/`: what this machine offers.
//! * `tool`: an opened manifest.
//! * `child/`: the child of one call; `fork` starts it.
//! * `call`: one call as the launcher sees it.
//! * `serve`: the event loop.
//! * `attend`: the first stage.
//! * `command`: the command line of the binary.
//!
//! `sandbox` uses `sys`, `protocol`, `confine` and `view::files`; its tests use everything that is
//! not private.

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
pub use view::mounts::newly_mounted;
