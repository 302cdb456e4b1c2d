//! The command line. Data goes to standard output, messages go to standard error.
//!
//! This room parses arguments, calls the rooms below and turns the outcome into an exit code. What
//! a command does is decided in those rooms.
//!
//! # Layout
//!
//! * `exit`: exit codes, known nowhere else
//! * `show`: lines on standard output and standard error
//! * `table/`: tables and times that fit the terminal
//! * `reply`: a run, with its steps
//! * `progress`: the progress line of a long command
//! * `query`: query terms among the arguments
//! * `live`: a run in this process, as it happens
//! * `compose/`: builds the parts of one home from its configuration
//! * `remote/`: a server, called with the caller's own key
//! * `local`: the agent in this process
//! * `new/`: new files of `etc/`
//! * `run` … `manual`: one file or folder for each command
//! * `command`: the definition of the command line

mod exit;
mod show;
mod table;
mod reply;
mod progress;
mod query;
mod live;
mod compose;
mod remote;
mod local;
mod new;
mod tool;
mod runs;
mod sessions;
mod run;
mod chat;
mod approval;
mod key;
mod halt;
mod login;
mod reload;
mod config;
mod model;
mod init;
mod audit;
mod backup;
mod policy;
mod runbook;
mod doctor;
mod serve;
mod quickstart;
mod sections;
mod manual;
mod command;

pub use command::main;
