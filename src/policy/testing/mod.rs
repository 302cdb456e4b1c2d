//! A bundle's own tests: run, compared, and tried by changes of the policies.

pub(super) mod runner;
pub(super) mod power_case;
pub(super) mod case_diff;
pub(super) mod mutants;
