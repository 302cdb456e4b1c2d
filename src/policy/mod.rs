//! The decision point: a bundle of Cedar policies, the schema derived from the catalog, and
//! `decide`.
//!
//! Architecture invariant: this room is pure. It uses no clock, no disk and no async code, so the
//! same request under the same bundle always gets the same answer, now and in a replay.
//!
//! An error is a deny, and a load is all or nothing: whatever fails in parsing, validation, lints,
//! canaries or the bundle's own tests refuses the whole bundle.
//!
//! A call becomes one request (`request/build`), is checked against its question for completeness
//! (`request/completeness`), and is evaluated against the policies whose scope can match
//! (`load/slice`). The same values are evaluated and recorded.
//!
//! # Layout
//!
//! * `power`, `uses`: the powers of the API, and one use of a power.
//! * `ask`: the action of requests to language models.
//! * `request/`: what is asked, and the Cedar request built from it.
//! * `load/`: from files to a bundle.
//! * `decide/`: decisions under a bundle.
//! * `canary`: the last check of a load.
//! * `testing/`: the bundle's own tests.
//! * `tell/`: formatting policies and comparing bundles.

mod power;
mod uses;
mod ask;
mod request;
mod load;
mod decide;
mod canary;
mod testing;
mod tell;

pub use ask::ACTION as MODEL_ASK;
pub use decide::decision::Evaluation;
pub use decide::explain::{Considered, nearest};
pub use decide::nearest::NearestPermit;
pub use decide::parts::FailingPart;
pub use decide::replay::{RecordedError, RecordedRequest, RepeatedDecision};
pub use decide::ruling::{Obligation, Ruling};
pub use decide::shadow::Shadow;
pub use load::archive::RebuildError;
pub use load::bundle::Bundle;
pub use load::error::{PolicyError, SourceFile};
pub use load::named::NamedEntity;
pub use load::suite::case::CasePlace;
pub use load::suite::file::Suite;
pub use power::{HeldOver, Power};
pub use request::groups::Groups;
pub use request::labels::{GivenLabel, Labels};
pub use request::question::{
    Approved, AskQuestion, Counts, Question, Resource, Session, TaintSource, UNTRUSTED,
};
pub use tell::diff::{Flip, Side, SideRuling, flips};
pub use tell::fmt::formatted;
pub use testing::case_diff::CaseChanges;
pub use testing::folders::{Folders, NamedFolder};
pub use testing::mutants::{Change, MutationScore, Survivor};
pub use testing::outcome::CaseFailure;
pub use uses::{Door, Over, Ran, Use, Via};

#[cfg(test)]
mod tests;
