//! A bundle's own tests: run, compared, and tried by changes of the policies.
//!
//! What a test is stands in `load/suite/`, since a bundle is loaded with its tests. Here they are put to a bundle.
//!
//! # Layout
//!
//! `folders`: objects by the names of `[paths]` · `outcome`: expected against got · `ready`: a case with its catalog ·
//! `power_case`, `runner`: running them · `case_diff`: what a change of the tests changes · `mutants`: what the tests
//! would notice.

pub(super) mod folders;
pub(super) mod outcome;
pub(super) mod ready;
pub(super) mod power_case;
pub(super) mod runner;
pub(super) mod case_diff;
pub(super) mod mutants;
