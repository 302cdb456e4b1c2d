//! Decides uses of powers.

use super::decision::{Evaluation, refuse_error};
use super::explain::Considered;
use super::ruling::Ruling;
use crate::auth::Subject;
use crate::policy::load::bundle::Bundle;
use crate::policy::power::{HeldOver, Power, fits_power};
use crate::policy::request::groups::Groups;
use crate::policy::request::power_use;
use crate::policy::uses::{Door, Over, Ran, Use};
use cedar_policy::{Authorizer, Decision, Effect};
use serde_json::json;

impl Bundle {
    /// Decides a use of a power. As with a call, any doubt is a deny. A power cannot wait for
    /// approval.
    #[must_use]
    pub fn decide_use(&self, asked: &Use<'_>) -> Evaluation {
        self.decide_use_among(asked, &self.groups)
    }

    /// Does what [`Bundle::decide_use`] does, with other groups than the bundle's.
    pub(in crate::policy) fn decide_use_among(&self, asked: &Use<'_>, groups: &Groups) -> Evaluation {
        if (asked.power.over() == HeldOver::Server) != (asked.over == Over::Server) {
            let error =
                format!("`{}` is a power over a `{}`", asked.power.as_str(), asked.power.over().as_str());
            let answer = refuse_error(vec![error]);
            return Evaluation { answer, request: json!({}), shadow: None };
        }
        let built = power_use::build(asked, groups);
        let (answer, shadow) = self.answers_whole(&built, groups);
        Evaluation { answer: self.advised(answer, asked.power), request: built.json(), shadow }
    }

    /// Adds the `@advice` of the permits for `power` to a refusal that no `forbid` explains.
    fn advised(&self, answer: Ruling, power: Power) -> Ruling {
        match answer {
            Ruling::Deny { policies, reason, errors, .. } if policies.is_empty() && errors.is_empty() => {
                let permits = self.set.policies().filter(|policy| policy.effect() == Effect::Permit);
                let advice = permits.filter(|policy| fits_power(policy, power));
                let advice = advice.filter_map(|policy| policy.annotation("advice")).map(str::to_owned);
                Ruling::Deny { policies, reason, advice: advice.collect(), errors }
            }
            other => other,
        }
    }

    /// Whether the same caller could ever be allowed to use `power`, at any time, from any address,
    /// on any object: a permit whose conditions depend on context or resource counts as matching, a
    /// `forbid` with such conditions does not. In doubt true.
    #[must_use]
    pub fn may_ever(&self, subject: &Subject, power: Power) -> bool {
        let owner = subject.id();
        let over = if power.over() == HeldOver::Server {
            Over::Server
        } else {
            Over::Owned { id: "", owner: &owner }
        };
        let asked =
            Use { subject, power, over, door: Door::LOCAL, expires_us: None, now_us: 0, ran: Ran::default() };
        let Ok((request, entities)) =
            power_use::build(&asked, &self.groups).cedar(&self.schema, &self.actions)
        else {
            return true;
        };
        let response = Authorizer::new().is_authorized(&request, &self.ever, &entities);
        response.decision() == Decision::Allow || response.diagnostics().errors().next().is_some()
    }

    /// Each policy that can match a use of the same power, evaluated alone.
    #[must_use]
    pub fn explain_use(&self, asked: &Use<'_>) -> Vec<Considered> {
        self.explain_use_among(asked, &self.groups)
    }

    pub(in crate::policy) fn explain_use_among(&self, asked: &Use<'_>, groups: &Groups) -> Vec<Considered> {
        let cedar = power_use::build(asked, groups).cedar(&self.schema, &self.actions);
        let in_reach = self.set.policies().filter(|policy| fits_power(policy, asked.power));
        in_reach.map(|policy| self.consider(policy, cedar.as_ref())).collect()
    }
}
