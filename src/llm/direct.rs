//! One call made by a person, processed like a model's: `par tool call`.

use super::conversation::Message;
use super::error::ModelError;
use super::proposer::Proposer;
use super::provider::{BoxFuture, ModelRequest, Provider};
use super::reply::{ModelReply, Stop};
use crate::tools::ProposedCall;

/// Proposes its one call, then ends.
#[derive(Clone, Debug)]
pub struct Direct {
    call: ProposedCall,
}

impl Direct {
    /// Proposes `tool` with `arguments`, JSON text that is checked like a model's.
    #[must_use]
    pub fn new(tool: String, arguments: String) -> Self {
        Self { call: ProposedCall { id: "call_1".to_owned(), tool, arguments } }
    }
}

impl Provider for Direct {
    fn proposer(&self) -> Proposer {
        Proposer::Person
    }

    fn model(&self) -> &'static str {
        "none"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let is_first = matches!(request.conversation.messages().last(), Some(Message::User(_)));
        let calls = if is_first { vec![self.call.clone()] } else { Vec::new() };
        let stop = if is_first { Stop::ToolCalls } else { Stop::EndTurn };
        let reply = ModelReply { model: "none".to_owned(), ..ModelReply::new(None, calls, stop) };
        Box::pin(std::future::ready(Ok(reply)))
    }
}
