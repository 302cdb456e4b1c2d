//! Entries: their kinds, headers and payloads, and the bytes of each. The format is written down in
//! `docs/ledger-format.md`.
//!
//! What may happen here: bytes are made and read. What cannot: nothing in this wing touches a disk or a
//! clock, and no entry gets its place in the log except by [`seal`].
//!
//! # Layout
//!
//! `kind` names what is recorded · `draft` is an entry to be, with its payload and the commitment to it ·
//! `header` is an entry's header, `plain` the fast reader of its plain form, `parse` the one way from bytes
//! to it · `seal` writes it.

mod kind;
mod draft;
mod header;
mod plain;
mod parse;
mod seal;

pub use draft::{Body, Draft, DraftError, Payload, Ref};
pub(super) use draft::{Written, commitment};
pub use header::{Header, HeaderError};
pub use kind::Kind;
pub(super) use plain::PlainHeader;
pub(super) use seal::{SealedEntry, Stamp, seal};
