//! The builtin tools, as plain functions that run in the sandboxed child.
//!
//! They open nothing: the sandbox gives them descriptors that were opened with the call's own
//! permissions, or connected for it.
//!
//! Architecture invariant: no function here opens a path, starts a process or makes a connection.
//!
//! # Layout
//!
//! * `answer`: the answer of a tool, and how it is written.
//! * `health_check`, `http_get`, `list_dir`, `read_file`, `search_files`: the tools.

mod answer;
mod health_check;
mod http_get;
mod list_dir;
mod read_file;
mod search_files;

pub use answer::{Answer, NOT_FOUND, write_answer};
pub use health_check::{Disk, Host, health_check};
pub use http_get::http_get;
pub use list_dir::list_dir;
pub use read_file::read_file;
pub use search_files::{Search, Skip};
