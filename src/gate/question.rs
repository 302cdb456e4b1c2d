//! What a person is asked about a call: exactly what, why, and who asks.

use super::asking::Asking;
use super::pending::Pending;
use super::point::Gate;
use super::{requested, subtree};
use crate::call::Exclusion;
use crate::policy::{self, Ruling, TaintSource};
use crate::types::clock::Wall;
use crate::types::{ApprovalId, limits, text};
use serde_json::{Map, Value, json};

impl Gate {
    /// The exact call that a person is asked about, with all that decides it: what is hashed.
    pub(super) fn exact(
        asking: &Asking<'_>,
        pending: &Pending,
        request: &Value,
        object: &Value,
        exclusions: &[Exclusion],
    ) -> Value {
        let named = |name: &str| request.pointer(&format!("/resource/{name}")).cloned().unwrap_or_default();
        let mut resource = json!({ "type": named("type"), "id": named("id"), "object": object });
        if let Some(members) = resource.as_object_mut().filter(|_| !exclusions.is_empty()) {
            members.insert("exclusions".to_owned(), subtree::exclusions_json(exclusions));
        }
        json!({
            "tool": pending.manifest().name,
            "arguments": pending.valid.arguments(),
            "resource": resource,
            "manifest": pending.manifest().digest.hex(),
            "policy": pending.rules.bundle.digest().hex(),
            "run": asking.run.as_str(),
            "session": asking.session_id.as_str(),
            "call": pending.call.as_str(),
        })
    }

    /// The payload of an `approval.request`; empty where the call has no canonical form.
    pub(super) fn question(
        &self,
        asking: &Asking<'_>,
        pending: &Pending,
        exact: Value,
        answer: &Ruling,
    ) -> Map<String, Value> {
        let Ruling::NeedsApproval { policies, gates } = answer else { return Map::new() };
        let Some(hash) = requested::call_hash(exact.clone()) else { return Map::new() };
        let bundle = &pending.rules.bundle;
        let why = policies.iter().map(|policy| {
            let (origin, advice) = (bundle.origin(policy), bundle.advice(policy));
            json!({ "policy": policy, "origin": origin, "advice": advice })
        });
        let of_call = ["tool", "arguments", "resource"];
        let exact = |name: &&str| Some(((*name).to_owned(), exact.get(*name)?.clone()));
        let mut payload: Map<String, Value> = of_call.iter().filter_map(exact).collect();
        payload.insert("id".to_owned(), json!(ApprovalId::generate().as_str()));
        payload.insert("call_hash".to_owned(), json!(hash.hex()));
        payload.insert("why".to_owned(), why.collect());
        requested::put_gates(&mut payload, gates);
        let principal = asking.principal;
        let requester = json!({ "principal": principal.id(), "user": principal.user() });
        payload.insert("requester".to_owned(), requester);
        if let Some(asked) = &pending.again {
            payload.insert("replaces".to_owned(), json!(asked.requested().id.as_str()));
        }
        if let Some(said) = asking.said.filter(|said| !said.trim().is_empty()) {
            let said = text::visible(text::prefix(said, limits::APPROVAL_SAID_BYTES_MAX));
            payload.insert("said".to_owned(), json!(said));
        }
        let seen = &asking.session.tainted_by;
        if !seen.is_empty() {
            let newest = seen.iter().skip(seen.len().saturating_sub(limits::APPROVAL_TAINTED_BY_MAX));
            let source = |one: &TaintSource| json!({ "tool": one.tool, "resource": one.resource, "result": one.result });
            payload.insert("tainted_by".to_owned(), newest.map(source).collect());
        }
        payload.insert("expires_us".to_owned(), json!(Wall::now().0.saturating_add(self.approval_us)));
        payload
    }
}

/// What is told of a call that waits: for whom, and under which name it is answered.
pub(super) fn waiting(gates: &[policy::Obligation], question: &Map<String, Value>) -> Value {
    let group = |gate: &policy::Obligation| match gate {
        policy::Obligation::Approval { group } => group.clone(),
        policy::Obligation::Confirm => "confirm".to_owned(),
    };
    let expires = question.get("expires_us").and_then(Value::as_u64).map(|at| Wall(at).rfc3339());
    json!({
        "waiting_for": gates.iter().map(group).collect::<Vec<_>>(),
        "approval": question.get("id"),
        "expires": expires,
    })
}
