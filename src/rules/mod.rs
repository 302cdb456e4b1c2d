//! Loads, stores, exchanges and replays the rules: tools, scripts, policies, groups and named
//! secrets.
//!
//! The files of `etc/` become rules here, all of them or none. They come into force through
//! `Gate::exchange`, after the ledger has them. Nothing here decides or runs a call, and no model
//! is asked.
//!
//! Before a `policy.load` is appended, everything that made the bundle's digest is written to
//! `data/bundles/`, durably, so that each decision can be repeated under its own rules.
//!
//! # Layout
//!
//! * `error`: why rules were not loaded.
//! * `load`: tools (`tools.d/`) and policies (`*.cedar`, `links.toml`, `entities.toml`, `tests/`).
//! * `secrets`: the secrets that are searched for in everything that comes in.
//! * `bundles`: bundles stored by digest.
//! * `reload`: putting rules in force.
//! * `replay/`: repeating decisions from their records.

mod error;
mod load;
mod secrets;
mod bundles;
mod reload;
mod replay;

pub use bundles::keep_bundle;
pub use error::{FileError, RulesError};
pub use load::{
    case_reasons, failing_cases, folders, load_or_close, load_rules, load_rules_of, load_unproven, places,
    policy_sources,
};
pub use reload::{ReloadError, Reloader, check_launcher, load_drafts};
pub use replay::{Difference, Example, Flips, Replay, Replayed};
pub use secrets::load_secrets;
