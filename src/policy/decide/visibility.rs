//! Which tools a principal is shown at all.
//!
//! Tried, not proven: a condition that looks at nothing but the principal and the action is evaluated with
//! what is known of them; of every other one nothing is known before the call. In doubt a tool is shown,
//! since each call is decided anyway.

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

/// One principal, as it is shown tools.
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

    /// Whether some permit could be met for the tool of `manifest`, and no forbid is met by every call.
    pub(in crate::policy) fn may(&self, manifest: &Manifest) -> bool {
        if !self.session.ceiling.contains(&manifest.name) {
            return false;
        }
        let fits = |rule: &&OfferRule| rule.principal.as_ref().is_none_or(|uid| self.uids.contains(uid));
        let mut is_permitted = false;
        for rule in self.bundle.offer_index.rules(&manifest.name).iter().filter(fits) {
            match rule.effect {
                Effect::Forbid if rule.may_hide && self.holds(&rule.looks_at, manifest) == Some(true) => {
                    return false;
                }
                Effect::Permit if !is_permitted => {
                    is_permitted = self.holds(&rule.looks_at, manifest) != Some(false);
                }
                _ => {}
            }
        }
        is_permitted
    }

    /// Whether the conditions of a policy hold; `None` where only a call tells.
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

impl Bundle {
    /// Whether the tool of `manifest` is shown to `subject`: some permit could be met, and no forbid is met
    /// whatever the call is. In doubt yes: each call is decided anyway.
    #[must_use]
    pub fn may_offer(&self, subject: &Subject, session: &Session, manifest: &Manifest) -> bool {
        self.may_offer_among(subject, session, manifest, &self.groups)
    }

    /// As [`Bundle::may_offer`], with other groups than the bundle's.
    pub(in crate::policy) fn may_offer_among(
        &self,
        subject: &Subject,
        session: &Session,
        manifest: &Manifest,
        groups: &Groups,
    ) -> bool {
        Offering::new(self, subject, session, groups).may(manifest)
    }

    /// Those of `manifests` that [`Bundle::may_offer`] offers.
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
