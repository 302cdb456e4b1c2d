//! The bundle's own tests, as an operator writes them: `policies/tests/*.toml`.
//!
//! A case says which principal asks for what, and what the answer must be. A case sees only the
//! folders of `[paths]` from `par.toml`; the file itself says which user is in which group, so a
//! suite gives the same result on every host. Nothing runs here.
//!
//! # Layout
//!
//! * `case`: what is expected.
//! * `words`: values that all kinds of cases share.
//! * `calls`, `powers`, `asks`: cases as they are written.
//! * `unread`: every fault of a block that cannot be read.
//! * `file`: a suite of files.

pub(in crate::policy) mod case;
mod words;
mod calls;
mod powers;
mod asks;
mod unread;
pub(in crate::policy) mod file;
