//! Tools that report on the host from files that its own programs keep: of packages, logins and
//! jobs.
//!
//! Such a tool is about the host as a whole. In the folders that its manifest grants, it opens only
//! the names that its rows of the table in `folders` list. What it could not read, its result names
//! in `not_seen`.
//!
//! # Layout
//!
//! * `folders`: the table, and what a call sees of the granted folders.
//! * `lines`: lines of a file of any size, in bounded memory.
//! * `deb_version`, `package_lists`: what dpkg and apt write.
//! * `login_records`, `auth_log`: what login programs write.
//! * The tools, each in a file with its name, and `report_of_files`, which runs one.

mod folders;
mod lines;
mod deb_version;
mod package_lists;
mod pending_updates;
mod login_records;
mod auth_log;
mod logins;
mod cron_list;
mod journal_size;
mod report_of_files;
#[cfg(test)]
mod tests;

pub use folders::{SystemEntry, SystemFiles, SystemFolder, SystemView, is_listed, is_looked_into};
pub use report_of_files::report_of_files;
