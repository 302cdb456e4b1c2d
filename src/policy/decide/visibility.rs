//! Which tools a principal is shown at all.
//!
//! Tried, not proven: a condition that looks at nothing but the principal and the action is evaluated with
//! what is known of them; of every other one nothing is known before the call. In doubt a tool is shown,
//! since each call is decided anyway.

use crate::policy::load::bundle::Bundle;
use crate::policy::request::groups::Groups;
use crate::policy::request::question::Session;
use crate::policy::request::build;
use crate::auth::Subject;
use crate::tools::{Catalog, Class, Manifest, Resource};
use cedar_policy::{
    ActionConstraint, Authorizer, Context, Decision, Effect, Entities, EntityId, EntityTypeName, EntityUid,
    Policy, PolicySet, PrincipalConstraint, Request, ResourceConstraint,
};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::sync::Arc;

/// What is known of the policies for each tool before there is a call.
#[derive(Debug, Default)]
pub(in crate::policy) struct Looks(BTreeMap<String, Vec<Seen>>);

/// A policy whose action and resource scope fit a tool.
#[derive(Debug)]
struct Seen {
    effect: Effect,
    /// What the principal has to be or to be in; `None` is anybody.
    principal: Option<EntityUid>,
    /// Whether a forbid that is met by every call hides the tool: it asks nobody, and fits all resources.
    may_hide: bool,
    look: Arc<Look>,
}

/// What the conditions of a policy look at.
#[derive(Debug)]
enum Look {
    /// There are none.
    Nothing,
    /// The principal and the action alone; a permit of anything under these conditions.
    Principal(Box<PolicySet>),
    /// The call.
    Call,
}

/// One principal, as it is shown tools.
pub(in crate::policy) struct Offering<'a> {
    bundle: &'a Bundle,
    subject: &'a Subject,
    session: &'a Session,
    groups: &'a Groups,
    uids: Vec<EntityUid>,
    entities: OnceCell<Option<Entities>>,
}

impl Looks {
    pub(in crate::policy) fn of(set: &PolicySet, catalog: &Catalog) -> Self {
        let looks: Vec<(&Policy, Arc<Look>)> =
            set.policies().map(|policy| (policy, Arc::new(Look::of(policy)))).collect();
        let of_tool = |manifest: &Arc<Manifest>| {
            let fits = looks.iter().filter(|(policy, _)| {
                fits_action(policy, &manifest.name, manifest.class)
                    && fits_resource(policy, &manifest.resource)
            });
            let seen = fits.map(|(policy, look)| Seen::of(policy, look.clone(), &manifest.resource));
            (manifest.name.clone(), seen.collect())
        };
        Self(catalog.manifests().map(of_tool).collect())
    }
}

impl Seen {
    fn of(policy: &Policy, look: Arc<Look>, resource: &Resource) -> Self {
        let principal = match policy.principal_constraint() {
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
            PrincipalConstraint::In(uid)
            | PrincipalConstraint::Eq(uid)
            | PrincipalConstraint::IsIn(_, uid) => Some(uid),
        };
        let is_asking =
            ["require_approval", "require_confirm"].iter().any(|name| policy.annotation(name).is_some());
        // The ceiling is looked at beside.
        let is_ceiling = policy.id().to_string().starts_with("par.ceiling.");
        let may_hide = !is_asking && !is_ceiling && is_of_all(policy, resource);
        Self { effect: policy.effect(), principal, may_hide, look }
    }
}

