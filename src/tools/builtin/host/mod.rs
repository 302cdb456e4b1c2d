//! Tools that report on the host, from its `/proc` and its mounted file systems.
//!
//! A tool reads only the names that its row of the table in `proc_files` lists. What it could not
//! read, its result names in `not_seen`.
//!
//! # Layout
//!
//! * `proc_files`: the table, and how names are read.
//! * `view`: what a report is made from, and what was not seen.
//! * `pressure`: stalls (PSI).
//! * `process`: one process, as `/proc` shows it.
//! * `arguments`: command lines, with secret-looking parts left out.
//! * `socket_table`: the kernel's lists of sockets.
//! * The tools, each in a file with its name, and `report`, which runs one.

mod proc_files;
mod view;
mod pressure;
mod process;
mod arguments;
mod socket_table;
mod health_check;
mod memory_usage;
mod disk_usage;
mod disk_io;
mod process_list;
mod process_info;
mod listening_ports;
mod connections;
mod interfaces;
mod report;
#[cfg(test)]
mod tests;

pub(super) use arguments::arguments as command_words;
pub use proc_files::{ProcFiles, ProcNames, proc_names};
pub use report::report;
pub use view::{CertificateEnds, Disk, Host, HostFacts, HostView, OVERFLOW_ID};
