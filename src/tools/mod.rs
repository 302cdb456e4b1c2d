//! Manifests, the catalog, JSON Schema, and the builtin tools as plain functions.
//!
//! Architecture invariant: only this room makes a [`ValidCall`].
//!
//! # Layout
//!
//! * `manifest/`: one tool, as its file declares it.
//! * `builtin/`: the builtin tools.
//! * `journal`: what `journalctl` prints, as a result.
//! * `numbers`: which numbers arguments may contain.
//! * `catalog`: all tools, and the check of a proposed call.
//!
//! A call that was not validated cannot be made:
//! ```compile_fail,E0451
//! fn forge(call: par::tools::ValidCall) -> par::tools::ValidCall {
//!     par::tools::ValidCall { ..call }
//! }
//! ```

mod manifest;
pub mod builtin;
mod journal;
mod numbers;
mod catalog;
#[cfg(test)]
mod tests;

pub use catalog::{
    Catalog, CatalogError, Invalid, ProposedCall, UnknownTool, ValidCall, check_id, is_unit_name,
};
pub use journal::{JournalFiles, is_only_about_damage, journal_result};
pub use manifest::check::program_path;
pub use manifest::code::CodeFile;
pub use manifest::content::ContentFolder;
pub use manifest::error::{ManifestError, ManifestFaults};
pub use manifest::groups::{HostGroup, host_groups, refused_group};
pub use manifest::host_form::HostForm;
pub use manifest::hosts::Reach;
pub use manifest::output_schema::OutputSchema;
pub use manifest::paths::Places;
pub use manifest::reserved::POWERS;
pub use manifest::script::Script;
pub use manifest::secrets::secret_variable;
pub use manifest::sockets::Connect;
pub use manifest::tool::Manifest;
pub use manifest::tree::CodeTree;
pub use manifest::words::{
    Builtin, Class, Element, FrontTool, IdKind, Limits, Modes, Output, ProcView, Program, ResourceSpec, Risk,
    Runner, Runtime, Stdin, WriteRoot,
};
