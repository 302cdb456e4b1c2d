//! PAR: a policy-driven, secure operations agent with an audit ledger.
//!
//! A message comes in; a language model chooses tools; every choice passes a JSON Schema, a Cedar
//! policy and a sandboxed child, and every step is on a hash-chained ledger before anything happens
//! because of it. The model is presumed hostile. `ARCHITECTURE.md` walks one request through this
//! code.
//!
//! # Layout
//!
//! The rooms, lowest first; an arrow goes only downward (`tests/it/tidy.rs` holds it):
//!
//! | room | owns, and alone may do |
//! |---|---|
//! | [`types`] | ids, digests, strict JSON, limits; the only clock |
//! | [`call`] | what launcher and gate both speak of: plain values |
//! | [`secrets`] | replaces named secrets; only maker of a [`secrets::Clean`] |
//! | [`config`] | flag > environment > file > default; the only environment |
//! | [`tools`] | manifests, schema, builtin tools; only maker of a [`tools::ValidCall`] |
//! | [`launcher`] | one confined child per call; all `unsafe`, in one file |
//! | [`store`] | opens SQLite |
//! | [`egress`] | every outbound connection |
//! | [`ledger`] | append, verify, read; only maker of a [`ledger::Receipt`] |
//! | [`auth`] | keys and users; only maker of a [`auth::Principal`] |
//! | [`policy`] | the decision point, pure |
//! | [`gate`] | the enforcement point; only maker of a permit, a running call and a tool result |
//! | [`llm`] | model providers |
//! | [`sandbox`] | the supervisor, the front's lock, its way to a launcher |
//! | [`rules`] | what decides: loaded, kept, exchanged, replayed |
//! | [`agent`] | the loop |
//! | [`http`] | routes and status codes |
//! | [`cli`] | commands and exit codes |

pub mod agent;
pub mod auth;
pub mod call;
pub mod cli;
pub mod config;
pub mod egress;
pub mod gate;
pub mod http;
pub mod launcher;
pub mod ledger;
pub mod llm;
pub mod policy;
pub mod rules;
pub mod sandbox;
pub mod secrets;
pub mod store;
pub mod tools;
pub mod types;
#[cfg(any(test, fuzzing))]
pub mod borders;
