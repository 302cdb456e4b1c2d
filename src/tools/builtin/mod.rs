//! The builtin tools, as plain functions that run in the sandboxed child.
//!
//! They open nothing: the sandbox gives them descriptors that were opened with the call's own
//! permissions, or connected for it, and reads names of the host's `/proc` for them.
//!
//! Architecture invariant: no function here opens a path, starts a process or makes a connection.
//!
//! # Layout
//!
//! * `answer`: the answer of a tool, and how it is written.
//! * `secret_names`: what looks like a secret. `line_time`: when a line of a log was written.
//! * `bus/`: a D-Bus client. `services/`: tools that ask systemd with it.
//! * `host/`: tools that report on the host from `/proc`. `system_files/`: those that report on it
//!   from files of its own programs.
//! * The other tools, each in a file with its name.

mod answer;
mod secret_names;
mod line_time;
mod bus;
mod services;
mod certificate;
pub mod host;
pub mod system_files;
mod http_get;
mod http_probe;
mod list_dir;
mod read_file;
mod search_files;
mod tail_file;
mod diff_files;
mod file_info;
mod largest_paths;
mod read_config;

pub use answer::{Answer, Fitting, NOT_FOUND, stamped, write_answer};
pub use bus::{BusClient, BusError};
pub use certificate::{ChainQuestion, days_left, judge};
pub use diff_files::diff_files;
pub use file_info::file_info;
pub use http_get::http_get;
pub use http_probe::{ProbeTimes, http_probe};
pub use largest_paths::LargestPaths;
pub use list_dir::list_dir;
pub use read_config::read_config;
pub use read_file::read_file;
pub use search_files::{Search, Skip};
pub use services::{Told, UnitsAsked, ask_systemd, count_failed};
pub use tail_file::tail_file;
