//! Makes decisions and outcomes durable, and only then returns what follows from them.

use super::ask::{AskDecided, AskOutcome, ModelAsk, release_next};
use super::decided::{Decided, Next};
use super::facts::CallRecord;
use super::mint::asked::Asked;
use super::mint::permit::{Allowed, Permit};
use super::mint::running::Running;
use super::mint::told::{Outcome, ToolResult, Waiting};
use super::outcome;
use super::point::Gate;
use super::refusal::told;
use crate::call::Execution;
use crate::ledger::{AppendError, Draft, DraftError, ReadError, Receipt};
use crate::types::clock::Wall;
use crate::types::{DataLabels, StepStatus};

impl Gate {
    /// Makes decisions durable, after the entries in `before`, in one commit. Only then returns
    /// permits, waiting calls and refusals, in order, and the receipt of the first entry in
    /// `before`.
    ///
    /// `next` is the request to a model that follows if no call runs and none waits; it is then
    /// decided and recorded in the same commit.
    pub async fn commit(
        &self,
        before: Vec<Draft>,
        decided: Vec<Decided>,
        next: Option<ModelAsk<'_>>,
    ) -> Result<(Vec<Outcome>, Option<AskOutcome>, Option<Receipt>), AppendError> {
        let has_before = !before.is_empty();
        let asked_again: Vec<&Asked> = decided.iter().filter_map(|one| one.again.as_ref()).collect();
        let asks = decided.iter().any(|one| matches!(one.next, Next::Ask { .. }));
        let _turn = if asked_again.is_empty() && !asks { None } else { Some(self.answers.lock().await) };
        for asked in asked_again {
            self.check_unspent(asked)?;
        }
        // Until the decisions are durable no other rules come into force.
        let _standing = self.in_force.turn.read().await;
        let rules = self.rules().bundle.digest();
        let decided: Vec<Decided> =
            decided.into_iter().map(|one| one.under(rules).unless(&self.in_force.stops)).collect();
        let refuse = |e: ReadError| AppendError::Draft(DraftError(e.to_string()));
        let decided = self.without_repeated(decided).map_err(refuse)?;
        let mut drafts = before;
        let mut places = Vec::with_capacity(decided.len());
        for one in &decided {
            let at = drafts.len();
            drafts.push(one.draft());
            let asked = if let Next::Ask { payload } = &one.next {
                drafts.push(one.approval_draft(at, (**payload).clone()));
                Some(at + 1)
            } else {
                None
            };
            places.push((at, asked));
        }
        let is_over = decided.iter().all(|one| matches!(one.next, Next::Nothing));
        let refusals = decided.iter().map(|one| one.reason.to_string().len()).sum();
        let next = next.filter(|next| is_over && refusals <= next.results_bytes_max);
        let next = next.map(|next| self.decide_ask(&next, &DataLabels::default(), refusals));
        drafts.extend(next.as_ref().map(|next| next.draft.clone()));
        let mut receipts = self.ledger().append(drafts).await?;
        let next = release_next(next, &mut receipts)?;
        // From here on every decision is durable: what now runs can be found again after a crash,
        // and an approval that was used is used up.
        if places.iter().any(|(_, asked)| asked.is_some()) {
            self.stir();
        }
        let mut receipts: Vec<Option<Receipt>> = receipts.into_iter().map(Some).collect();
        let mut take = |at: usize| receipts.get_mut(at).and_then(Option::take).ok_or(AppendError::Closed);
        let first = if has_before { Some(take(0)?) } else { None };
        let outcomes = decided.into_iter().zip(places).map(|(one, (at, asked))| {
            let receipt = take(at)?;
            let asked = asked.map(&mut take).transpose()?;
            Ok(self.release(one, receipt, asked))
        });
        Ok((outcomes.collect::<Result<_, AppendError>>()?, next, first))
    }

