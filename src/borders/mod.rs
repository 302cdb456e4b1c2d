//! Laws of the parsers that read hostile bytes: one function for each border, for `cargo fuzz` and
//! for the driver on stable.
//!
//! Each function takes any bytes, gives them to one parser, and panics when a law of that parser
//! does not hold. Refused input is fine. `docs/fuzzing.md` lists the laws and explains how to run
//! the targets. Only tests and fuzzers compile this folder.
//!
//! A law that needs what a room keeps private stands in that room, in a file `borders.rs`, so that
//! nothing becomes visible for its sake.
//!
//! # Layout
//!
//! `values`: JSON, hosts, URLs, secrets · `calls`: tools and their calls · `launcher`: its
//! messages and its journal · `rules`: policies and their tables · `driver`, `words`, `tests`: the
//! driver on stable.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a law that does not hold ends the target"
)]

mod values;
mod calls;
mod launcher;
mod rules;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod words;
#[cfg(test)]
mod tests;

pub use crate::egress::proxy::borders::connect_head;
pub use crate::http::borders::run_request;
pub use crate::ledger::borders::{entry_header, export, note, proof_file, query, witness};
pub use crate::llm::borders::{provider_anthropic, provider_openai, provider_stream};
pub use calls::{bus_reply, certificate, http_answer, journal_lines, manifest, tool_call};
pub use launcher::{journal, launcher_wire};
pub use rules::{policy, policy_tables};
pub use values::{host, json, secrets, url};

/// The law of every refusal: it gives a reason, and repeats no character of the input that could
/// move a cursor, or hide or reorder text.
pub(crate) fn refuses_visibly(why: &str) {
    assert!(!why.trim().is_empty(), "a refusal without a reason");
    assert_eq!(crate::types::text::visible(why), why, "a refusal repeats a control character");
}
