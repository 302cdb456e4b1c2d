//! Builds the parts of one home from its configuration.
//!
//! Failures become errors with an exit code. No command is here, and nothing is printed except the
//! reason why policies are closed, and that a server was told of damage.
//!
//! # Layout
//!
//! * `callers`: principals
//! * `home`: the home folder
//! * `runtime`: threads
//! * `users`: users of this host
//! * `rules`: tools and policies
//! * `secrets`: values to replace
//! * `logs`: log lines
//! * `reading`: why the files of a ledger cannot be read
//! * `ledger`: the ledger and its first entries
//! * `home_reader`: a reader of the ledger that passes damage on to a server
//! * `agent`: providers and agent
//! * `reach`: whether a model's server answers

mod callers;
mod home;
mod runtime;
mod users;
mod rules;
mod secrets;
pub(super) mod logs;
mod reading;
mod ledger;
mod home_reader;
mod agent;
mod reach;

pub(super) use agent::{agent, gate, provider, provider_of, wire};
pub(super) use callers::{authority, local_principal, os_users};
pub(super) use home::{load, made};
pub(super) use home_reader::{HomeReader, pass_on};
pub(super) use ledger::{PROJECTIONS, files, open_anchor, open_ledger, open_to_act, start_drafts};
pub(super) use reach::{key_in_clear, reach};
pub(super) use reading::{NOTHING, check_readable, is_new};
pub(super) use rules::{load_or_close, load_rules, load_unproven};
pub(super) use runtime::runtime;
pub(super) use secrets::{load_secrets, model_keys, secrets};
pub(super) use users::{HostUser, unreachable, user};
