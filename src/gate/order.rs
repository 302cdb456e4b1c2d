//! The proofs on the way of one call: pending, permit, order, running.

use super::answer::Asked;
use super::decide::Gate;
use super::outcome;
use super::record::Facts;
use super::rules::Rules;
use crate::call::{End, Exclusion, Execution, Held, Object};
use crate::ledger::{AppendError, Draft, Kind, Ledger, Receipt, Ref};
use crate::secrets::{Clean, Finder, Secrets};
use crate::tools::{Manifest, Resource, ValidCall};
use crate::types::{CallId, Digest, HostPort, clock};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

/// A valid call that waits for its decision. The sandbox resolves its object.
#[derive(Debug)]
#[must_use = "a pending call needs `decide`"]
pub struct Pending {
    pub(super) call: CallId,
    pub(super) valid: ValidCall,
    pub(super) named: Vec<String>,
    /// Where a person was asked about this call before.
    pub(super) again: Option<Asked>,
    /// What it is decided under.
    pub(super) rules: Rules,
}

impl Pending {
    /// The call's identifier.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// The tool's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Arc<Manifest> {
        self.valid.manifest()
    }

    /// The arguments as canonical JSON.
    #[must_use]
    pub fn arguments(&self) -> &str {
        self.valid.canonical()
    }

    /// The hosts that the call may be connected to: the one that it is about, else those of its manifest.
    pub(super) fn hosts(&self) -> Vec<HostPort> {
        match &self.manifest().resource {
            Resource::Host { argument, form } => {
                let words = self.valid.arguments().get(argument).and_then(Value::as_str);
                words.and_then(|words| form.read(words).ok()).into_iter().collect()
            }
            Resource::Path { .. } | Resource::Id { .. } | Resource::Fixed { .. } => {
                self.manifest().reach.hosts.clone()
            }
        }
    }

    /// Whether its manifest is not that of the rules it is to be decided under.
    pub(super) fn is_stale(&self) -> bool {
        let manifest = self.rules.catalog.find(&self.manifest().name);
        manifest.is_none_or(|manifest| manifest.digest != self.manifest().digest)
    }

    /// Absolute paths that policies name: prepare tells which of them hold the object.
    #[must_use]
    pub fn named(&self) -> &[String] {
        &self.named
    }
}

/// Leave to run exactly one call, once: bound to its decision on the ledger, the canonical call, the
/// manifest's and the bundle's digest, what it leaves out, and a time.
#[derive(Debug)]
#[must_use = "a permit that is dropped is recorded as interrupted"]
pub struct Permit {
    pub(super) running: Running,
    pub(super) manifest: Arc<Manifest>,
    pub(super) canonical: String,
    pub(super) object: Object,
    pub(super) exclusions: Vec<Exclusion>,
    pub(super) hosts: Vec<HostPort>,
    pub(super) held: Held,
    pub(super) not_after_us: u64,
}

impl Permit {
    /// Uses the permit up: the order for the sandbox, and the slip on which its outcome comes back.
    ///
    /// Too late, only the slip comes out, to be settled as refused.
    pub fn begin(self) -> Result<(Order, Running), Running> {
        let Self { running, manifest, canonical, object, exclusions, hosts, held, not_after_us } = self;
        if clock::mono_us() > not_after_us {
            return Err(running);
        }
        let order = Order {
            call: running.facts().call.clone(),
            decision: running.decision(),
            manifest,
            arguments: canonical,
            object,
            exclusions,
            connecting: (!hosts.is_empty()).then(|| running.connecting(hosts)),
            held,
            known: running.known.clone(),
        };
        Ok((order, running))
    }

    /// The call's identifier.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.running.facts().call
    }
}

/// A permitted call, as the sandbox is to run it. Made only from a permit.
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

    /// The ledger's number of the decision.
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

    /// The object that was decided on.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// What the call leaves out below its object.
    #[must_use]
    pub fn exclusions(&self) -> &[Exclusion] {
        &self.exclusions
    }

    /// Where the call may be connected to. `None`: nowhere.
    #[must_use]
    pub fn connecting(&self) -> Option<&Connecting> {
        self.connecting.as_ref()
    }

    /// The proof that the secrets which the tool is given are looked for in what it prints; `None` where it is given
    /// none.
    #[must_use]
    pub fn secrets(&self, salt: &[u8; 32]) -> Option<Digest> {
        let names = &self.manifest.secrets;
        (!names.is_empty()).then(|| self.known.proof(salt, names))
    }

    /// The child that waits for go.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }
}

/// Leave to be connected, which makes each connection durable.
#[derive(Clone, Debug)]
pub struct Connecting {
    hosts: Vec<HostPort>,
    facts: Box<Facts>,
    decision: u64,
    ledger: Ledger,
}

impl Connecting {
    /// The hosts that the call may be connected to; at least one.
    #[must_use]
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// Records a connection that is about to be made for the call. Durable on return: bytes may pass.
    pub async fn record(&self, to: &HostPort, address: SocketAddr) -> Result<(), AppendError> {
        let facts = &self.facts;
        let payload = json!({ "host": to.as_str(), "address": address.to_string() });
        let draft = Draft {
            run: Some(facts.run.clone()),
            session: Some(facts.session.clone()),
            call: Some(facts.call.clone()),
            answers: Some(Ref::Seq(self.decision)),
            principal: Some(facts.principal.clone()),
            policy: Some(facts.policy),
            manifest: facts.manifest,
            tool: Some(facts.tool.clone()),
            ..Draft::new(Kind::CallConnect, payload)
        };
        self.ledger.append_one(draft).await.map(drop)
    }
}

/// A call that was let go and is not settled yet. Dropped unsettled, it is recorded as interrupted.
#[derive(Debug)]
#[must_use = "settle it, or the ledger says interrupted"]
pub struct Running {
    facts: Option<Box<Facts>>,
    decision: u64,
    ledger: Ledger,
    secrets: Secrets,
    /// The secrets as they were when the call began: what it printed may hold them still.
    known: Arc<Finder>,
}

impl Running {
    /// The slip for the decision that `receipt` proves.
    pub(super) fn of(receipt: &Receipt, facts: Facts, gate: &Gate) -> Self {
        Self::recovered(receipt.seq(), facts, gate)
    }

    /// The slip for a decision that an earlier process left on the ledger.
    pub(super) fn recovered(decision: u64, facts: Facts, gate: &Gate) -> Self {
        let (ledger, secrets) = (gate.ledger().clone(), gate.secrets().clone());
        let known = secrets.now();
        Self { facts: Some(Box::new(facts)), decision, ledger, secrets, known }
    }

    /// What came of the call, without any secret of its beginning or of now.
    pub(super) fn clean(&self, execution: Execution) -> Clean<Execution> {
        self.secrets.clean_since(&self.known, execution)
    }

    /// The number of the decision.
    #[must_use]
    pub fn decision(&self) -> u64 {
        self.decision
    }

    fn connecting(&self, hosts: Vec<HostPort>) -> Connecting {
        let (facts, ledger) = (Box::new(self.facts().clone()), self.ledger.clone());
        Connecting { hosts, facts, decision: self.decision, ledger }
    }

    #[expect(clippy::expect_used, reason = "the facts are there until `into_facts` consumes the slip")]
    pub(super) fn facts(&self) -> &Facts {
        self.facts.as_deref().expect("a running call has its facts")
    }

    /// Takes the slip apart once its result is durable.
    pub(super) fn into_facts(mut self) -> Option<Facts> {
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
