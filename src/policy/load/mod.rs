//! From policy files to a [`Bundle`](bundle::Bundle).

pub(super) mod error;
pub(super) mod parse;
pub(super) mod links;
pub(super) mod labels;
pub(super) mod lint;
pub(super) mod lint_powers;
pub(super) mod validate;
pub(super) mod schema;
pub(super) mod slice;
pub(super) mod suite;
pub(super) mod archive;
pub(super) mod bundle;
