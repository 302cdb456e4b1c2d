//! Permission to run one call, and the order for the sandbox made from it.

use super::running::Running;
use crate::call::{Exclusion, Held, Object, Prepared};
use crate::gate::facts::Facts;
use crate::gate::rules::{Generation, Lapse};
use crate::ledger::payload::CallConnectPayload;
use crate::ledger::{AppendError, Draft, Ledger, Receipt, Ref};
use crate::secrets::{Finder, Secrets};
use crate::tools::{Manifest, ValidCall};
use crate::types::{CallId, Digest, HostPort, clock, limits};
use std::net::SocketAddr;
use std::sync::Arc;

/// Permission to run exactly one call, once: bound to its decision on the ledger, the canonical
/// call, the digests of the manifest and the bundle, the exclusions, a time, and the generation of
/// rules.
#[derive(Debug)]
#[must_use = "a permit that is dropped is recorded as interrupted"]
pub struct Permit {
    running: Running,
    manifest: Arc<Manifest>,
    canonical: String,
    object: Object,
    exclusions: Vec<Exclusion>,
    hosts: Vec<HostPort>,
    held: Held,
    not_after_us: u64,
    generation: Generation,
}

/// An allowed call, as it was decided on. It proves nothing.
#[derive(Debug)]
pub(in crate::gate) struct Allowed {
    pub(in crate::gate) facts: Facts,
    pub(in crate::gate) valid: ValidCall,
    pub(in crate::gate) prepared: Prepared,
    pub(in crate::gate) exclusions: Vec<Exclusion>,
    pub(in crate::gate) hosts: Vec<HostPort>,
}

impl Permit {
    /// The permit for the call whose allow `receipt` proves durable.
    pub(in crate::gate) fn new(
        receipt: &Receipt,
        allowed: Allowed,
        generation: Generation,
        ledger: &Ledger,
        secrets: &Secrets,
    ) -> Self {
        let Allowed { facts, valid, prepared, exclusions, hosts } = allowed;
        Self {
            running: Running::decided(receipt, facts, ledger, secrets),
            manifest: valid.manifest().clone(),
            canonical: valid.canonical().to_owned(),
            object: prepared.object,
            exclusions,
            hosts,
            held: prepared.held,
            not_after_us: clock::mono_us() + limits::PERMIT_MS_MAX * 1_000,
            generation,
        }
    }

    /// Uses up the permit: returns the order for the sandbox, and the slip that its outcome is
    /// settled with.
    ///
    /// # Errors
    ///
    /// If the permit has lapsed, only the slip is returned, to be settled as refused.
    pub fn begin(self) -> Result<(Order, Running), (Running, Lapse)> {
        let Self { running, manifest, canonical, object, exclusions, hosts, held, not_after_us, generation } =
            self;
        if clock::mono_us() > not_after_us {
            return Err((running, Lapse::Expired));
        }
        if let Some(lapse) = generation.lapse(&running.facts().stoppable()) {
            return Err((running, lapse));
        }
        let order = Order {
            call: running.facts().call.clone(),
            decision: running.decision(),
            manifest,
            arguments: canonical,
            object,
            exclusions,
            connecting: (!hosts.is_empty()).then(|| Connecting::new(&running, hosts)),
            held,
            known: running.known().clone(),
        };
        Ok((order, running))
    }

    /// The call's identifier.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.running.facts().call
    }

    /// The decision's entry on the ledger.
    #[must_use]
    pub fn decision(&self) -> u64 {
        self.running.decision()
    }

    /// The same permit after its time.
    #[cfg(test)]
    pub(in crate::gate) fn expired(self) -> Self {
        Self { not_after_us: clock::mono_us() - 1, ..self }
    }
}

/// A permitted call, in the form that the sandbox runs. Made only from a permit.
#[derive(Debug)]
#[must_use = "an order that is not run shows on the ledger as interrupted"]
pub struct Order {
    call: CallId,
    decision: u64,
    manifest: Arc<Manifest>,
    arguments: String,
    object: Object,
    exclusions: Vec<Exclusion>,
    connecting: Option<Connecting>,
    held: Held,
    known: Arc<Finder>,
}

impl Order {
    /// The call's identifier.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// The decision's entry on the ledger.
    #[must_use]
    pub fn decision(&self) -> u64 {
        self.decision
    }

    /// The tool's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The arguments as canonical JSON.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The object that the decision is about.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// What the call must leave out below its object.
    #[must_use]
    pub fn exclusions(&self) -> &[Exclusion] {
        &self.exclusions
    }

    /// Permission to connect; `None` if the call may connect to nothing.
    #[must_use]
    pub fn connecting(&self) -> Option<&Connecting> {
        self.connecting.as_ref()
    }

    /// The proof that the tool's output will be searched for the secrets that it is given; `None`
    /// if it is given none.
    #[must_use]
    pub fn secrets(&self, salt: &[u8; 32]) -> Option<Digest> {
        let names = &self.manifest.secrets;
        (!names.is_empty()).then(|| self.known.proof(salt, names))
    }

    /// The child that waits for the go.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }
}

/// Permission to connect, which makes each connection durable.
#[derive(Clone, Debug)]
pub struct Connecting {
    hosts: Vec<HostPort>,
    facts: Box<Facts>,
    decision: u64,
    ledger: Ledger,
}

impl Connecting {
    fn new(running: &Running, hosts: Vec<HostPort>) -> Self {
        let (facts, ledger) = (Box::new(running.facts().clone()), running.ledger().clone());
        Self { hosts, facts, decision: running.decision(), ledger }
    }

    /// The hosts that the call may connect to; at least one.
    #[must_use]
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// Records a connection before it is made. Durable on return; bytes may pass after that.
    pub async fn record(&self, to: &HostPort, address: SocketAddr) -> Result<(), AppendError> {
        let facts = &self.facts;
        let payload = CallConnectPayload { host: to.as_str().to_owned(), address: address.to_string() };
        let draft = Draft {
            run: Some(facts.run.clone()),
            session: Some(facts.session.clone()),
            call: Some(facts.call.clone()),
            answers: Some(Ref::Seq(self.decision)),
            principal: Some(facts.principal.clone()),
            policy: Some(facts.policy),
            manifest: facts.manifest,
            tool: Some(facts.tool.clone()),
            ..Draft::new(payload)
        };
        self.ledger.append_one(draft).await.map(drop)
    }
}
