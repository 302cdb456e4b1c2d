//! Runbooks: what an operator wrote down for a situation, as Markdown with steps.
//!
//! A runbook is chosen only if a phrase that its file lists is exactly what a person typed, apart
//! from case and white space, or `alert` and an alert that it lists. It is never chosen by search
//! or by what a tool or a model said. Its text is the operator's: a model gets it with the system
//! prompt. Its steps are proposed calls like any others, so a runbook permits nothing.
//!
//! Nothing here reads a disk: files come as text.
//!
//! # Layout
//!
//! * `calls`: calls as a person writes them.
//! * `fault`: why a runbook is refused, with file and line.
//! * `source`: files, and what steps may name.
//! * `front`: the lines between `+++` at the start of a file.
//! * `step`: a line with a call.
//! * `book`: one runbook, and what a run gets of it.
//! * `shelf`: all runbooks, and the table of their phrases.

mod calls;
mod fault;
mod source;
mod front;
mod step;
mod book;
mod shelf;
#[cfg(test)]
mod tests;

pub use book::{GivenRunbook, Runbook};
pub use calls::{ArgumentNames, WrittenCall, written_calls};
pub use fault::RunbookFault;
pub use shelf::Runbooks;
pub use source::{RunbookFile, RunbookTools};
pub use step::RunbookStep;
