//! One tool, as its file in `tools.d/` declares it.
//!
//! Reading is in two stages: `RawManifest` is the file, [`Manifest`](tool::Manifest) is what was checked. The file, the
//! script that it names and the paths that it grants are looked at; nothing is run and nothing is changed.
//!
//! # Layout
//!
//! `error`: why a file was refused · `host_form`, `script`, `words`: what its words stand for · `paths`, `content`,
//! `hosts`, `sockets`, `secrets`: what it grants · `reserved`: names that no tool may have · `check`, `raw`: the file ·
//! `tool`: the tool · `source`: where the file declares what.

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
mod check;
mod raw;
pub(super) mod tool;
mod source;
