//! What the scope of a policy can match, and what its conditions depend on.

use crate::tools::{Class, Manifest, ResourceSpec};
use cedar_policy::{ActionConstraint, EntityTypeName, EntityUid, Policy, ResourceConstraint};
use serde_json::Value;

/// Whether the scope of `policy` can match a call of `tool`, which has the class `class`.
pub(in crate::policy) fn fits_action(policy: &Policy, tool: &str, class: Class) -> bool {
    let names = |uid: &EntityUid| [tool, class.as_str(), "call_tool"].contains(&uid.id().unescaped());
    match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::In(uids) => uids.iter().any(names),
        ActionConstraint::Eq(uid) => names(&uid),
    }
}

/// Whether a call of the tool can match the action and the resource type of `policy`.
pub(in crate::policy) fn is_for(policy: &Policy, manifest: &Manifest) -> bool {
    let is_kind = |kind: &EntityTypeName| manifest.resource_kinds().any(|known| known == kind.basename());
    fits_action(policy, &manifest.name, manifest.class)
        && match policy.resource_constraint() {
            // The schema has the resource types of each tool, and requests are checked against it.
            ResourceConstraint::Is(kind) | ResourceConstraint::IsIn(kind, _) => is_kind(&kind),
            ResourceConstraint::Any | ResourceConstraint::In(_) | ResourceConstraint::Eq(_) => true,
        }
}

/// Only paths have parents, so a scope that names a resource matches that resource's type only.
pub(in crate::policy) fn fits_resource(policy: &Policy, resource: &ResourceSpec) -> bool {
    let is_kind = |kind: &EntityTypeName| kind.basename() == resource.kind();
    match policy.resource_constraint() {
        ResourceConstraint::Any => true,
        ResourceConstraint::Is(kind) => is_kind(&kind),
        ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) | ResourceConstraint::IsIn(_, uid) => {
            let is_one = match resource {
                ResourceSpec::Path { .. } | ResourceSpec::Id { .. } | ResourceSpec::Host { .. } => true,
                ResourceSpec::Fixed { id, .. } => uid.id().unescaped() == id,
            };
            is_one && is_kind(uid.type_name())
        }
    }
}

/// Whether a scope that can match a tool's resources matches all of them.
pub(in crate::policy) fn is_of_all(policy: &Policy, resource: &ResourceSpec) -> bool {
    match policy.resource_constraint() {
        ResourceConstraint::Any | ResourceConstraint::Is(_) => true,
        ResourceConstraint::In(_) | ResourceConstraint::Eq(_) | ResourceConstraint::IsIn(..) => {
            matches!(resource, ResourceSpec::Fixed { .. })
        }
    }
}

/// Whether a condition mentions the resource or the context anywhere. A literal that looks like
/// such a variable in Cedar's JSON tree counts as one: in doubt a tool is offered.
pub(in crate::policy) fn looks_at_call(tree: &Value) -> bool {
    match tree {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_var = name == "Var" && matches!(value.as_str(), Some("resource" | "context"));
            is_var || looks_at_call(value)
        }),
        Value::Array(items) => items.iter().any(looks_at_call),
        _ => false,
    }
}
