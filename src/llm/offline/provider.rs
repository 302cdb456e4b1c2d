//! The provider without a model.

use super::absent;
use super::form::words;
use super::sentences::{NamedFolders, Understood, meant, near, understand};
use super::tell;
use crate::llm::conversation::Message;
use crate::llm::error::ModelError;
use crate::llm::proposer::{Proposer, ProviderKind};
use crate::llm::provider::{BoxFuture, ModelRequest, Provider, ToolOffer};
use crate::llm::reply::{ModelReply, Stop};
use crate::runbooks::{ArgumentNames, GivenRunbook, WrittenCall, written_calls};
use crate::tools::ProposedCall;
use crate::types::Digest;

/// Sentences that the reply to a message that is not understood shows.
const NEAR_MAX: usize = 3;

/// The provider without a model.
#[derive(Debug)]
pub(in crate::llm) struct Offline {
    folders: NamedFolders,
}

/// The offered tools, whose schemas say in which order arguments are required.
struct RequiredNames<'a>(&'a [ToolOffer]);

impl ArgumentNames for RequiredNames<'_> {
    /// For a tool that is not offered, the argument's number: the call is refused for its name.
    fn name(&self, tool: &str, at: usize) -> Option<String> {
        let Some(offer) = self.0.iter().find(|offer| offer.name == tool) else {
            return Some((at + 1).to_string());
        };
        Some(offer.input.get("required")?.get(at)?.as_str()?.to_owned())
    }
}

/// The next reply: a text, or calls.
enum OfflineReply {
    Say(String),
    Propose(Vec<WrittenCall>),
    /// The steps of a runbook, with words about it.
    Follow(String, Vec<WrittenCall>),
}

impl Offline {
    /// `folders` are those that a sentence may mean without naming their paths.
    pub(in crate::llm) fn new(folders: NamedFolders) -> Self {
        Self { folders }
    }

    fn reply(&self, request: &ModelRequest<'_>) -> ModelReply {
        let messages = request.conversation.messages();
        let runbook = request.conversation.runbook();
        let (asked, next) = match messages.last() {
            Some(Message::User(text)) if let Some(runbook) = runbook => {
                (text.as_str(), follow(runbook, request.tools))
            }
            Some(Message::User(text)) => (text.as_str(), self.to_message(text, request)),
            Some(Message::Tool { text, .. }) => (text.as_str(), self.to_results(messages, request)),
            Some(Message::Reply { .. }) | None => ("", OfflineReply::Say(tell::help(request.tools))),
        };
        // This provider has no protocol: the newest message serves as the request, the rendered
        // reply as the answer.
        let request_digest = Digest::sha256(asked.as_bytes());
        let model = self.model().to_owned();
        let (raw, reply) = match next {
            OfflineReply::Say(text) => (text.clone(), ModelReply::new(Some(text), Vec::new(), Stop::EndTurn)),
            OfflineReply::Propose(calls) => proposed(None, calls),
            OfflineReply::Follow(text, calls) => proposed(Some(text), calls),
        };
        ModelReply { request_digest, raw: raw.into_bytes(), model, ..reply }
    }

    /// An answer from the results, or first a listing of what is there, if a sentence names a file
    /// that is not.
    fn to_results(&self, messages: &[Message], request: &ModelRequest<'_>) -> OfflineReply {
        let asked = messages.iter().rev().find_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            Message::Reply { .. } | Message::Tool { .. } => None,
        });
        let since = absent::since_asked(messages);
        let is_first = since.iter().filter(|message| matches!(message, Message::Reply { .. })).count() == 1;
        let asked = asked.filter(|text| written_calls(text, &RequiredNames(request.tools)).is_none());
        let is_first = is_first && request.conversation.runbook().is_none();
        let meant = asked.filter(|_| is_first).map(|text| self.meant(text, request));
        if let Some(Some(Understood::Calls(calls))) = meant {
            let results: Vec<&str> = since.iter().filter_map(tell::result_text).collect();
            if let Some(project) = absent::not_live(&calls, &results) {
                return OfflineReply::Say(tell::nothing_live(&project));
            }
            if let Some(call) = absent::listing(&calls, &results, &self.folders, request.tools) {
                return OfflineReply::Propose(vec![call]);
            }
            let others = absent::without_journal(&calls, &results, request.tools);
            let instead =
                others.zip(asked).and_then(|(tools, text)| understand(&words(text), &self.folders, &tools));
            if let Some(Understood::Calls(calls)) = instead {
                return OfflineReply::Propose(calls);
            }
        }
        OfflineReply::Say(tell::results(messages, request.conversation.runbook()))
    }

    fn meant(&self, text: &str, request: &ModelRequest<'_>) -> Option<Understood> {
        understand(&words(text), &self.folders, request.tools)
    }

    fn to_message(&self, text: &str, request: &ModelRequest<'_>) -> OfflineReply {
        if let Some(calls) = written_calls(text, &RequiredNames(request.tools)) {
            return OfflineReply::Propose(calls);
        }
        let said = words(text);
        match understand(&said, &self.folders, request.tools) {
            Some(Understood::Calls(calls)) => OfflineReply::Propose(calls),
            Some(Understood::Answer(text)) => OfflineReply::Say(text),
            Some(Understood::Help) => OfflineReply::Say(tell::help(request.tools)),
            None => {
                let near = near(&said, request.tools, NEAR_MAX);
                OfflineReply::Say(tell::not_understood(meant(&said).as_deref(), &near, request.tools))
            }
        }
    }
}

impl Provider for Offline {
    fn proposer(&self) -> Proposer {
        Proposer::Model(ProviderKind::Offline)
    }

    fn model(&self) -> &str {
        "offline"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(std::future::ready(Ok(self.reply(request))))
    }
}

