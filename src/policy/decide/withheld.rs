//! Which rule takes a tool from a run that has read untrusted text, and what would change that. For
//! people only.

use super::nearest::NearestPermit;
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
    /// The rule because of which `manifest`, which the caller may use, is not offered in a tainted
    /// session: a `forbid` that matches every call, or else a permit that does not cover such runs.
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
        let is_mine = |one: &&PermitScope| one.principal.as_ref().is_none_or(|uid| uids.contains(uid));
        let permit = self.offer_index.permits(&manifest.name).iter().find(is_mine);
        let policy = hidden.or_else(|| permit.map(|permit| permit.id.clone()))?;
        let why = match permit {
            Some(permit) if policy == built_in::TAINTED => {
                let at = self.origin(&permit.id).map_or_else(String::new, |at| format!(" ({at})"));
                format!(
                    "takes it from a run that has read untrusted text; `@tainted(\"confirm\")` on {}{at} would let \
                     a person confirm this call",
                    permit.id
                )
            }
            _ => "keeps it from a run that has read untrusted text".to_owned(),
        };
        let origin = self.origin(&policy).unwrap_or_else(|| BUILT_IN.to_owned());
        Some(NearestPermit { policy, origin: Some(origin), why })
    }
}
