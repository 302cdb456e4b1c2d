//! The schema that a request holds the answer to.
//!
//! A schema comes from outside: it is read within bounds before anything of it is compiled, so that
//! holding an answer to it takes a bounded time. An answer is hostile: what PAR writes about it
//! names places and keywords and repeats nothing of it.
//!
//! # Layout
//!
//! * `bounds`: which schemas are accepted
//! * `schema`: an accepted schema, and the check of an answer

mod bounds;
mod schema;
#[cfg(test)]
mod tests;

pub use bounds::SchemaFault;
pub(super) use schema::{AnswerSchema, FORM_WORDS, repair};