fn proposed(text: Option<String>, calls: Vec<WrittenCall>) -> (String, ModelReply) {
    let calls: Vec<ProposedCall> = calls.into_iter().enumerate().map(numbered).collect();
    let lines = calls.iter().map(|call| format!("{} {}\n", call.tool, call.arguments));
    let raw = text.iter().map(|text| format!("{text}\n")).chain(lines).collect();
    (raw, ModelReply::new(text, calls, Stop::ToolCalls))
}

/// The steps of a runbook whose tools are offered. Without any, the runbook's own words.
fn follow(runbook: &GivenRunbook, tools: &[ToolOffer]) -> OfflineReply {
    let is_offered = |call: &WrittenCall| tools.iter().any(|tool| tool.name == call.tool);
    let (calls, left): (Vec<WrittenCall>, Vec<WrittenCall>) =
        runbook.steps.iter().cloned().partition(is_offered);
    let text = tell::following(runbook, calls.len(), &left);
    if calls.is_empty() {
        OfflineReply::Say(format!("{text}\n{}", runbook.text))
    } else {
        OfflineReply::Follow(text, calls)
    }
}

fn numbered((at, call): (usize, WrittenCall)) -> ProposedCall {
    ProposedCall { id: format!("call_{}", at + 1), tool: call.tool, arguments: call.arguments }
}

#[cfg(test)]
mod tests {
    use super::{NamedFolders, Offline};
    use crate::llm::tests::scripted::{chat, unnamed};
    use crate::llm::{Conversation, ModelReply, ModelRequest, Stop, ToolOffer};
    use proptest::prelude::*;
    use serde_json::json;
    use std::time::Duration;

    fn reply(conversation: &Conversation) -> ModelReply {
        let offer = |name: &str| ToolOffer {
            name: name.to_owned(),
            summary: "Do something.".to_owned(),
            input: json!({"type": "object", "required": ["path"]}),
        };
        let tools = [offer("health_check"), offer("list_dir")];
        let request = ModelRequest {
            conversation,
            tools: &tools,
            deadline: Duration::from_secs(1),
            permit: None,
            listener: None,
        };
        let folders = NamedFolders { logs: "/var/log".into(), workspace: "/srv/workspace".into() };
        Offline::new(folders).reply(&request)
    }

    fn to_message(text: &str) -> ModelReply {
        let mut conversation = chat("be careful");
        conversation.push_user(unnamed(text.to_owned()));
        reply(&conversation)
    }

    #[test]
    fn plain_requests_have_fixed_steps() {
        let logs = r#"list_dir {"path":"/var/log","limit":20}"#;
        let both = format!("health_check {{}}\n{logs}\n");
        let only_logs = format!("{logs}\n");
        for (message, expect) in [
            ("how is this server doing?", Some(&both)),
            ("  How is  this SERVER doing ?!\n", Some(&both)),
            ("Status", Some(&both)),
            ("what logs are there?", Some(&only_logs)),
            ("List the logs.", Some(&only_logs)),
            ("delete the logs", None),
            ("", None),
        ] {
            let reply = to_message(message);
            assert_eq!(reply.stop == Stop::ToolCalls, expect.is_some(), "{message}");
            if let Some(expect) = expect {
                assert_eq!(String::from_utf8_lossy(&reply.raw), *expect, "{message}");
            }
        }
    }

    #[test]
    fn calls_in_a_message_are_proposed_as_they_are() {
        let reply = to_message("read_file(path=\"/etc/passwd\"); read_file(path=\"/etc/passwd\")");
        let seen: Vec<_> =
            reply.calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        let arguments = r#"{"path":"/etc/passwd"}"#;
        assert_eq!(seen, [("call_1", arguments), ("call_2", arguments)]);
        assert_eq!(reply.text, None);
    }

    #[test]
    fn arguments_without_names_are_the_required_ones() {
        let reply = to_message("list_dir(/var/log, limit=2); raed_file(/etc/passwd)");
        let arguments: Vec<_> = reply.calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!(arguments, [r#"{"path":"/var/log","limit":2}"#, r#"{"1":"/etc/passwd"}"#]);
        assert!(to_message("list_dir(/var, /tmp)").calls.is_empty(), "there is no second one");
    }

    #[test]
    fn a_message_that_is_not_understood_is_answered_with_help() {
        let reply = to_message("please delete everything");
        let text = reply.text.expect("a text");
        assert!(text.contains("no model is configured") && text.contains("`par run help`"), "{text}");
        // The list of all sentences scrolled what was meant off the screen.
        assert!(text.lines().count() <= 6, "{text}");
        let text = to_message("helth chek").text.expect("a text");
        assert!(text.contains("\n  how is this server doing?\n"), "{text}");
        assert_eq!((reply.stop, reply.calls.len()), (Stop::EndTurn, 0));
    }

    #[test]
    fn results_are_answered_from() {
        let mut conversation = chat("");
        conversation.push_user(unnamed("list the logs".to_owned()));
        let proposed = reply(&conversation);
        conversation.push_reply(&unnamed(proposed));
        conversation.push_tool_text("call_1", "list_dir", r#"{"entries":[{"name":"a"}]}"#.to_owned());
        let text = reply(&conversation).text.expect("a text");
        assert!(text.starts_with("list_dir: 1 entry"), "{text}");
        assert_eq!(text.matches("no model is configured").count(), 1, "{text}");
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        #[test]
        fn any_text_is_answered(message in any::<String>(), tool in any::<String>(), result in any::<String>()) {
            let first = to_message(&message);
            prop_assert_eq!(first.text.is_some(), first.calls.is_empty());
            let mut conversation = chat("");
            conversation.push_tool_text("1", &tool, result);
            prop_assert!(reply(&conversation).text.is_some());
        }
    }
}
