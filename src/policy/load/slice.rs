//! Slicing: evaluates only those policies whose scope can match.
//!
//! A policy is filed for each tool and power in its action scope, under the entities in its
//! principal and resource scope, or under "any". A request looks under each entity that it
//! contains, and under "any". A policy that is not found there has a scope that is false: it can
//! neither match nor err, so the answer is that of all policies. A property test shows this, and a
//! canary checks it at each load.

use super::scope::is_for;
use crate::policy::ask::{ACTION, fits_ask};
use crate::policy::power::{Power, fits_power};
use crate::policy::request::cedar::Uid;
use crate::policy::request::error::RequestError;
use crate::tools::Catalog;
use cedar_policy::{Policy, PolicyId, PolicySet, PrincipalConstraint, ResourceConstraint};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Sets are cached as long as they hold no more policies than this, in addition to twice those of
/// the bundle.
const KEPT_POLICIES_MAX: usize = 1_024;

/// The policies of a bundle by action, principal and resource.
#[derive(Debug, Default)]
pub(in crate::policy) struct Slices {
    actions: BTreeMap<String, Drawer>,
    /// The policies of each file, in the order in which they were filed.
    files: Vec<Vec<PolicyId>>,
    policies: usize,
    made: Mutex<Made>,
}

/// For one action: principal → resource → file. `None` is "any".
type Drawer = HashMap<Option<Uid>, HashMap<Option<Uid>, usize>>;

/// Sets by the files that they are made of.
#[derive(Debug, Default)]
struct Made {
    sets: HashMap<Vec<usize>, Arc<PolicySet>>,
    policies: usize,
}

impl Slices {
    /// Files every policy of `set`.
    pub(in crate::policy) fn new(set: &PolicySet, catalog: &Catalog) -> Self {
        let mut slices = Self { policies: set.num_of_policies(), ..Self::default() };
        for manifest in catalog.manifests() {
            slices.fill(&manifest.name, set.policies().filter(|policy| is_for(policy, manifest)));
        }
        for power in Power::ALL {
            slices.fill(power.as_str(), set.policies().filter(|policy| fits_power(policy, power)));
        }
        slices.fill(ACTION, set.policies().filter(|policy| fits_ask(policy)));
        slices
    }

    fn fill<'a>(&mut self, action: &str, policies: impl Iterator<Item = &'a Policy>) {
        let mut drawer = Drawer::new();
        for policy in policies {
            let by_resource = drawer.entry(principal(policy)).or_default();
            let file = *by_resource.entry(resource(policy)).or_insert(self.files.len());
            if file == self.files.len() {
                self.files.push(Vec::new());
            }
            if let Some(file) = self.files.get_mut(file) {
                file.push(policy.id().clone());
            }
        }
        self.actions.insert(action.to_owned(), drawer);
    }

    /// The policies of `set` that a call or use of `action` can match. `uids` are all entities of
    /// the request, including those that are only named as a parent. `None` means most or all of
    /// them.
    pub(in crate::policy) fn slice<'a>(
        &self,
        set: &PolicySet,
        action: &str,
        uids: impl Iterator<Item = &'a Uid>,
    ) -> Result<Option<Arc<PolicySet>>, RequestError> {
        let Some(drawer) = self.actions.get(action) else { return Ok(None) };
        let keys: Vec<Option<Uid>> = uids.cloned().map(Some).chain([None]).collect();
        let by_resource = keys.iter().filter_map(|key| drawer.get(key));
        let mut found: Vec<usize> =
            by_resource.flat_map(|files| keys.iter().filter_map(|key| files.get(key).copied())).collect();
        found.sort_unstable();
        found.dedup();
        let policies = || found.iter().filter_map(|file| self.files.get(*file)).flatten();
        let count = policies().count();
        // A copy of nearly all of them would cost memory and save nothing.
        if count * 2 > self.policies {
            return Ok(None);
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slice) = made.sets.get(&found) {
            return Ok(Some(slice.clone()));
        }

        let mut slice = PolicySet::new();
        for id in policies() {
            slice
                .add(set.policy(id).ok_or(RequestError::LostPolicy)?.clone())
                .map_err(RequestError::cedar)?;
        }
        let slice = Arc::new(slice);
        if made.policies + count > KEPT_POLICIES_MAX + 2 * self.policies {
            *made = Made::default();
        }
        made.policies += count;
        made.sets.insert(found, slice.clone());
        Ok(Some(slice))
    }
}

/// The entity in the principal scope. A policy whose entity type no request contains is filed under
/// "any", and evaluated.
pub(in crate::policy) fn principal(policy: &Policy) -> Option<Uid> {
    match policy.principal_constraint() {
        PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
        PrincipalConstraint::In(uid) | PrincipalConstraint::Eq(uid) | PrincipalConstraint::IsIn(_, uid) => {
            Uid::from_entity(&uid)
        }
    }
}

/// The entity in the resource scope, in the same way.
pub(in crate::policy) fn resource(policy: &Policy) -> Option<Uid> {
    match policy.resource_constraint() {
        ResourceConstraint::Any | ResourceConstraint::Is(_) => None,
        ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) | ResourceConstraint::IsIn(_, uid) => {
            Uid::from_entity(&uid)
        }
    }
}
