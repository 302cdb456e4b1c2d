//! Policies that Cedar accepts and PAR refuses, each finding with its place and its fix.
//!
//! # Layout
//!
//! * `finding`: a finding of a lint.
//! * `words`: the string literals in conditions.
//! * `powers`, `asks`, `origins`, `annotations`: lints of rules on powers, of rules on requests to
//!   models, of tests of where arguments come from, and of annotations.
//! * `rules`: all lints of the form of a rule.
//! * `world`: what the terms of a condition can be; `facts`: what is known of them.
//! * `never`: rules that never apply, and comparisons with one outcome.

pub(in crate::policy) mod finding;
pub(in crate::policy) mod words;
mod powers;
mod asks;
mod origins;
mod annotations;
pub(in crate::policy) mod rules;
mod world;
mod facts;
pub(in crate::policy) mod never;
