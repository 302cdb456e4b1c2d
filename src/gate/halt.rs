//! Halts, their end, and the cancelling of runs.
//!
//! A halt keeps calls, requests to models and runs from beginning, for everyone, for one caller, a
//! tool or a session, until a person lifts it. Questions to people stay open, and no answer counts
//! meanwhile.

use super::mint::granted::{Granted, Refused};
use super::point::Gate;
use super::stops::{StopEnds, StopInForce};
use crate::auth::{Principal, Source};
use crate::ledger::payload::{HaltLiftPayload, HaltSetPayload, RunCancelPayload};
use crate::ledger::{AppendError, Draft, Ref};
use crate::policy::{Door, Over, Power};
use crate::types::clock::Wall;
use crate::types::{NamedRun, RunId, StopScope, Stoppable, limits, text};
use std::sync::Arc;

/// What a person asks to be halted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltOrder {
    /// What is halted. A run is cancelled instead.
    pub scope: StopScope,
    /// The reason.
    pub reason: String,
    /// Whether what runs is ended at once.
    pub is_now: bool,
}

/// Why nothing was halted or lifted.
#[derive(Debug, thiserror::Error)]
pub enum HaltError {
    /// A key that may run can halt nothing, whatever the policies say.
    #[error(
        "a key that may run cannot halt: use the command line on the server, or a login that may approve"
    )]
    MayRun,
    /// The policies do not let this caller halt.
    #[error(transparent)]
    MayNot(Box<Refused>),
    /// An invalid value: its name and the reason.
    #[error("`{0}`: {1}")]
    Invalid(&'static str, String),
    /// No such halt is in force.
    #[error("no halt {0} is in force: `par halt list` shows those that are")]
    Unknown(u64),
    /// The ledger cannot be written: nothing has changed.
    #[error(transparent)]
    Ledger(#[from] AppendError),
}

/// The run that is cancelled.
#[derive(Clone, Debug)]
pub struct CancelledRun {
    /// Its names.
    pub named: NamedRun,
    /// Its `run.request`.
    pub first: u64,
}

impl Gate {
    /// The stops in force, oldest first.
    #[must_use]
    pub fn stops(&self) -> Arc<Vec<StopInForce>> {
        self.in_force.stops.list()
    }

    /// The first stop that covers `what`.
    #[must_use]
    pub fn stop_of(&self, what: &Stoppable<'_>) -> Option<StopInForce> {
        self.in_force.stops.find(what)
    }

    /// Completes once a stop ends `what`, which has begun. `is_read` says whether it is a request
    /// to a model or a call that only reads.
    pub async fn ended_by(&self, what: &Stoppable<'_>, is_read: bool) -> StopInForce {
        self.in_force.stops.ended(what, is_read).await
    }

    /// Halts. In force once it is durable, before the next decision. `granted` is the power that
    /// was used; `None` for the owner of the ledger without a server.
    pub async fn halt(
        &self,
        by: &Principal,
        granted: Option<&Granted>,
        order: HaltOrder,
    ) -> Result<StopInForce, HaltError> {
        let HaltOrder { scope, reason, is_now } = order;
        if matches!(scope, StopScope::Run(_)) {
            return Err(HaltError::Invalid("scope", "a run is cancelled, not halted".to_owned()));
        }
        let reason = self.reason(reason)?;
        if reason.trim().is_empty() {
            return Err(HaltError::Invalid("reason", "must not be empty".to_owned()));
        }
        let power = granted.map(Granted::record);
        let payload = HaltSetPayload { scope: scope.clone(), reason: reason.clone(), now: is_now, power };
        let draft = Draft { principal: Some(by.id()), ..Draft::new(payload) };
        let ends = if is_now { StopEnds::Everything } else { StopEnds::Nothing };
        self.put(draft, StopInForce { seq: 0, scope, by: by.id(), reason, at_us: Wall::now().0, ends }).await
    }

    /// Lifts the halt of the entry `seq`. Returns it as it was, once this is durable.
    pub async fn lift(
        &self,
        by: &Principal,
        granted: Option<&Granted>,
        seq: u64,
        reason: Option<String>,
    ) -> Result<StopInForce, HaltError> {
        let reason = reason.map(|reason| self.reason(reason)).transpose()?;
        let alone = self.in_force.turn.write().await;
        let is_it = |stop: &&StopInForce| stop.seq == seq && stop.is_halt();
        let halt = self.stops().iter().find(is_it).cloned().ok_or(HaltError::Unknown(seq))?;
        let payload =
            HaltLiftPayload { scope: halt.scope.clone(), reason, power: granted.map(Granted::record) };
        let draft = Draft { principal: Some(by.id()), answers: Some(Ref::Seq(seq)), ..Draft::new(payload) };
        let _receipt = self.ledger().append_one(draft).await?;
        self.in_force.stops.take(seq);
        drop(alone);
        // Runs whose approvals were answered before the halt can go on.
        self.stir();
        Ok(halt)
    }

    /// Cancels a run of which `granted` permits it: its calls that have not begun are denied, its
    /// reads and requests to models end, and a call that acts is waited for. The caller takes the
    /// stop out of force with [`Gate::cancelled`] once the run has ended.
    pub async fn cancel(
        &self,
        by: &Principal,
        granted: &Granted,
        run: &CancelledRun,
        reason: Option<String>,
    ) -> Result<StopInForce, HaltError> {
        let reason = reason.map(|reason| self.reason(reason)).transpose()?;
        let CancelledRun { named: NamedRun { session, run, .. }, first } = run;
        let payload = RunCancelPayload { reason: reason.clone(), power: Some(granted.record()) };
        let draft = Draft {
            run: Some(run.clone()),
            session: Some(session.clone()),
            principal: Some(by.id()),
            answers: Some(Ref::Seq(*first)),
            ..Draft::new(payload)
        };
        let (scope, reason) = (StopScope::Run(run.clone()), reason.unwrap_or_default());
        let at_us = Wall::now().0;
        let stop = StopInForce { seq: 0, scope, by: by.id(), reason, at_us, ends: StopEnds::Reads };
        let stop = self.put(draft, stop).await?;
        // A run that waits for a person ends now.
        self.stir();
        Ok(stop)
    }

    /// Takes the stops of a run that has ended out of force.
    pub fn cancelled(&self, run: &RunId) {
        let is_of = |stop: &&StopInForce| matches!(&stop.scope, StopScope::Run(of) if of == run);
        for stop in self.stops().iter().filter(is_of) {
            self.in_force.stops.take(stop.seq);
        }
    }

    async fn put(&self, draft: Draft, stop: StopInForce) -> Result<StopInForce, HaltError> {
        // Waits for decisions that are being written; the next one sees the stop.
        let alone = self.in_force.turn.write().await;
        let receipt = self.ledger().append_one(draft).await?;
        let stop = StopInForce { seq: receipt.seq(), ..stop };
        self.in_force.stops.put(stop.clone());
        drop(alone);
        Ok(stop)
    }

    /// The power to halt, for `by` who came through `door`. A key that may run has it never,
    /// whatever the policies say.
    pub fn may_halt(&self, by: &Principal, door: Door) -> Result<Granted, HaltError> {
        let granted = self.may(by, Power::Halt, Over::Server, door);
        let granted = granted.map_err(|refused| HaltError::MayNot(Box::new(refused)))?;
        match by.source() {
            Source::Key { .. } if self.rules().bundle.may_ever(by.subject(), Power::Run) => {
                Err(HaltError::MayRun)
            }
            Source::Key { .. } | Source::Os { .. } => Ok(granted),
        }
    }

    fn reason(&self, reason: String) -> Result<String, HaltError> {
        if reason.len() > limits::APPROVAL_REASON_BYTES_MAX {
            let most = format!("must have at most {} bytes", limits::APPROVAL_REASON_BYTES_MAX);
            return Err(HaltError::Invalid("reason", most));
        }
        Ok(text::visible_line(&self.secrets().clean(reason)))
    }
}
