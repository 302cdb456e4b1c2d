//! The policies of each tool, as far as they are known before a call: they decide whether the tool
//! is offered.

use super::annotations::asks;
use super::scope::{fits_action, fits_resource, is_for, is_of_all, looks_at_call};
use super::slice;
use crate::policy::request::cedar::Uid;
use crate::tools::{Catalog, Manifest, ResourceSpec};
use cedar_policy::{Effect, EntityUid, Policy, PolicySet, PrincipalConstraint};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known about the policies of each tool before a call.
#[derive(Debug, Default)]
pub(in crate::policy) struct OfferIndex {
    rules: BTreeMap<String, Vec<OfferRule>>,
    permits: BTreeMap<String, Vec<PermitScope>>,
}

/// The scope of a permit that can match a tool.
#[derive(Debug)]
pub(in crate::policy) struct PermitScope {
    pub(in crate::policy) id: String,
    /// What the principal must be or be in; `None` matches every principal.
    pub(in crate::policy) principal: Option<Uid>,
    /// What the resource must be or be in; `None` matches every resource of the tool.
    pub(in crate::policy) resource: Option<Uid>,
}

/// A policy whose action and resource scope can match a tool.
#[derive(Debug)]
pub(in crate::policy) struct OfferRule {
    pub(in crate::policy) id: String,
    pub(in crate::policy) effect: Effect,
    /// What the principal must be or be in; `None` matches every principal.
    pub(in crate::policy) principal: Option<EntityUid>,
    /// Whether a `forbid` that matches every call hides the tool: it asks for no approval and
    /// covers all resources.
    pub(in crate::policy) may_hide: bool,
    pub(in crate::policy) looks_at: Arc<LooksAt>,
}

/// What the conditions of a policy depend on.
#[derive(Debug)]
pub(in crate::policy) enum LooksAt {
    /// The policy has no conditions.
    Nothing,
    /// Only the principal and the action. Holds a permit of everything under these conditions.
    Principal(Box<PolicySet>),
    /// The call.
    Call,
}

impl OfferIndex {
    /// The policies that can match a call of `tool`.
    pub(in crate::policy) fn rules(&self, tool: &str) -> &[OfferRule] {
        self.rules.get(tool).map(Vec::as_slice).unwrap_or_default()
    }

    /// The permits whose action and resource type can match a call of `tool`, by their ids.
    pub(in crate::policy) fn permits(&self, tool: &str) -> &[PermitScope] {
        self.permits.get(tool).map(Vec::as_slice).unwrap_or_default()
    }

    pub(in crate::policy) fn new(set: &PolicySet, catalog: &Catalog) -> Self {
        let looks: Vec<(&Policy, Arc<LooksAt>)> =
            set.policies().map(|policy| (policy, Arc::new(LooksAt::new(policy)))).collect();
        let of_tool = |manifest: &Arc<Manifest>| {
            let fits = looks.iter().filter(|(policy, _)| {
                fits_action(policy, &manifest.name, manifest.class)
                    && fits_resource(policy, &manifest.resource)
            });
            let seen = fits.map(|(policy, look)| OfferRule::new(policy, look.clone(), &manifest.resource));
            (manifest.name.clone(), seen.collect())
        };
        let mut permits: Vec<&Policy> =
            set.policies().filter(|policy| policy.effect() == Effect::Permit).collect();
        permits.sort_by_key(|policy| policy.id().to_string());
        let permits_of = |manifest: &Arc<Manifest>| {
            let scopes = permits.iter().filter(|policy| is_for(policy, manifest)).map(|policy| PermitScope {
                id: policy.id().to_string(),
                principal: slice::principal(policy),
                resource: slice::resource(policy),
            });
            (manifest.name.clone(), scopes.collect())
        };
        Self {
            rules: catalog.manifests().map(of_tool).collect(),
            permits: catalog.manifests().map(permits_of).collect(),
        }
    }
}

impl OfferRule {
    fn new(policy: &Policy, looks_at: Arc<LooksAt>, resource: &ResourceSpec) -> Self {
        let principal = match policy.principal_constraint() {
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
            PrincipalConstraint::In(uid)
            | PrincipalConstraint::Eq(uid)
            | PrincipalConstraint::IsIn(_, uid) => Some(uid),
        };
        // The ceiling is checked separately.
        let id = policy.id().to_string();
        let is_ceiling = id.starts_with("par.ceiling.");
        let may_hide = !asks(policy) && !is_ceiling && is_of_all(policy, resource);
        Self { id, effect: policy.effect(), principal, may_hide, looks_at }
    }
}

impl LooksAt {
    fn new(policy: &Policy) -> Self {
        let Ok(mut tree) = policy.to_json() else { return Self::Call };
        let conditions = tree.get("conditions").cloned().unwrap_or_default();
        if conditions.as_array().is_some_and(Vec::is_empty) {
            return Self::Nothing;
        }
        if looks_at_call(&conditions) {
            return Self::Call;
        }
        if let Some(members) = tree.as_object_mut() {
            members.insert("effect".to_owned(), json!("permit"));
            for scope in ["principal", "action", "resource"] {
                members.insert(scope.to_owned(), json!({ "op": "All" }));
            }
        }
        let alone = Policy::from_json(None, tree).ok().and_then(|one| PolicySet::from_policies([one]).ok());
        alone.map_or(Self::Call, |alone| Self::Principal(Box::new(alone)))
    }
}
