//! Entries: their kinds, headers and payloads, and the bytes of each. `docs/ledger-format.md`
//! specifies the format.
//!
//! This wing makes and reads bytes. It touches no disk and no clock, and only [`seal`] gives an
//! entry its position in the log.
//!
//! # Layout
//!
//! `kind` names what an entry records · `draft` is an entry before it has a position, with its
//! payload and the commitment to it · `header` is an entry's header · `plain` is the fast reader
//! for its plain form, `parse` the only way from bytes to a header · `seal` writes a header.

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
