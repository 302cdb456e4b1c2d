//! Whether a principal may use a power of the API. Only this module asks the rules in force.
//!
//! The API, the dashboard, the admin socket and resumed runs use it. A change is recorded together
//! with the request that allowed it ([`Granted::record`]).

use super::counters;
use super::mint::granted::{Granted, Refused, may};
use super::point::Gate;
use super::rules::Rules;
use crate::auth::Principal;
use crate::policy::{Door, HeldOver, Over, Power, Ran};
use crate::types::clock::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Which other callers' objects one caller may see, under the rules in force when it was created.
/// Decides once for each owner.
#[derive(Debug)]
pub struct Sight {
    rules: Rules,
    by: Principal,
    power: Power,
    door: Door,
    /// Other callers that are the same person.
    same: BTreeSet<String>,
    owners: Mutex<BTreeMap<String, bool>>,
}

impl Gate {
    /// Whether `by`, connected through `door`, may use `power` on `over`.
    pub fn may(&self, by: &Principal, power: Power, over: Over<'_>, door: Door) -> Result<Granted, Refused> {
        may(&self.rules(), by, power, over, door, self.ran(by, power))
    }

    /// The runs of `by` within the last hour, for the power that is decided with them.
    fn ran(&self, by: &Principal, power: Power) -> Ran {
        if power != Power::Run {
            return Ran::default();
        }
        counters::ran_of(self.ledger().hour(&by.id(), Wall::now().0))
    }

    /// Whether `by` could use `power` at all: on the server now, or on some run or approval.
    pub fn holds(&self, by: &Principal, power: Power, door: Door) -> Result<(), Refused> {
        let rules = self.rules();
        let owner = by.id();
        let is_of_somebody = power.over() != HeldOver::Server;
        if is_of_somebody && rules.bundle.may_ever(by.subject(), power) {
            return Ok(());
        }
        let over = if is_of_somebody { Over::Owned { id: "any", owner: &owner } } else { Over::Server };
        may(&rules, by, power, over, door, self.ran(by, power)).map(|_| ())
    }

    /// Whose objects `by` may use `power` on, for powers over runs or approvals.
    ///
    /// # Errors
    ///
    /// No object exists that `by` could use it on.
    pub fn sight(&self, by: &Principal, power: Power, door: Door) -> Result<Sight, Refused> {
        self.holds(by, power, door)?;
        let (rules, same) = (self.rules(), BTreeSet::new());
        Ok(Sight { rules, by: by.clone(), power, door, same, owners: Mutex::default() })
    }
}

impl Sight {
    /// Also sees what the callers `same` own, as if it were the caller's own: other keys of the
    /// same user, and the user of this host. A rule that forbids one of these owners still holds.
    #[must_use]
    pub fn of_user(self, same: BTreeSet<String>) -> Self {
        Self { same, owners: Mutex::default(), ..self }
    }

    /// Whether objects of `owner` are visible. `owner` is the name on the ledger, such as
    /// `key:Ab3dEf9h`.
    #[must_use]
    pub fn sees(&self, owner: &str) -> bool {
        // A panic elsewhere leaves the map consistent: each change is one insertion.
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = owners.get(owner) {
            return *known;
        }
        // No rule can name a single object (`lint/powers.rs`): only the owner matters.
        // The power `run` has no owner, so its counts do not matter here.
        let may_of = |owner: &str| {
            let over = Over::Owned { id: "any", owner };
            may(&self.rules, &self.by, self.power, over, self.door, Ran::default())
        };
        let sees = match may_of(owner) {
            Ok(_) => true,
            Err(refused) => {
                refused.is_unpermitted() && self.same.contains(owner) && may_of(&self.by.id()).is_ok()
            }
        };
        owners.insert(owner.to_owned(), sees);
        sees
    }
}
