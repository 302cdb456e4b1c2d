//! What a run does, as it happens, for a person who waits for it in the same process.

use super::api::Step;
use crate::types::RunId;
use std::sync::Arc;

/// One thing that a run did or begins to do.
#[derive(Clone, Debug, PartialEq)]
pub enum RunNews {
    /// Its request is on the ledger.
    Begun(RunId),
    /// It asks the model.
    Asking,
    /// It runs calls of these tools.
    Running(Vec<String>),
    /// The outcome of this call is on the ledger, or the call waits for a person.
    Step(Box<Step>),
}

/// Receives the news of a run. It must not block: the run waits for it.
pub type Watch = Arc<dyn Fn(RunNews) + Send + Sync>;
