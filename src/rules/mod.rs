//! What loads, keeps, exchanges and replays the rules: tools, scripts, policies, groups and named secrets.
//!
//! Here the files of `etc/` become rules, all of them or none, and come into force by `Gate::exchange`, after
//! the ledger has them. Nothing here decides a call or runs one, and no model is asked.
//!
//! # Layout
//!
//! `error`: why rules were not loaded · `load`: tools and policies of a home · `secrets`: what is looked for
//! in what comes in · `bundles`: bundles kept by their digest · `reload`: rules put in force · `replay/`:
//! decisions made again from their record.

mod error;
mod load;
mod secrets;
mod bundles;
mod reload;
mod replay;

pub use bundles::keep_bundle;
pub use error::{FileError, RulesError};
pub use load::{folders, load_or_close, load_rules, load_rules_of, load_unproven, places, policy_sources};
pub use reload::{ReloadError, Reloader, check_launcher, load_drafts};
pub use replay::{Difference, Example, Flips, Replay, Replayed};
pub use secrets::load_secrets;
