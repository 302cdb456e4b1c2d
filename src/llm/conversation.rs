//! The conversation with a model.

use super::reply::{ModelReply, ReplyPart, ReplyPiece, Stop, arranged, pieces};
use crate::gate::ToolResult;
use crate::runbooks::GivenRunbook;
use crate::secrets::Clean;
use crate::tools::ProposedCall;
use crate::types::{DataLabels, Labelled};

/// The system prompt and the messages after it, in order. Messages are only appended.
///
/// The caller pushes only what is durable on the ledger. Only text that was searched for secrets
/// and that carries the labels of its sources can be pushed; the conversation has the labels of all
/// of it. Text without labels does not compile:
/// ```compile_fail,E0308
/// fn unlabelled(chat: &mut par::llm::Conversation, text: par::secrets::Clean<String>) {
///     chat.push_user(text);
/// }
/// ```
#[derive(Debug)]
pub struct Conversation {
    system: String,
    runbook: Option<GivenRunbook>,
    messages: Vec<Message>,
    /// The results that are in it, with their places in the messages.
    results: Vec<(usize, KeptResult)>,
    bytes: usize,
    labels: DataLabels,
}

/// What the model reads of a call that did not run before its run ended.
const NOT_RUN: &str = r#"{"error":"the run ended before this call ran","status":"not_run"}"#;

/// A result of a call, as it is on the ledger.
#[derive(Debug)]
struct KeptResult {
    entry: u64,
    /// What the model reads if the output is left out.
    short: String,
}

