//! What a person is shown about a call: the exact call, the reason, and the requester.

use super::context::CallContext;
use super::pending::Pending;
use super::point::Gate;
use super::{card, requested, subtree};
use crate::call::Exclusion;
use crate::ledger::payload::{ApprovalRequestPayload, AskingPolicy, RequestedBy, TaintingResult};
use crate::policy::{self, Bundle, Ruling, TaintSource};
use crate::types::clock::Wall;
use crate::types::{ApprovalId, limits, text};
use serde_json::{Value, json};

impl Gate {
    /// The exact call that a person is asked about, with everything that decides it. This is what
    /// is hashed.
    pub(super) fn exact(
        context: &CallContext<'_>,
        pending: &Pending,
        request: &Value,
        object: &Value,
        exclusions: &[Exclusion],
    ) -> Value {
        let named = |name: &str| request.pointer(&format!("/resource/{name}")).cloned().unwrap_or_default();
        let mut resource = json!({ "type": named("type"), "id": named("id"), "object": object });
        if let Some(members) = resource.as_object_mut().filter(|_| !exclusions.is_empty()) {
            members.insert("exclusions".to_owned(), json!(subtree::excluded(exclusions)));
        }
        json!({
            "tool": pending.manifest().name,
            "arguments": pending.valid.arguments(),
            "resource": resource,
            "manifest": pending.manifest().digest.hex(),
            "policy": pending.rules.bundle.digest().hex(),
            "run": context.run.as_str(),
            "session": context.session_id.as_str(),
            "call": pending.call.as_str(),
        })
    }

    /// How long a request may be answered: the shortest time of the policies that ask, each its own
    /// or else that of the configuration. In microseconds.
    fn open_us(&self, bundle: &Bundle, policies: &[String]) -> u64 {
        let own = |policy: &String| bundle.expires_s(policy).map(|span_s| span_s.saturating_mul(1_000_000));
        let times = policies.iter().map(|policy| own(policy).unwrap_or(self.approval_us));
        times.min().unwrap_or(self.approval_us)
    }

    /// The payload of an `approval.request`; `None` if the call has no canonical form.
    pub(super) fn question(
        &self,
        context: &CallContext<'_>,
        pending: &Pending,
        exact: Value,
        answer: &Ruling,
    ) -> Option<ApprovalRequestPayload> {
        let Ruling::NeedsApproval { policies, gates } = answer else { return None };
        let call_hash = requested::call_hash(exact.clone())?;
        let bundle = &pending.rules.bundle;
        let why = policies.iter().map(|policy| AskingPolicy {
            policy: policy.clone(),
            origin: bundle.origin(policy),
            advice: bundle.advice(policy),
        });
        let said = context.said.filter(|said| !said.trim().is_empty());
        let said = said.map(|said| text::visible(text::prefix(said, limits::APPROVAL_SAID_BYTES_MAX)));
        let seen = &context.session.tainted_by;
        let newest = seen.iter().skip(seen.len().saturating_sub(limits::APPROVAL_TAINTED_BY_MAX));
        let source = |one: &TaintSource| TaintingResult {
            tool: one.tool.clone(),
            resource: one.resource.clone(),
            result: one.result,
        };
        let group = |gate: &policy::Obligation| match gate {
            policy::Obligation::Approval { group } => Some(group.clone()),
            policy::Obligation::Confirm => None,
        };
        // Exactly what is hashed.
        let resource = card::subject(&exact)?;
        let payload = ApprovalRequestPayload {
            id: ApprovalId::generate(),
            shown: Some(card::shown(context, pending, &resource, self.secrets())?),
            resource,
            tool: pending.manifest().name.clone(),
            arguments: pending.valid.arguments().clone(),
            call_hash,
            why: why.collect(),
            groups: gates.iter().filter_map(group).collect(),
            confirm: gates.contains(&policy::Obligation::Confirm),
            requester: RequestedBy {
                principal: context.principal.id(),
                user: context.principal.user().map(str::to_owned),
            },
            expires_us: Wall::now().0.saturating_add(self.open_us(bundle, policies)),
            said,
            tainted_by: (!seen.is_empty()).then(|| newest.map(source).collect()),
            replaces: pending.again.as_ref().map(|asked| asked.requested().id.clone()),
            card: None,
        };
        card::sealed(payload)
    }
}

/// What is shown of a waiting call: who is asked, and the identifier of the request.
pub(super) fn waiting(gates: &[policy::Obligation], question: &ApprovalRequestPayload) -> Value {
    let group = |gate: &policy::Obligation| match gate {
        policy::Obligation::Approval { group } => group.clone(),
        policy::Obligation::Confirm => "confirm".to_owned(),
    };
    json!({
        "waiting_for": gates.iter().map(group).collect::<Vec<_>>(),
        "approval": question.id,
        "expires": Wall(question.expires_us).rfc3339(),
    })
}