    /// Records outcomes in one commit, and only then returns what the model may see of them, in
    /// order. On a full disk they wait for space.
    ///
    /// `next` is the request to a model that follows: it is decided with the labels of these
    /// outcomes and recorded in the same commit, unless the disk is full.
    pub async fn settle(
        &self,
        ran: Vec<(Running, Execution)>,
        next: Option<ModelAsk<'_>>,
    ) -> Result<(Vec<ToolResult>, Option<AskOutcome>), AppendError> {
        let clean = |(running, execution): (Running, Execution)| {
            let execution = running.clean(execution);
            (running, execution)
        };
        let ran: Vec<_> = ran.into_iter().map(clean).collect();
        let drafts: Vec<Draft> = ran
            .iter()
            .map(|(running, execution)| outcome::result_draft(running.facts(), running.decision(), execution))
            .collect();
        // New work waits for no space: it is refused in its own commit.
        let next = next.filter(|_| self.ledger().obstacle().is_none());
        // Until the request is durable no other rules come into force.
        let standing = match &next {
            Some(_) => Some(self.in_force.turn.read().await),
            None => None,
        };
        let next = next.and_then(|next| self.decide_next(&next, &drafts));
        let all = drafts.iter().cloned().chain(next.as_ref().map(|next| next.draft.clone()));
        let mut receipts = self.ledger().append_owed(all.collect()).await?;
        drop(standing);
        let next = release_next(next, &mut receipts)?;
        // From here on every result is durable, and the model may see it.
        let settled = ran.into_iter().zip(drafts).zip(receipts);
        let results = settled
            .filter_map(|(((running, execution), draft), receipt)| {
                let (decision, status) = (running.decision(), outcome::status(running.facts(), &execution));
                let facts = running.into_facts(&receipt)?;
                if status.is_failure() {
                    self.counters.failed(&facts.tool, Wall::now().0);
                }
                let record = outcome::record(facts, decision, receipt.seq(), &draft, status);
                Some(ToolResult::new(&receipt, record))
            })
            .collect();
        Ok((results, next))
    }

    /// Decides `next` with what `results` add to the session. `None` if they are too long.
    fn decide_next(&self, next: &ModelAsk<'_>, results: &[Draft]) -> Option<AskDecided> {
        let mut labels = DataLabels::default();
        results.iter().for_each(|draft| {
            labels.add(draft.labels.as_ref().unwrap_or(&DataLabels::untrusted()));
        });
        let shown =
            |draft: &Draft| draft.body.members().get("result").map_or(0, |shown| shown.to_string().len());
        let bytes = results.iter().map(shown).sum();
        (bytes <= next.results_bytes_max).then(|| self.decide_ask(next, &labels, bytes))
    }

    fn release(&self, decided: Decided, receipt: Receipt, asked: Option<Receipt>) -> Outcome {
        let Decided { facts, word, class, payload, reason, next, counted, .. } = decided;
        if let Next::Run { valid, prepared, exclusions, hosts } = next {
            if let Some(counted) = counted {
                counted.keep();
            }
            let allowed = Allowed { facts, valid: *valid, prepared, exclusions, hosts };
            let generation = self.in_force.generation();
            let permit = Permit::new(&receipt, allowed, generation, self.ledger(), self.secrets());
            return Outcome::Permit(Box::new(permit));
        }
        let status = if asked.is_some() { StepStatus::Waiting } else { StepStatus::Refused };
        let told = told(class, payload.request.as_ref(), &facts.policies);
        let record = CallRecord::unsettled(facts, receipt.seq(), word, status, reason);
        let record = CallRecord { class, told, nearest: payload.nearest, ..record };
        match asked {
            Some(asked) => Outcome::Wait(Waiting::new(&asked, record)),
            None => Outcome::Refused(ToolResult::new(&receipt, record)),
        }
    }

    /// Refuses to use an answer twice: another decision has spent or voided it.
    fn check_unspent(&self, asked: &Asked) -> Result<(), AppendError> {
        let refuse = |what: String| AppendError::Draft(DraftError(what));
        let standing =
            asked.requested().standing(self.ledger().reader()).map_err(|e| refuse(e.to_string()))?;
        let is = standing.state.as_str();
        (standing == asked.unspent()).then_some(()).ok_or_else(|| {
            refuse(format!("approval `{}` is {is}: it cannot decide another call", asked.requested().id))
        })
    }
}
