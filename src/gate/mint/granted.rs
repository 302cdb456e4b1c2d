//! A power of the API, granted for one use.

use crate::auth::Principal;
use crate::gate::rules::Rules;
use crate::ledger::payload::PowerUsed;
use crate::policy::{Door, Evaluation, Over, Power, Ran, Ruling, Use};
use crate::types::Digest;
use crate::types::clock::Wall;
use serde_json::Value;
use std::fmt;

/// A power that the rules in force have granted for one use. Made only here, from the answer of the
/// rules to exactly this use.
#[derive(Debug)]
#[must_use = "what is done by a power is recorded with it"]
pub struct Granted {
    power: Power,
    policy: Digest,
    policies: Vec<String>,
    request: Value,
}

/// Why a power is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    power: Power,
    role: &'static str,
    policies: Vec<String>,
    advice: Vec<String>,
    has_errors: bool,
    is_closed: bool,
}

/// Asks `rules` whether `by`, connected through `door` and with the runs in `ran`, may use `power`
/// on `over`.
pub(in crate::gate) fn may(
    rules: &Rules,
    by: &Principal,
    power: Power,
    over: Over<'_>,
    door: Door,
    ran: Ran,
) -> Result<Granted, Refused> {
    let (subject, expires_us, now_us) = (by.subject(), by.expires_us(), Wall::now().0);
    let Evaluation { answer, request, .. } =
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
        // A power cannot wait for approval.
        Ruling::NeedsApproval { policies, .. } => Err(refused(policies, Vec::new(), false)),
    }
}

impl Granted {
    /// As it is recorded on the ledger: `name`, `policies` (the determining ones), `policy` (the
    /// bundle's digest) and the whole Cedar `request`, which that bundle answers the same way.
    #[must_use]
    pub fn record(&self) -> PowerUsed {
        PowerUsed {
            name: self.power.as_str().to_owned(),
            policies: self.policies.clone(),
            policy: self.policy,
            request: self.request.clone(),
        }
    }
}

impl Refused {
    /// Whether nothing forbids it, and nothing permits it either.
    #[must_use]
    pub fn is_unpermitted(&self) -> bool {
        self.policies.is_empty() && !self.has_errors && !self.is_closed
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = self.power.as_str();
        if self.is_closed {
            return write!(
                f,
                "the policies on disk could not be loaded, and `{power}` is not among the powers that remain \
                 to repair them: `par policy check` shows the faults, `par reload` loads them"
            );
        }
        match self.policies.as_slice() {
            _ if self.has_errors => write!(f, "`{power}`: the policy could not be evaluated")?,
            [] => write!(f, "the role `{}` does not have the power `{power}`", self.role)?,
            some => write!(f, "`{power}` is forbidden by {}", some.join(", "))?,
        }
        match self.advice.as_slice() {
            [] => Ok(()),
            some => write!(f, ": {}", some.join("; ")),
        }
    }
}
