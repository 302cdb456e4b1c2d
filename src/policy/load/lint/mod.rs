//! What Cedar takes and PAR refuses, each finding with its place and its remedy.
//!
//! # Layout
//!
//! `finding`: what a lint says · `words`: texts in conditions · `powers`: lints of rules on powers · `rules`: all lints
//! of a rule.

pub(in crate::policy) mod finding;
pub(in crate::policy) mod words;
mod powers;
pub(in crate::policy) mod rules;
