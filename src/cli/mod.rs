//! The command line. Data on standard output, messages on standard error.
//!
//! Here words become a command, and how it ended an exit code. What a command does belongs to the rooms
//! below.
//!
//! # Layout
//!
//! `exit`: exit codes, known nowhere else · `show`: tables and lines · `progress`: how far a long command is
//! · `query`: queries as words · `compose/`: the rooms of one home put together · `remote/`: a server, asked
//! with the caller's own key · `local`: work in this process · then one file or folder for each command ·
//! `command`: the command line itself.

mod exit;
mod show;
mod progress;
mod query;
mod compose;
mod remote;
mod local;
mod run;
mod tool;
mod approval;
mod key;
mod reload;
mod config;
mod init;
mod audit;
mod backup;
mod policy;
mod doctor;
mod serve;
mod quickstart;
mod manual;
mod command;

pub use command::main;
