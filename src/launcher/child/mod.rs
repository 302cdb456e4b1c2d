//! The child of one call: a fork of the launcher that ends here, whatever comes of the call.
//!
//! It resolves the object, waits for go, confines itself to that object, and runs the builtin or the program. It has no word
//! with the front, and what it says to the launcher is checked there. Nothing here returns to the launcher's code.
//!
//! # Layout
//!
//! `run` (the steps, first to last), `start` (what they go by). Prepare: `resolve` (a path), `subtree` (named paths below it),
//! `content` (a folder that is read whole), `unix` (named sockets), `netns` (a network of its own), `proc` (a `/proc` of its own). Go:
//! `workdirs` (folders to change), `inherit` (what a program is given), `init` (its first process), `quota` (what is added), `search`
//! and `http` (builtins that walk and fetch).

mod start;
mod unix;
mod netns;
mod http;
mod quota;
mod inherit;
mod workdirs;
mod content;
mod subtree;
mod resolve;
mod search;
mod proc;
mod init;
mod run;

pub(super) use http::trust;
pub(super) use run::{Birth, go_packet, run};
