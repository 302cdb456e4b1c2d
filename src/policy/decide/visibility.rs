//! Which tools a principal is offered.
//!
//! This is an estimate, not a proof: a condition that depends only on the principal and the action
//! is evaluated; any other condition is unknown before a call. In doubt a tool is offered, because
//! each call is decided anyway.

use crate::auth::Subject;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::offer_index::{LooksAt, OfferRule};
use crate::policy::request::build;
use crate::policy::request::groups::Groups;
use crate::policy::request::question::Session;
use crate::tools::Manifest;
use cedar_policy::{
    Authorizer, Context, Decision, Effect, Entities, EntityId, EntityTypeName, EntityUid, Request,
};
use std::cell::OnceCell;
use std::str::FromStr as _;
use std::sync::Arc;

/// One principal to which tools are offered.
pub(in crate::policy) struct Offering<'a> {
    bundle: &'a Bundle,
    subject: &'a Subject,
    session: &'a Session,
    groups: &'a Groups,
    uids: Vec<EntityUid>,
    entities: OnceCell<Option<Entities>>,
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

    /// Whether some permit could match a call of the tool, and no `forbid` matches every call.
    pub(in crate::policy) fn may(&self, manifest: &Manifest) -> bool {
        if !self.session.ceiling.contains(&manifest.name) {
            return false;
        }
        let mut is_permitted = false;
        for rule in self.rules(manifest) {
            match rule.effect {
                Effect::Forbid if self.hides(rule, manifest) => return false,
                Effect::Permit if !is_permitted => {
                    is_permitted = self.holds(&rule.looks_at, manifest) != Some(false);
                }
                _ => {}
            }
        }
        is_permitted
    }

    /// The `forbid` that matches every call of the tool; the first by its id of several.
    pub(in crate::policy) fn hidden_by(&self, manifest: &Manifest) -> Option<String> {
        let hides = |rule: &&OfferRule| rule.effect == Effect::Forbid && self.hides(rule, manifest);
        self.rules(manifest).filter(hides).map(|rule| rule.id.clone()).min()
    }

    /// The rules of the tool whose scope this principal matches.
    fn rules(&self, manifest: &Manifest) -> impl Iterator<Item = &OfferRule> {
        let fits = |rule: &&OfferRule| rule.principal.as_ref().is_none_or(|uid| self.uids.contains(uid));
        self.bundle.offer_index.rules(&manifest.name).iter().filter(fits)
    }

    fn hides(&self, rule: &OfferRule, manifest: &Manifest) -> bool {
        rule.may_hide && self.holds(&rule.looks_at, manifest) == Some(true)
    }

    /// Whether the conditions of a policy hold; `None` if that depends on the call.
    fn holds(&self, looks_at: &LooksAt, manifest: &Manifest) -> Option<bool> {
        match looks_at {
            LooksAt::Nothing => Some(true),
            LooksAt::Call => None,
            LooksAt::Principal(alone) => {
                let entities = self.entities.get_or_init(|| self.entities()).as_ref()?;
                let uid = |kind: &str, id: &str| {
                    let name = EntityTypeName::from_str(&format!("PAR::{kind}")).ok()?;
                    Some(EntityUid::from_type_name_and_id(name, EntityId::new(id)))
                };
                let principal = uid("Session", &self.session.id)?;
                let (action, any) = (uid("Action", &manifest.name)?, uid(manifest.resource.kind(), "")?);
                // Nothing in it depends on resource or context.
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

impl Bundle {
    /// Whether the tool of `manifest` is offered to `subject`: some permit could match, and no
    /// `forbid` matches every call. In doubt true, because each call is decided anyway.
    #[must_use]
    pub fn may_offer(&self, subject: &Subject, session: &Session, manifest: &Manifest) -> bool {
        self.may_offer_among(subject, session, manifest, &self.groups)
    }

    /// Does what [`Bundle::may_offer`] does, with other groups than the bundle's.
    pub(in crate::policy) fn may_offer_among(
        &self,
        subject: &Subject,
        session: &Session,
        manifest: &Manifest,
        groups: &Groups,
    ) -> bool {
        Offering::new(self, subject, session, groups).may(manifest)
    }

    /// The `manifests` that [`Bundle::may_offer`] allows.
    pub fn offered<'a>(
        &self,
        subject: &Subject,
        session: &Session,
        manifests: impl Iterator<Item = &'a Arc<Manifest>>,
    ) -> Vec<Arc<Manifest>> {
        let offering = Offering::new(self, subject, session, &self.groups);
        manifests.filter(|manifest| offering.may(manifest)).cloned().collect()
    }
}
