//! One tool, as its file in `tools.d/` declares it.
//!
//! Parsing has two stages: `RawManifest` is the file, [`Manifest`](tool::Manifest) is its checked
//! form. Every fault of a file is reported, not only the first. The file, its script and the paths
//! that it grants are read; nothing is run and nothing is changed.
//!
//! # Layout
//!
//! * `error`: why a file was refused. `fields`: reads a table, member by member.
//! * `host_form`, `script`, `words`: the values of its members. `code`: the programs that it
//!   executes; `tree`: its folders of code. `argv`: their command line.
//! * `paths`, `content`, `hosts`, `sockets`, `secrets`, `groups`: what it grants.
//! * `sensitive`: the arguments whose origin counts.
//! * `output_schema`: what a trusted result looks like.
//! * `reserved`: names that no tool may have.
//! * `check`, `raw`, `front`, `members`, `read`: the file.
//! * `tool`: the tool.
//! * `source`: where the file declares an argument.

pub(super) mod error;
mod fields;
pub(super) mod host_form;
pub(super) mod script;
pub(super) mod tree;
pub(super) mod code;
pub(super) mod words;
mod argv;
pub(super) mod paths;
pub(super) mod content;
pub(super) mod hosts;
pub(super) mod sockets;
pub(super) mod secrets;
pub(super) mod sensitive;
pub(super) mod groups;
pub(super) mod reserved;
pub(super) mod output_schema;
pub(super) mod check;
mod raw;
mod front;
mod members;
mod read;
pub(super) mod tool;
mod source;
#[cfg(test)]
mod tests;
