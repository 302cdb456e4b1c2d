//! The model's window: what is left out so that a request fits.

use super::ending::WalkEnd;
use super::state::RunWalk;
use super::turn::Measured;
use crate::agent::news::{RunNews, TrimmedContext};
use crate::ledger::payload::{ContextTrimPayload, TrimReason};
use crate::ledger::{AppendError, Draft, Receipt};
use crate::llm::{Message, Provider};
use crate::types::limits;

impl RunWalk<'_> {
    /// About how many tokens a request with `bytes` of conversation has, rather too many: what the
    /// server counted last time, and the rest from its bytes.
    fn tokens(&self, bytes: usize) -> u64 {
        let all = |bytes: usize| bytes.saturating_add(self.offers_bytes) as u64;
        let of_bytes = |bytes: u64| bytes.div_ceil(limits::BYTES_PER_TOKEN as u64);
        match self.measured {
            Some(Measured { bytes: known, tokens }) if bytes >= known => {
                tokens.saturating_add(of_bytes((bytes - known) as u64))
            }
            Some(Measured { bytes: known, tokens }) => {
                tokens.saturating_mul(all(bytes)).div_ceil(all(known).max(1))
            }
            None => of_bytes(all(bytes)),
        }
    }

    /// How long the conversation may be for a request to `provider`, in bytes; `None` if its window
    /// is not known.
    pub(super) fn bytes_that_fit(&self, provider: &dyn Provider) -> Option<usize> {
        let room = room(provider)?;
        let bytes = |tokens: u64| {
            usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(limits::BYTES_PER_TOKEN)
        };
        Some(match self.measured {
            Some(Measured { bytes: known, tokens }) => match room.checked_sub(tokens) {
                Some(left) => known.saturating_add(bytes(left)),
                None => 0,
            },
            None => bytes(room).saturating_sub(self.offers_bytes),
        })
    }

    /// Leaves out old results if the next request to `provider` would not fit into its window.
    /// Returns the end of the run if it does not fit then either, and otherwise the entries of
    /// `before` that are not written yet.
    pub(super) async fn fit(
        &mut self,
        mut before: Vec<Draft>,
        provider: &dyn Provider,
    ) -> Result<Result<Vec<Draft>, WalkEnd>, AppendError> {
        let Some(room) = room(provider) else { return Ok(Ok(before)) };
        if self.tokens(self.conversation.bytes()) <= room {
            return Ok(Ok(before));
        }
        let window = provider.window_tokens();
        // With a margin, so that not each of the following requests leaves something out.
        let margin = room / 4;
        let old = self.conversation.old_results();
        let mut bytes = self.conversation.bytes();
        let wanted = old.iter().take_while(|result| {
            let is_over = self.tokens(bytes) > room - margin;
            bytes = bytes.saturating_sub(result.saved);
            is_over
        });
        let entries: Vec<u64> = wanted.map(|result| result.entry).collect();
        if !entries.is_empty() {
            self.trim(std::mem::take(&mut before), entries, TrimReason::Window, window).await?;
        }
        if self.tokens(self.conversation.bytes()) <= room {
            return Ok(Ok(before));
        }
        Ok(Err(WalkEnd::too_long(provider, self.has_read(), before)))
    }

    /// Leaves out all old results after a server refused a request because of its length. `before`
    /// are the entries that say so. Returns them if nothing can be left out.
    pub(super) async fn fit_refused(
        &mut self,
        before: Vec<Draft>,
        provider: &dyn Provider,
    ) -> Result<Option<WalkEnd>, AppendError> {
        let old = self.conversation.old_results();
        if old.is_empty() {
            return Ok(Some(WalkEnd::too_long(provider, self.has_read(), before)));
        }
        let entries = old.iter().map(|result| result.entry).collect();
        self.trim(before, entries, TrimReason::Refused, provider.window_tokens()).await?;
        Ok(None)
    }

    /// Whether the conversation contains results of calls, also those that are left out.
    fn has_read(&self) -> bool {
        self.conversation.messages().iter().any(|message| matches!(message, Message::Tool { .. }))
    }

    /// Leaves out the results of these entries. Durable before the request that it shapes.
    async fn trim(
        &mut self,
        before: Vec<Draft>,
        entries: Vec<u64>,
        why: TrimReason,
        window: Option<u32>,
    ) -> Result<(), AppendError> {
        let input_tokens = self.tokens(self.conversation.bytes());
        let of = |entry: &u64| entries.contains(entry);
        let saved = self.conversation.old_results().into_iter().filter(|result| of(&result.entry));
        let bytes: usize = saved.map(|result| result.saved).sum();
        let payload = ContextTrimPayload {
            first: entries.iter().min().copied().unwrap_or(0),
            last: entries.iter().max().copied().unwrap_or(0),
            left_out: entries.clone(),
            bytes: bytes as u64,
            why,
            input_tokens,
            window_tokens: window.map(u64::from),
        };
        let (what, draft) = (payload.line(), self.draft(payload));
        tracing::info!(run = %self.run, results = entries.len(), bytes, "old results are left out of the conversation");
        let mut drafts = before;
        drafts.push(draft);
        let receipts = self.agent.ledger().append(drafts).await?;
        let seq = receipts.last().map_or(0, Receipt::seq);
        self.agent.report(|| RunNews::Trimmed(TrimmedContext { seq, what }));
        self.conversation.leave_out(&entries);
        // What was decided about the longer request stays on the ledger as spent.
        self.cleared = None;
        Ok(())
    }
}

/// The tokens of a request that fit into the model's window next to its reply.
fn room(provider: &dyn Provider) -> Option<u64> {
    let window = u64::from(provider.window_tokens()?);
    let reply = provider.sink().map_or(0, |sink| u64::from(sink.reply_tokens_max));
    // A bound on the reply that takes most of a small window is a bound and no expectation.
    Some(window - reply.min(window / 2))
}
