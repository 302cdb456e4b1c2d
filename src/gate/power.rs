//! Whether somebody may use a power of the API: asked in this one place, of the rules in force.
//!
//! The API, the dashboard, the admin socket and runs that go on come here. What changes something is recorded with the
//! request that let it in ([`Granted::record`]).

use super::counters;
use super::mint::granted::{Granted, Refused, may};
use super::point::Gate;
use super::rules::Rules;
use crate::auth::Principal;
use crate::policy::{Door, HeldOver, Over, Power, Ran};
use crate::types::clock::Wall;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What one caller sees of the objects of others, under the rules that were in force when it was asked for. Each
/// owner is asked about once.
#[derive(Debug)]
pub struct Sight {
    rules: Rules,
    by: Principal,
    power: Power,
    door: Door,
    owners: Mutex<BTreeMap<String, bool>>,
}

impl Gate {
    /// Whether `by` may use `power` over `over`, having come in by `door`.
    pub fn may(&self, by: &Principal, power: Power, over: Over<'_>, door: Door) -> Result<Granted, Refused> {
        may(&self.rules(), by, power, over, door, self.ran(by, power))
    }

    /// What `by` has run within the last hour, where `power` is asked about with it.
    fn ran(&self, by: &Principal, power: Power) -> Ran {
        if power != Power::Run {
            return Ran::default();
        }
        counters::ran_of(self.ledger().hour(&by.id(), Wall::now().0))
    }

    /// Whether `by` could use `power` at all: over the server now, over a run or an approval of somebody's.
    pub fn holds(&self, by: &Principal, power: Power, door: Door) -> Result<(), Refused> {
        let rules = self.rules();
        let owner = by.id();
        let is_of_somebody = power.over() != HeldOver::Server;
        if is_of_somebody && rules.bundle.may_ever(by.subject(), power) {
            return Ok(());
        }
        let over = if is_of_somebody { Over::Of { id: "any", owner: &owner } } else { Over::Server };
        may(&rules, by, power, over, door, self.ran(by, power)).map(|_| ())
    }

    /// What `by` may use `power` on, which is held over runs or approvals; refused where that can be nothing.
    pub fn sight(&self, by: &Principal, power: Power, door: Door) -> Result<Sight, Refused> {
        self.holds(by, power, door)?;
        Ok(Sight { rules: self.rules(), by: by.clone(), power, door, owners: Mutex::default() })
    }
}

impl Sight {
    /// Whether what `owner` has asked for is seen; the name is that of the ledger, such as `key:Ab3dEf9h`.
    #[must_use]
    pub fn sees(&self, owner: &str) -> bool {
        // A panic elsewhere leaves the map whole: each change is one insertion.
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = owners.get(owner) {
            return *known;
        }
        // No rule can name one object (`lint_power.rs`): the owner is all that tells them apart.
        let over = Over::Of { id: "any", owner };
        // Nothing that has an owner is run.
        let sees = may(&self.rules, &self.by, self.power, over, self.door, Ran::default()).is_ok();
        owners.insert(owner.to_owned(), sees);
        sees
    }
}
