//! The conversation with a model.

use super::reply::{ModelReply, ReplyPart, ReplyPiece, Stop, arranged, pieces};
use crate::gate::ToolResult;
use crate::secrets::Clean;
use crate::tools::ProposedCall;

/// The system prompt and the messages after it, in order. Messages are only appended.
///
/// The caller pushes only what is durable on the ledger, and only text that was searched for
/// secrets can be pushed.
#[derive(Debug)]
pub struct Conversation {
    system: String,
    messages: Vec<Message>,
    bytes: usize,
}

/// One message.
#[derive(Debug)]
pub enum Message {
    /// From the person.
    User(String),
    /// From the model.
    Reply {
        /// Its text.
        text: Option<String>,
        /// Its calls, unchanged.
        calls: Vec<ProposedCall>,
        /// The order of both, with the provider's own state.
        parts: Vec<ReplyPart>,
    },
    /// The result of a call.
    Tool {
        /// The identifier of the call, as in the reply.
        call_id: String,
        /// The tool's name, as in the reply.
        tool: String,
        /// The result: JSON text, marked untrusted by the code that made it.
        text: String,
    },
}

impl Conversation {
    /// Starts with `system`, which may be empty.
    #[must_use]
    pub fn new(system: String) -> Self {
        Self { bytes: system.len(), system, messages: Vec::new() }
    }

    /// The system prompt.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The messages, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The length of all texts, names and arguments, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the person's message.
    pub fn push_user(&mut self, text: Clean<String>) {
        self.push(Message::User(text.into_inner()));
    }

    /// Appends the model's reply; for a refusal without text, its reason.
    pub fn push_reply(&mut self, reply: &Clean<ModelReply>) {
        let refusal = match &reply.stop {
            Stop::Refusal(why) => Some(why),
            _ => None,
        };
        let text = reply.text.as_ref().or(refusal).cloned();
        let parts = arranged(text.as_ref().map_or(0, String::len), reply.calls.len(), reply.parts.clone());
        self.push(Message::Reply { text, calls: reply.calls.clone(), parts });
    }

    /// Appends results of the last reply's calls. Only results on the ledger can be appended: only
    /// a commit of the gate makes a [`ToolResult`].
    pub fn push_results(&mut self, results: Vec<ToolResult>) {
        for result in results {
            let record = result.record();
            self.push_tool_text(&record.proposed_id, &record.tool, result.text());
        }
    }

    pub(super) fn push_tool_text(&mut self, call_id: &str, tool: &str, text: String) {
        self.push(Message::Tool { call_id: call_id.to_owned(), tool: tool.to_owned(), text });
    }

    fn push(&mut self, message: Message) {
        self.bytes = self.bytes.saturating_add(message.bytes());
        self.messages.push(message);
    }
}

impl Message {
    /// The pieces of a reply, in the order in which the model wrote them.
    pub(super) fn pieces(&self) -> impl Iterator<Item = ReplyPiece<'_>> {
        let (text, calls, parts): (_, &[_], &[_]) = match self {
            Self::Reply { text, calls, parts } => (text.as_deref().unwrap_or_default(), calls, parts),
            Self::User(_) | Self::Tool { .. } => ("", &[], &[]),
        };
        pieces(text, calls, parts)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::User(text) => text.len(),
            Self::Reply { text, calls, parts } => {
                let calls = calls.iter().map(|call| call.id.len() + call.tool.len() + call.arguments.len());
                let states = parts.iter().map(ReplyPart::state_bytes);
                text.as_ref().map_or(0, String::len) + calls.chain(states).sum::<usize>()
            }
            Self::Tool { call_id, tool, text } => call_id.len() + tool.len() + text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Conversation, Message};
    use crate::llm::tests::scripted::unnamed;
    use crate::llm::{ModelReply, Stop};
    use crate::tools::ProposedCall;

    fn reply(text: Option<&str>, stop: Stop) -> ModelReply {
        let call = ProposedCall { id: "1".into(), tool: "ab".into(), arguments: "{} ".into() };
        ModelReply::new(text.map(str::to_owned), vec![call], stop)
    }

    #[test]
    fn bytes_count_all_that_is_sent() {
        let mut conversation = Conversation::new("1234".to_owned());
        assert_eq!(conversation.bytes(), 4);
        conversation.push_user(unnamed("é".to_owned()));
        assert_eq!(conversation.bytes(), 6);
        conversation.push_reply(&unnamed(reply(Some("ok"), Stop::ToolCalls)));
        assert_eq!(conversation.bytes(), 14);
        conversation.push_tool_text("1", "ab", "{}".to_owned());
        assert_eq!(conversation.bytes(), 19);
        assert_eq!(conversation.messages().len(), 3);
    }

    #[test]
    fn a_refusal_is_remembered_by_its_reason() {
        let mut conversation = Conversation::new(String::new());
        conversation.push_reply(&unnamed(reply(None, Stop::Refusal("no".to_owned()))));
        assert!(matches!(conversation.messages(), [Message::Reply { text: Some(text), .. }] if text == "no"));
    }
}