impl Look {
    fn of(policy: &Policy) -> Self {
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

/// Whether a condition names the resource or the context anywhere. What is no literal of Cedar's own tree
/// and has that name is taken for one: in doubt a tool is shown.
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

impl<'a> Offering<'a> {
    pub(in crate::policy) fn new(
        bundle: &'a Bundle,
        subject: &'a Subject,
        session: &'a Session,
        groups: &'a Groups,
    ) -> Self {
        let uids = build::principal_uids(subject, session, groups);
        let uids = uids.iter().filter_map(|uid| uid.cedar().ok()).collect();
        Self { bundle, subject, session, groups, uids, entities: OnceCell::new() }
    }

    /// Whether some permit could be met for the tool of `manifest`, and no forbid is met by every call.
    pub(in crate::policy) fn may(&self, manifest: &Manifest) -> bool {
        if !self.session.ceiling.contains(&manifest.name) {
            return false;
        }
        let seen = self.bundle.looks.0.get(&manifest.name).map(Vec::as_slice).unwrap_or_default();
        let fits = |seen: &&Seen| seen.principal.as_ref().is_none_or(|uid| self.uids.contains(uid));
        let mut is_permitted = false;
        for seen in seen.iter().filter(fits) {
            match seen.effect {
                Effect::Forbid if seen.may_hide && self.holds(&seen.look, manifest) == Some(true) => {
                    return false;
                }
                Effect::Permit if !is_permitted => {
                    is_permitted = self.holds(&seen.look, manifest) != Some(false);
                }
                _ => {}
            }
        }
        is_permitted
    }

    /// Whether the conditions of a policy hold; `None` where only a call tells.
    fn holds(&self, look: &Look, manifest: &Manifest) -> Option<bool> {
        match look {
            Look::Nothing => Some(true),
            Look::Call => None,
            Look::Principal(alone) => {
                let entities = self.entities.get_or_init(|| self.entities()).as_ref()?;
                let uid = |kind: &str, id: &str| {
                    let name = EntityTypeName::from_str(&format!("PAR::{kind}")).ok()?;
                    Some(EntityUid::from_type_name_and_id(name, EntityId::new(id)))
                };
                let principal = uid("Session", &self.session.id)?;
                let (action, any) = (uid("Action", &manifest.name)?, uid(manifest.resource.kind(), "")?);
                // Nothing in it looks at resource or context.
                let request = Request::new(principal, action, any, Context::empty(), None).ok()?;
                let response = Authorizer::new().is_authorized(&request, alone, entities);
                let is_sure = response.diagnostics().errors().next().is_none();
                is_sure.then(|| response.decision() == Decision::Allow)
            }
        }
    }

    fn entities(&self) -> Option<Entities> {
        build::principal_entities(self.subject, self.session, self.groups, &self.bundle.schema).ok()
    }
}

pub(in crate::policy) fn fits_action(policy: &Policy, tool: &str, class: Class) -> bool {
    let names = |uid: &EntityUid| [tool, class.as_str(), "call_tool"].contains(&uid.id().unescaped());
    match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::In(uids) => uids.iter().any(names),
        ActionConstraint::Eq(uid) => names(&uid),
    }
}

/// No entity but a path is in another, so a scope that names a resource fits its own type only.
fn fits_resource(policy: &Policy, resource: &Resource) -> bool {
    let is_kind = |kind: &EntityTypeName| kind.basename() == resource.kind();
    match policy.resource_constraint() {
        ResourceConstraint::Any => true,
        ResourceConstraint::Is(kind) => is_kind(&kind),
        ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) | ResourceConstraint::IsIn(_, uid) => {
            let is_one = match resource {
                Resource::Path { .. } | Resource::Id { .. } | Resource::Host { .. } => true,
                Resource::Fixed { id, .. } => uid.id().unescaped() == id,
            };
            is_one && is_kind(uid.type_name())
        }
    }
}

/// Whether a scope that fits a tool's resources fits all of them.
fn is_of_all(policy: &Policy, resource: &Resource) -> bool {
    match policy.resource_constraint() {
        ResourceConstraint::Any | ResourceConstraint::Is(_) => true,
        ResourceConstraint::In(_) | ResourceConstraint::Eq(_) | ResourceConstraint::IsIn(..) => {
            matches!(resource, Resource::Fixed { .. })
        }
    }
}
