//! The action `model.ask`: a request to a language model. It is neither a tool nor a power.

use cedar_policy::{
    ActionConstraint, EntityTypeName, EntityUid, Policy, PrincipalConstraint, ResourceConstraint,
};

/// The name of the action. No tool can have it: names of tools contain no dot.
pub const ACTION: &str = "model.ask";
/// The type of its resource.
pub(super) const SINK: &str = "Sink";
/// The `kind` of its resource.
pub(super) const KIND: &str = "model";

/// Whether the scope of `policy` can match a request to a model, by any principal.
pub(super) fn fits_ask(policy: &Policy) -> bool {
    let is_ask = |uid: &EntityUid| uid.id().unescaped() == ACTION;
    let is_sink = |kind: &EntityTypeName| kind.basename() == SINK;
    let is_session = |kind: &EntityTypeName| kind.basename() == "Session";
    let of_action = match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::In(uids) => uids.iter().any(is_ask),
        ActionConstraint::Eq(uid) => is_ask(&uid),
    };
    let of_principal = match policy.principal_constraint() {
        PrincipalConstraint::Is(kind) | PrincipalConstraint::IsIn(kind, _) => is_session(&kind),
        PrincipalConstraint::Eq(uid) => is_session(uid.type_name()),
        PrincipalConstraint::Any | PrincipalConstraint::In(_) => true,
    };
    let of_resource = match policy.resource_constraint() {
        ResourceConstraint::Is(kind) | ResourceConstraint::IsIn(kind, _) => is_sink(&kind),
        ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) => is_sink(uid.type_name()),
        ResourceConstraint::Any => true,
    };
    of_action && of_principal && of_resource
}
