//! What the launcher and its children see of the host: a separate root that contains what manifests
//! name.
//!
//! Here the launcher enters namespaces and makes mounts. Nothing here decides what a call may do
//! with what it sees.
//!
//! # Layout
//!
//! * `files`: files by descriptor.
//! * `procfs`: facts about the host.
//! * `mounts`: the mount table.
//! * `symlinks`: a path, followed link by link.
//! * `host_tree`: names on the host.
//! * `namespaces`: the launcher's own.
//! * `root`: the view.
//! * `own_proc`: a call's own `/proc`.

pub(crate) mod files;
pub(crate) mod procfs;
pub(crate) mod mounts;
pub(crate) mod symlinks;
pub(crate) mod host_tree;
pub(crate) mod namespaces;
pub(crate) mod root;
pub(crate) mod own_proc;
