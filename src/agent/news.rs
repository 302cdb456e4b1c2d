//! What a run does, as it happens, for a person who waits for it.
//!
//! Everything is on the ledger before it is reported, except the words of a reply that is still
//! coming: they are provisional, and the recorded reply or its failure follows them.

use super::api::{Step, UnfitAnswer};
use crate::llm::RetriedAsk;
use crate::secrets::Clean;
use crate::types::{CallId, RunId, SessionId, limits};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One thing that a run did or begins to do.
#[derive(Debug)]
pub enum RunNews {
    /// Its request is on the ledger.
    Begun(RunBegun),
    /// It asks the model.
    Asking,
    /// The model's reply goes on with these words.
    Words(LiveWords),
    /// The words since the last reply are part of no reply that counts.
    Void(VoidReason),
    /// A request to the model failed, and is sent again. No entry says so.
    Retrying(RetriedAsk),
    /// Outputs of earlier calls are left out of the next request; this is on the ledger.
    Trimmed(TrimmedContext),
    /// A model failed, and the next one is asked; both are on the ledger.
    NextModel(ModelChange),
    /// The model's reply is on the ledger.
    Said(Box<RecordedReply>),
    /// What was decided about the calls of a group. Those that are allowed run now.
    Decided(Vec<DecidedCall>),
    /// The outcome of this call is on the ledger.
    Step(Box<Step>),
}

/// A run that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegun {
    /// The run.
    pub run: RunId,
    /// Its conversation.
    pub session: SessionId,
    /// The number of its `run.request`.
    pub seq: u64,
}

/// A reply of the model, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedReply {
    /// The number of its `model.reply`.
    pub seq: u64,
    /// All of its text.
    pub text: Option<String>,
    /// How many calls it proposes.
    pub calls: u64,
    /// Why the text is not the answer that the request's schema asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<UnfitAnswer>,
    /// The name of the model in the configuration, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A model that is not in service, and the one that is asked instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChange {
    /// The name of the model that failed.
    pub failed: String,
    /// Why: visible text.
    pub why: String,
    /// The name of the model that is asked now.
    pub next: String,
}

/// Outputs that are left out of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrimmedContext {
    /// The number of its `context.trim`.
    pub seq: u64,
    /// What was left out and why: visible text.
    pub what: String,
}

/// Why words that were shown are void. The reply of the run says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidReason {
    /// The model's server failed before the reply was complete.
    Failed,
    /// The reply may not be used: it was cut, the model did not get the whole request, or the reply
    /// could not be recorded.
    Unusable,
}

/// A call, once the decision is on the ledger.
#[derive(Clone, Debug)]
pub enum DecidedCall {
    /// It runs.
    Allowed(AllowedCall),
    /// It does not run: it was refused, or it waits for a person.
    Other(Box<Step>),
}

/// A call that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedCall {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The number of its decision.
    pub seq: u64,
}

/// Words of a reply that is still coming, without secrets. While the value lives, they count as
/// waiting to be shown.
#[derive(Debug)]
pub struct LiveWords {
    text: String,
    waiting: Arc<AtomicUsize>,
}

/// What one piece of text counts in addition to its bytes.
const PIECE_BYTES: usize = 64;

impl LiveWords {
    /// The words; control characters are as the model wrote them.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for LiveWords {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.text.len() + PIECE_BYTES, Ordering::Relaxed);
    }
}

/// Receives the news of a run. Cheap to clone.
#[derive(Clone)]
pub struct Watch {
    tell: Arc<dyn Fn(RunNews) + Send + Sync>,
    /// The bytes of words that wait to be shown; `None` if no words are wanted.
    waiting: Option<Arc<AtomicUsize>>,
}

impl Watch {
    /// Calls `tell` with all news but words. It must not block: the run waits for it.
    #[must_use]
    pub fn new(tell: impl Fn(RunNews) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell), waiting: None }
    }

    /// The same, with the words of replies while they come: models are asked to stream.
    ///
    /// If more than [`limits::LIVE_WORDS_BYTES_MAX`] wait to be shown, the rest of a reply is not
    /// passed on; the recorded reply has it.
    #[must_use]
    pub fn with_words(self) -> Self {
        Self { waiting: Some(Arc::default()), ..self }
    }

    /// Passes news on.
    pub fn tell(&self, news: RunNews) {
        (self.tell)(news);
    }

    /// The words of one reply; `None` if none are wanted.
    #[must_use]
    pub fn reply(&self) -> Option<ReplyWords<'_>> {
        let waiting = self.waiting.as_ref()?;
        Some(ReplyWords { watch: self, waiting, is_short: AtomicBool::new(false) })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("wants_words", &self.waiting.is_some()).finish_non_exhaustive()
    }
}

/// Passes the words of one reply on, without a gap: once some are left out, so is all the rest.
#[derive(Debug)]
pub struct ReplyWords<'a> {
    watch: &'a Watch,
    waiting: &'a Arc<AtomicUsize>,
    is_short: AtomicBool,
}

impl ReplyWords<'_> {
    /// Passes `words` on, unless too many wait.
    pub fn pass(&self, words: Clean<String>) {
        self.pass_received(words.into_inner());
    }

    /// The same for words that a server of PAR has searched and sent.
    pub fn pass_received(&self, text: String) {
        let bytes = text.len() + PIECE_BYTES;
        let is_full = self.waiting.load(Ordering::Relaxed) + bytes > limits::LIVE_WORDS_BYTES_MAX;
        if is_full || self.is_short.load(Ordering::Relaxed) {
            self.is_short.store(true, Ordering::Relaxed);
            return;
        }
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.watch.tell(RunNews::Words(LiveWords { text, waiting: self.waiting.clone() }));
    }
}

#[cfg(test)]
mod tests {
    use super::{RunNews, Watch};
    use crate::types::limits;
    use std::sync::{Arc, Mutex};

    /// No reader takes the words: at most a bounded number wait, and what waits is the beginning of
    /// the reply, without a gap, however the later pieces would fit.
    #[test]
    fn words_that_nobody_takes_are_bounded_and_have_no_gap() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        let watch = Watch::new(move |news| keep.lock().expect("news").push(news)).with_words();
        let reply = watch.reply().expect("words are wanted");
        let large = "x".repeat(limits::LIVE_WORDS_BYTES_MAX / 2);
        for words in ["one ", &large, &large, "late"] {
            reply.pass_received(words.to_owned());
        }
        let told = |kept: &[RunNews]| -> String {
            let of = |news: &RunNews| match news {
                RunNews::Words(words) => words.text().to_owned(),
                other => panic!("{other:?}"),
            };
            kept.iter().map(of).collect()
        };
        assert_eq!(told(&kept.lock().expect("news")), format!("one {large}"));
        // Once they are taken, the next reply is shown again.
        kept.lock().expect("news").clear();
        watch.reply().expect("words").pass_received("next".to_owned());
        assert_eq!(told(&kept.lock().expect("news")), "next");
        assert!(Watch::new(|_| ()).reply().is_none());
    }
}
