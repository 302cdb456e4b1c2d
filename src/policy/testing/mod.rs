//! The bundle's own tests: running them, comparing them, and measuring them with mutants of the
//! policies.
//!
//! Tests are parsed in `load/suite/`, because a bundle is loaded with its tests. Here they run
//! against a bundle.
//!
//! # Layout
//!
//! * `folders`: objects by the names of `[paths]`.
//! * `outcome`: expected against actual answers.
//! * `ready`: a case with its catalog.
//! * `power_case`, `ask_case`, `runner`: running cases.
//! * `case_diff`: cases that differ between two suites.
//! * `mutants`: which changes of the policies the tests notice.

pub(super) mod folders;
pub(super) mod outcome;
pub(super) mod ready;
pub(super) mod power_case;
pub(super) mod ask_case;
pub(super) mod runner;
pub(super) mod case_diff;
pub(super) mod mutants;
