//! Which rule keeps a tool from being offered, and what would change that. For people only.

use super::nearest::{NearestPermit, named};
use super::visibility::Offering;
use crate::auth::Subject;
use crate::policy::load::built_in;
use crate::policy::load::bundle::Bundle;
use crate::policy::load::offer_index::PermitScope;
use crate::policy::request::build;
use crate::policy::request::cedar::Uid;
use crate::policy::request::question::Session;
use crate::tools::Manifest;
use std::collections::HashSet;

/// The origin of the rules that no file contains.
const BUILT_IN: &str = "built in";

impl Bundle {
    /// The rule because of which `manifest` is not offered: a `forbid` that matches every call, or
    /// else the permit with the fewest scopes that do not match. `None` if there is neither.
    #[must_use]
    pub fn withheld_by(
        &self,
        subject: &Subject,
        session: &Session,
        manifest: &Manifest,
    ) -> Option<NearestPermit> {
        let hidden = Offering::new(self, subject, session, &self.groups).hidden_by(manifest);
        let uids = build::principal_uids(subject, session, &self.groups);
        let uids: HashSet<&Uid> = uids.iter().collect();
        let permits = self.offer_index.permits(&manifest.name);
        let is_mine = |one: &&PermitScope| one.principal.as_ref().is_none_or(|uid| uids.contains(uid));
        let Some(policy) = hidden else {
            let nearest = permits.iter().min_by_key(|one| u8::from(!is_mine(one)))?;
            let why = match nearest.principal.as_ref().filter(|uid| !uids.contains(*uid)) {
                Some(uid) => format!("is for {}", named(uid)),
                None => "does not apply to this caller".to_owned(),
            };
            let (policy, origin) = (nearest.id.clone(), self.origin(&nearest.id));
            return Some(NearestPermit { policy, origin, why });
        };
        let origin = self.origin(&policy).unwrap_or_else(|| BUILT_IN.to_owned());
        let lifting = permits.iter().find(is_mine).filter(|_| policy == built_in::TAINTED);
        let why = match lifting {
            None => "forbids every call of this tool by this caller".to_owned(),
            Some(permit) => {
                let at = self.origin(&permit.id).map_or_else(String::new, |at| format!(" ({at})"));
                format!(
                    "takes it from a run that has read untrusted text; `@tainted(\"confirm\")` on {}{at} would let \
                     a person confirm this call",
                    permit.id
                )
            }
        };
        Some(NearestPermit { policy, origin: Some(origin), why })
    }
}
