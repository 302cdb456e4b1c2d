//! One tool, as its file in `tools.d/` declares it.
//!
//! Parsing has two stages: `RawManifest` is the file, [`Manifest`](tool::Manifest) is its checked
//! form. The file, its script and the paths that it grants are read; nothing is run and nothing is
//! changed.
//!
//! # Layout
//!
//! * `error`: why a file was refused.
//! * `host_form`, `script`, `words`: the values of its members.
//! * `paths`, `content`, `hosts`, `sockets`, `secrets`: what it grants.
//! * `output_schema`: what a trusted result looks like.
//! * `reserved`: names that no tool may have.
//! * `check`, `raw`: the file.
//! * `tool`: the tool.
//! * `source`: where the file declares an argument.

pub(super) mod error;
pub(super) mod host_form;
pub(super) mod script;
pub(super) mod words;
pub(super) mod paths;
pub(super) mod content;
pub(super) mod hosts;
pub(super) mod sockets;
pub(super) mod secrets;
pub(super) mod reserved;
pub(super) mod output_schema;
mod check;
mod raw;
pub(super) mod tool;
mod source;
