//! A request that shows whether a model answers. It contains nothing of this host.

use super::conversation::Conversation;
use crate::secrets::Secrets;
use crate::types::Labelled;

const QUESTION: &str = "Answer with the one word ok.";

/// The conversation of the request: a constant.
pub(super) fn conversation() -> Conversation {
    let mut conversation = Conversation::new(Labelled::trusted(String::new()));
    conversation.push_user(Labelled::trusted(Secrets::default().clean(QUESTION.to_owned())));
    conversation
}
