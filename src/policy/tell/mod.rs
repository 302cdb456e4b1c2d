//! Policies for people: laid out, and compared.

pub(super) mod fmt;
pub(super) mod diff;