/// A result whose output may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldResult {
    /// Its entry on the ledger.
    pub entry: u64,
    /// How many bytes that saves.
    pub saved: usize,
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
    pub fn new(system: Labelled<String>) -> Self {
        let (system, labels) = system.into_parts();
        Self { bytes: system.len(), system, runbook: None, messages: Vec::new(), results: Vec::new(), labels }
    }

    /// Gives the model a runbook: the operator's text, after the system prompt.
    pub fn give(&mut self, runbook: Labelled<Clean<GivenRunbook>>) {
        let (runbook, labels) = runbook.into_parts();
        let runbook = runbook.into_inner();
        let text = format!("\n\n{}\n\n{}", runbook.words, runbook.text);
        self.labels.add(&labels);
        self.bytes = self.bytes.saturating_add(text.len());
        self.system.push_str(&text);
        self.runbook = Some(runbook);
    }

    /// The same messages after another system prompt, for the next run of a session. A runbook
    /// that was given before is gone with the prompt that it followed; the labels stay.
    #[must_use]
    pub fn with_system(self, system: Labelled<String>) -> Self {
        let (system, labels) = system.into_parts();
        let bytes = self.bytes.saturating_sub(self.system.len()).saturating_add(system.len());
        let mut all = self.labels;
        all.add(&labels);
        Self { system, runbook: None, bytes, labels: all, ..self }
    }

    /// The runbook that it was given.
    #[must_use]
    pub fn runbook(&self) -> Option<&GivenRunbook> {
        self.runbook.as_ref()
    }

    /// The labels of everything in it.
    #[must_use]
    pub fn labels(&self) -> &DataLabels {
        &self.labels
    }

    /// The system prompt, and after it the runbook.
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
    pub fn push_user(&mut self, text: Labelled<Clean<String>>) {
        let (text, labels) = text.into_parts();
        self.push(Message::User(text.into_inner()), &labels);
    }

    /// Appends the model's reply; for a refusal without text, its reason.
    pub fn push_reply(&mut self, reply: &Labelled<Clean<ModelReply>>) {
        self.push(Self::reply(reply), reply.labels());
    }

    /// The length of the conversation after `reply` and results of this length, in bytes.
    #[must_use]
    pub fn bytes_after(&self, reply: &Labelled<Clean<ModelReply>>, results: usize) -> usize {
        self.bytes.saturating_add(Self::reply(reply).bytes()).saturating_add(results)
    }

    fn reply(reply: &ModelReply) -> Message {
        let refusal = match &reply.stop {
            Stop::Refusal(why) => Some(why),
            _ => None,
        };
        let text = reply.text.as_ref().or(refusal).cloned();
        let parts = arranged(text.as_ref().map_or(0, String::len), reply.calls.len(), reply.parts.clone());
        Message::Reply { text, calls: reply.calls.clone(), parts }
    }

    /// Appends results of the last reply's calls. Only results on the ledger can be appended: only
    /// a commit of the gate makes a [`ToolResult`].
    pub fn push_results(&mut self, results: Vec<ToolResult>) {
        for result in results {
            let record = result.record();
            let (call_id, tool) = (record.proposed_id.clone(), record.tool.clone());
            let kept = KeptResult { entry: result.seq(), short: result.without_output() };
            self.results.push((self.messages.len(), kept));
            self.push(Message::Tool { call_id, tool, text: result.text() }, &record.labels);
        }
    }

    /// Appends, in the place of a result, that a call of the last reply did not run before its run
    /// ended. Without it the model would be shown a call without an outcome.
    pub fn push_not_run(&mut self, call: &ProposedCall) {
        let (call_id, tool) = (call.id.clone(), call.tool.clone());
        self.push(Message::Tool { call_id, tool, text: NOT_RUN.to_owned() }, &DataLabels::default());
    }

    /// The results whose outputs may be left out, oldest first: those that the model has answered,
    /// and that are longer with their output.
    #[must_use]
    pub fn old_results(&self) -> Vec<OldResult> {
        let last = self.messages.iter().rposition(|message| matches!(message, Message::Reply { .. }));
        let is_old = |at: &usize| last.is_some_and(|last| *at < last);
        let old = self.results.iter().filter(|(at, _)| is_old(at)).filter_map(|(at, kept)| {
            let Some(Message::Tool { text, .. }) = self.messages.get(*at) else { return None };
            let saved = text.len().checked_sub(kept.short.len()).filter(|saved| *saved > 0)?;
            Some(OldResult { entry: kept.entry, saved })
        });
        old.collect()
    }

    /// Leaves out the outputs of these entries. The calls and a line for each result stay, and so
    /// do the labels: what the model wrote since may come from what it read.
    pub fn leave_out(&mut self, entries: &[u64]) {
        for (at, kept) in self.results.iter().filter(|(_, kept)| entries.contains(&kept.entry)) {
            if let Some(Message::Tool { text, .. }) = self.messages.get_mut(*at) {
                self.bytes = self.bytes.saturating_sub(text.len()).saturating_add(kept.short.len());
                text.clone_from(&kept.short);
            }
        }
    }

    /// Appends a result that is on no ledger.
    #[cfg(test)]
    pub(super) fn push_tool_text(&mut self, call_id: &str, tool: &str, text: String) {
        let (call_id, tool) = (call_id.to_owned(), tool.to_owned());
        self.push(Message::Tool { call_id, tool, text }, &DataLabels::untrusted());
    }

    fn push(&mut self, message: Message, labels: &DataLabels) {
        self.labels.add(labels);
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
    use super::Message;
    use crate::llm::tests::scripted::{chat, unnamed};
    use crate::llm::{ModelReply, Stop};
    use crate::tools::ProposedCall;
    use crate::types::{DataLabels, Labelled};

    fn reply(text: Option<&str>, stop: Stop) -> ModelReply {
        let call = ProposedCall { id: "1".into(), tool: "ab".into(), arguments: "{} ".into() };
        ModelReply::new(text.map(str::to_owned), vec![call], stop)
    }

    #[test]
    fn bytes_count_all_that_is_sent() {
        let mut conversation = chat("1234");
        assert_eq!(conversation.bytes(), 4);
        conversation.push_user(unnamed("é".to_owned()));
        assert_eq!(conversation.bytes(), 6);
        conversation.push_reply(&unnamed(reply(Some("ok"), Stop::ToolCalls)));
        assert_eq!(conversation.bytes(), 14);
        conversation.push_tool_text("1", "ab", "{}".to_owned());
        assert_eq!(conversation.bytes(), 19);
        assert_eq!(conversation.messages().len(), 3);
    }

    /// What a conversation is made of gives it its labels, and nothing takes one away (L1).
    #[test]
    fn a_conversation_has_the_labels_of_everything_in_it() {
        let class = |word: &str| DataLabels { seen: [word.to_owned()].into(), ..DataLabels::default() };
        let mut conversation = chat("1234");
        assert_eq!(*conversation.labels(), DataLabels::default());
        let (text, _) = unnamed("hello".to_owned()).into_parts();
        conversation.push_user(Labelled::new(text, class("asked")));
        conversation.push_tool_text("1", "ab", "{}".to_owned());
        let mut expect = DataLabels::untrusted();
        expect.add(&class("asked"));
        assert_eq!(*conversation.labels(), expect);
        let (answer, _) = unnamed(reply(Some("ok"), Stop::EndTurn)).into_parts();
        conversation.push_reply(&Labelled::new(answer, class("said")));
        conversation.push_user(unnamed("thanks".to_owned()));
        expect.add(&class("said"));
        assert_eq!(*conversation.labels(), expect);
    }

    #[test]
    fn a_refusal_is_remembered_by_its_reason() {
        let mut conversation = chat("");
        conversation.push_reply(&unnamed(reply(None, Stop::Refusal("no".to_owned()))));
        assert!(matches!(conversation.messages(), [Message::Reply { text: Some(text), .. }] if text == "no"));
    }
}
