//! The decision point: a bundle of Cedar policies, the schema that the catalog leads to, and `decide`.
//!
//! Architecture invariant: pure. No clock, no disk, no async: the same request under the same bundle
//! always gives the same answer, today and in a replay.
//!
//! # Layout
//!
//! `power`, `uses`: the powers of the API, and a use of one · `request/`: what is asked, and the Cedar request that it
//! becomes · `load/`: from files to a bundle · `decide/`: decisions under it · `canary`: the last check of a load ·
//! `testing/`: a bundle's own tests · `tell/`: policies for people.

mod power;
mod uses;
mod request;
mod load;
mod decide;
mod canary;
mod testing;
mod tell;

pub use decide::decision::Evaluation;
pub use decide::explain::{Considered, nearest};
pub use decide::parts::FailingPart;
pub use decide::replay::{Again, Recorded, RecordedError};
pub use decide::ruling::{Obligation, Ruling};
pub use decide::shadow::Shadow;
pub use load::archive::RebuildError;
pub use load::bundle::Bundle;
pub use load::error::{PolicyError, SourceFile};
pub use load::suite::case::CasePlace;
pub use load::suite::file::Suite;
pub use power::{HeldOver, Power};
pub use request::groups::Groups;
pub use request::labels::{Labelled, Labels};
pub use request::question::{Approved, Counts, Question, Resource, Session, TaintSource, UNTRUSTED};
pub use tell::diff::{Flip, Side, SideRuling, flips};
pub use tell::fmt::laid_out;
pub use testing::case_diff::CaseChanges;
pub use testing::folders::{Folders, NamedFolder};
pub use testing::mutants::{Change, MutationScore, Survivor};
pub use testing::outcome::CaseFailure;
pub use uses::{Door, Over, Ran, Use, Via};

#[cfg(test)]
mod tests;
