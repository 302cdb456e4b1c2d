//! Manifests, the catalog, JSON Schema, and the builtin tools as plain functions.
//!
//! Architecture invariant: only this room makes a [`ValidCall`].
//!
//! A call that was not validated cannot pass for one:
//! ```compile_fail,E0451
//! fn forge(call: par::tools::ValidCall) -> par::tools::ValidCall {
//!     par::tools::ValidCall { ..call }
//! }
//! ```

pub mod builtin;
mod catalog;
mod connect;
mod content;
mod declared;
mod given;
mod manifest;
mod numbers;
mod places;
mod reach;
mod script;
mod taken;
#[cfg(test)]
mod tests;

pub use catalog::{Catalog, CatalogError, Invalid, ProposedCall, ValidCall, check_id};
pub use connect::Connect;
pub use content::ContentFolder;
pub use given::secret_word;
pub use manifest::{
    Builtin, Class, Element, IdKind, Limits, Manifest, ManifestError, Modes, Output, Places, ProcView,
    Program, Resource, Risk, Runner, Runtime, Stdin, WriteRoot,
};
pub use reach::{HostForm, Reach};
pub use script::Script;
pub use taken::POWERS;
