//! The bundle's own tests, as an operator writes them: `policies/tests/*.toml`.
//!
//! A case says who asks for what, and what the answer must be. A case sees nothing of `par.toml` but the folders of
//! `[paths]`: who is in a group is said beside it, so that a suite says the same on every host. Nothing is run here.
//!
//! # Layout
//!
//! `case`: what is expected · `words`: what words of any case mean · `calls`, `powers`: cases as they are written ·
//! `file`: a suite of files.

pub(in crate::policy) mod case;
mod words;
mod calls;
mod powers;
pub(in crate::policy) mod file;
