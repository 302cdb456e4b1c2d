//! The decision point: a bundle of Cedar policies, the schema that the catalog leads to, and `decide`.
//!
//! Architecture invariant: pure. No clock, no disk, no async: the same request under the same bundle
//! always gives the same answer, today and in a replay.

mod power;
mod uses;
mod request;
mod load;
mod decide;
mod testing;
mod tell;

pub use decide::decision::{Answer, Considered, Gate, Verdict, nearest};
pub use decide::explain::Part;
pub use decide::replay::{Again, Recorded};
pub use decide::shadow::Shadow;
pub use load::bundle::Bundle;
pub use load::error::{PolicyError, Source};
pub use load::labels::{Given, Labels};
pub use load::suite::{Place, Suite};
pub use power::Power;
pub use request::groups::Groups;
pub use request::question::{Approved, Counts, Question, Resource, Session, TaintSource, UNTRUSTED};
pub use tell::diff::{Flip, Said, Side, flips};
pub use tell::fmt::laid_out;
pub use testing::case_diff::CaseChanges;
pub use testing::mutants::{Change, Score, Survivor};
pub use testing::runner::{Failure, Folder, Folders};
pub use uses::{Door, Over, Ran, Use, Via};

#[cfg(test)]
mod tests;
