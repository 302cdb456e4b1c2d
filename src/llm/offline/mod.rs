//! The embedded default: no model and no network.
//!
//! A message that is written as calls is proposed as those calls; a few plain requests have fixed
//! steps; results are answered from. Everything else is told what would be understood.

mod calls;
mod tell;
pub(super) mod provider;
