//! Policies that Cedar accepts and PAR refuses, each finding with its place and its fix.
//!
//! # Layout
//!
//! * `finding`: a finding of a lint.
//! * `words`: the string literals in conditions.
//! * `powers`, `asks`, `origins`, `annotations`: lints of rules on powers, of rules on requests to
//!   models, of tests of where arguments come from, and of annotations.
//! * `rules`: all lints of a rule.

pub(in crate::policy) mod finding;
pub(in crate::policy) mod words;
mod powers;
mod asks;
mod origins;
mod annotations;
pub(in crate::policy) mod rules;
