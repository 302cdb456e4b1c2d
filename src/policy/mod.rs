//! The decision point: a bundle of Cedar policies, the schema that the catalog leads to, and `decide`.
//!
//! Architecture invariant: pure. No clock, no disk, no async: the same request under the same bundle
//! always gives the same answer, today and in a replay.

mod bundle;
mod cases;
mod cedar;
mod clause;
mod complete;
mod decide;
mod fault;
mod flips;
mod groups;
mod kept;
mod labels;
mod layout;
mod links;
mod lint;
mod lint_power;
mod lower;
mod mutant;
mod offer;
mod parse;
mod power;
mod prove;
mod question;
mod replay;
mod request;
mod schema;
mod shadow;
mod slice;
mod suite;
mod use_case;
mod uses;
mod validate;

pub use bundle::Bundle;
pub use cases::CaseChanges;
pub use clause::Part;
pub use decide::{Answer, Considered, Gate, Verdict, nearest};
pub use fault::{PolicyError, Source};
pub use flips::{Flip, Said, Side, flips};
pub use groups::Groups;
pub use labels::{Given, Labels};
pub use layout::laid_out;
pub use mutant::{Change, Score, Survivor};
pub use power::Power;
pub use prove::{Failure, Folder, Folders};
pub use question::{Approved, Counts, Question, Resource, Session, TaintSource, UNTRUSTED};
pub use replay::{Again, Recorded};
pub use shadow::Shadow;
pub use suite::{Place, Suite};
pub use uses::{Door, Over, Ran, Use, Via};

#[cfg(test)]
mod tests;
