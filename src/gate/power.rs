//! Whether somebody may use a power of the API: asked in this one place, of the rules in force.
//!
//! The API, the dashboard, the admin socket and runs that go on come here. What changes something is recorded with the
//! request that let it in ([`Granted::json`]).

use super::counters;
use super::decide::Gate;
use super::rules::Rules;
use crate::auth::Principal;
use crate::policy::{Door, Over, Power, Ran, Ruling, Use, Verdict};
use crate::types::Digest;
use crate::types::clock::Wall;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A power that the rules in force have granted for one use. Made only by [`Gate::may`].
#[derive(Debug)]
#[must_use = "what is done by a power is recorded with it"]
pub struct Granted {
    power: Power,
    policy: Digest,
    policies: Vec<String>,
    request: Value,
}

/// Why a power is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    power: Power,
    role: &'static str,
    policies: Vec<String>,
    advice: Vec<String>,
    has_errors: bool,
    is_closed: bool,
}

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
        let is_of_somebody = power.over() != "Server";
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

fn may(
    rules: &Rules,
    by: &Principal,
    power: Power,
    over: Over<'_>,
    door: Door,
    ran: Ran,
) -> Result<Granted, Refused> {
    let (subject, expires_us, now_us) = (by.subject(), by.expires_us(), Wall::now().0);
    let Verdict { answer, request, .. } =
        rules.bundle.decide_use(&Use { subject, power, over, door, expires_us, now_us, ran });
    let refused = |policies, advice, has_errors| Refused {
        power,
        role: by.role().as_str(),
        policies,
        advice,
        has_errors,
        is_closed: !rules.bundle.broken().is_empty(),
    };
    match answer {
        Ruling::Allow { policies } => Ok(Granted { power, policy: rules.bundle.digest(), policies, request }),
        Ruling::Deny { policies, advice, errors, .. } => {
            errors.iter().for_each(|error| tracing::error!(power = power.as_str(), %error, "denied"));
            Err(refused(policies, advice, !errors.is_empty()))
        }
        // Nobody is asked about a power.
        Ruling::NeedsApproval { policies, .. } => Err(refused(policies, Vec::new(), false)),
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

impl Granted {
    /// As the ledger keeps it: `name`, `policies` (the determining ones), `policy` (the bundle's digest) and the whole
    /// Cedar `request`, which that bundle answers the same way.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.power.as_str(),
            "policies": self.policies,
            "policy": self.policy.hex(),
            "request": self.request,
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = self.power.as_str();
        if self.is_closed {
            return write!(
                f,
                "the policies on disk could not be loaded, and so nobody holds `{power}` that is not needed to mend \
                 them: `par policy check` says what is wrong, `par reload` loads them"
            );
        }
        match self.policies.as_slice() {
            _ if self.has_errors => write!(f, "`{power}`: the policy could not be evaluated")?,
            [] => write!(f, "the role `{}` does not hold `{power}`", self.role)?,
            some => write!(f, "`{power}` is forbidden by {}", some.join(", "))?,
        }
        match self.advice.as_slice() {
            [] => Ok(()),
            some => write!(f, ": {}", some.join("; ")),
        }
    }
}

impl std::error::Error for Refused {}
