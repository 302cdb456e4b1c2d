//! The child of one call: a fork of the launcher that ends here, whatever becomes of the call.
//!
//! It resolves the object, waits for go, confines itself to that object, and runs the builtin or
//! the program. It has no channel to the front, and the launcher checks what it sends. Nothing here
//! returns to the launcher's code.
//!
//! # Layout
//!
//! * `run`: the steps, first to last.
//! * `start`: what the steps share, and the messages to the launcher.
//!
//! Prepare:
//!
//! * `resolve`: a path.
//! * `subtree`: named paths below it.
//! * `content`: a folder that is read whole.
//! * `unix`: named sockets.
//! * `timed`: a connection with an end.
//! * `netns`: the call's own network.
//! * `proc`: the call's own `/proc`.
//!
//! Go:
//!
//! * `workdirs`: the folders that the call may change.
//! * `inherit`: what a program is given.
//! * `init`: the call's first process.
//! * `quota`: bounds what a call adds to its folders.
//! * `host_proc`: what a report reads of the host's `/proc`.
//! * `system_files`, `certificate_files`: what a report reads in granted folders.
//! * `journal_files`: which files a journal has.
//! * `walk`: reading below a folder without what is excluded.
//! * `search`, `largest`, `pair`, `http`, `certificates`: builtins that walk and fetch.
//! * `builtin`: opens what a builtin reads, and runs it.

mod start;
mod unix;
mod timed;
mod netns;
mod http;
mod certificates;
mod quota;
mod inherit;
mod workdirs;
mod content;
mod subtree;
mod resolve;
mod walk;
mod search;
mod largest;
mod pair;
mod host_proc;
mod system_files;
mod certificate_files;
mod journal_files;
mod builtin;
mod proc;
mod init;
mod run;

pub(super) use run::{Birth, go_packet, run};
