//! Putting the rooms of one home together.
//!
//! Here a home and its configuration become the parts that a command works with, and what goes wrong becomes
//! an exit code. No command is here, and nothing is printed but why policies are closed.
//!
//! # Layout
//!
//! `home`: the home · `runtime`: threads · `users`: users of this host · `rules`: tools and policies ·
//! `secrets`: what is replaced · `logs`: log lines · `ledger`: the ledger and its first entries · `agent`:
//! provider and agent · `callers`: who may ask.

mod home;
mod runtime;
mod users;
mod rules;
mod secrets;
pub(super) mod logs;
mod ledger;
mod agent;
mod callers;

pub(super) use agent::{agent, provider};
pub(super) use callers::{askers, authority, local_principal};
pub(super) use home::{load, made};
pub(super) use ledger::{PROJECTIONS, files, open_ledger, start_drafts};
pub(super) use rules::{load_or_close, load_rules, load_unproven};
pub(super) use runtime::runtime;
pub(super) use secrets::{load_secrets, model_key, secrets};
pub(super) use users::{HostUser, user};
