//! What a tool of the front found.

use crate::call::Connection;
use crate::tools::builtin::Answer;
use crate::types::DataLabels;

/// What a tool found.
#[derive(Debug)]
pub(super) struct FrontAnswer {
    pub(super) answer: Answer,
    /// The labels of recorded entries that it repeats.
    pub(super) repeats: DataLabels,
    pub(super) connections: Vec<Connection>,
    /// Why nothing was asked, if a protection refused.
    pub(super) refused: Option<String>,
}

impl From<Answer> for FrontAnswer {
    fn from(answer: Answer) -> Self {
        Self { answer, repeats: DataLabels::default(), connections: Vec::new(), refused: None }
    }
}
