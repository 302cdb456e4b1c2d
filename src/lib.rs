//! PAR: a policy-driven, secure operations agent with an audit ledger.
//!
//! A message arrives, and a language model chooses tools. Every call passes a JSON Schema and a
//! Cedar policy and runs in a sandboxed child. Every step is on a hash-chained ledger before it has
//! any effect. The model is presumed hostile. `ARCHITECTURE.md` follows one request through this
//! code.
//!
//! # Layout
//!
//! The rooms, lowest first. A room uses only rooms above it in this table, which `tests/it/tidy.rs`
//! checks.
//!
//! | room | owns |
//! |---|---|
//! | [`types`] | ids, digests, strict JSON, limits; the only clock |
//! | [`call`] | plain values that launcher and gate share |
//! | [`provenance`] | where the values of a call's arguments were found |
//! | [`secrets`] | replacement of named secrets; the only source of [`secrets::Clean`] |
//! | [`config`] | settings: flag > environment > file > default; the only reader of the environment |
//! | [`tools`] | manifests, schema, builtin tools; the only source of [`tools::ValidCall`] |
//! | [`runbooks`] | what an operator wrote down for a situation: parsed, checked, chosen by exact phrases |
//! | [`launcher`] | one confined child per call; all `unsafe` code, in one file |
//! | [`store`] | opening SQLite |
//! | [`egress`] | every outbound connection |
//! | [`ledger`] | append, verify, read; the only source of [`ledger::Receipt`] |
//! | [`auth`] | keys and users; the only source of [`auth::Principal`] |
//! | [`policy`] | the decision point; pure functions |
//! | [`gate`] | the enforcement point; the only source of permits, running calls and tool results |
//! | [`llm`] | model providers |
//! | [`sandbox`] | the supervisor, the front's lock, the connection to a launcher |
//! | [`rules`] | loads, stores, replaces and replays tools and policies |
//! | [`agent`] | the agent loop |
//! | [`http`] | routes, pages and status codes |
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
pub mod provenance;
pub mod rules;
pub mod runbooks;
pub mod sandbox;
pub mod secrets;
pub mod store;
pub mod tools;
pub mod types;
#[cfg(any(test, fuzzing))]
pub mod borders;
