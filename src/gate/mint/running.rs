//! A call that was started.

use crate::call::{End, Execution};
use crate::gate::facts::{DecisionUnread, Facts};
use crate::gate::outcome;
use crate::ledger::{Kind, Ledger, Receipt, Stored};
use crate::secrets::{Clean, Finder, Secrets};
use crate::types::Decision;
use std::sync::Arc;

/// A call that was started and is not settled yet. If it is dropped unsettled, it is recorded as
/// interrupted.
#[derive(Debug)]
#[must_use = "settle it, or the ledger says interrupted"]
pub struct Running {
    facts: Option<Box<Facts>>,
    decision: u64,
    ledger: Ledger,
    secrets: Secrets,
    /// The secrets at the start of the call: its output may still contain them.
    known: Arc<Finder>,
}

impl Running {
    /// The call whose allow `receipt` proves durable.
    pub(in crate::gate) fn decided(
        receipt: &Receipt,
        facts: Facts,
        ledger: &Ledger,
        secrets: &Secrets,
    ) -> Self {
        Self::new(receipt.seq(), facts, ledger, secrets)
    }

    /// The call whose allow an earlier process left on the ledger, in the entry `decision`.
    pub(in crate::gate) fn left_open(
        decision: &Stored,
        ledger: &Ledger,
        secrets: &Secrets,
    ) -> Result<Self, DecisionUnread> {
        let header = &decision.header;
        if !header.is(Kind::CallDecision) || header.decision() != Some(Decision::Allow) {
            return Err(DecisionUnread::NotAllowed);
        }
        Ok(Self::new(header.seq, Facts::read(decision)?, ledger, secrets))
    }

    fn new(decision: u64, facts: Facts, ledger: &Ledger, secrets: &Secrets) -> Self {
        let (ledger, secrets) = (ledger.clone(), secrets.clone());
        let known = secrets.now();
        Self { facts: Some(Box::new(facts)), decision, ledger, secrets, known }
    }

    /// The execution without any secret, of the start of the call or of now.
    pub(in crate::gate) fn clean(&self, execution: Execution) -> Clean<Execution> {
        self.secrets.clean_since(&self.known, execution)
    }

    /// The decision's entry on the ledger.
    #[must_use]
    pub fn decision(&self) -> u64 {
        self.decision
    }

    /// The secrets at the start of the call.
    pub(super) fn known(&self) -> &Arc<Finder> {
        &self.known
    }

    /// The ledger that holds its decision.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The facts of the call.
    #[expect(clippy::expect_used, reason = "the facts are there until `into_facts` consumes the slip")]
    pub(in crate::gate) fn facts(&self) -> &Facts {
        self.facts.as_deref().expect("a running call has its facts")
    }

    /// Takes the facts out once the result is durable, which `_result` proves.
    pub(in crate::gate) fn into_facts(mut self, _result: &Receipt) -> Option<Facts> {
        self.facts.take().map(|facts| *facts)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(facts) = self.facts.take() {
            let lost = self.clean(Execution::without_output(End::Interrupted));
            self.ledger.append_detached(vec![outcome::result_draft(&facts, self.decision, &lost)]);
        }
    }
}
