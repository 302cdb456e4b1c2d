//! Decides requests to language models.

use super::decision::Evaluation;
use super::explain::Considered;
use crate::policy::ask::fits_ask;
use crate::policy::load::bundle::Bundle;
use crate::policy::request::ask;
use crate::policy::request::error::RequestError;
use crate::policy::request::groups::Groups;
use crate::policy::request::question::AskQuestion;
use cedar_policy::{Effect, Entities, Request};

impl Bundle {
    /// Decides a request to a model. As with a call, any doubt is a deny. It cannot wait for a
    /// person.
    #[must_use]
    pub fn decide_ask(&self, asked: &AskQuestion<'_>) -> Evaluation {
        self.decide_ask_among(asked, &self.groups)
    }

    /// Does what [`Bundle::decide_ask`] does, with other groups than the bundle's.
    pub(in crate::policy) fn decide_ask_among(&self, asked: &AskQuestion<'_>, groups: &Groups) -> Evaluation {
        let built = ask::build(asked, groups);
        let (answer, shadow) = self.answers_whole(&built, groups);
        Evaluation { answer, request: built.json(), shadow }
    }

    /// Whether some permit, whatever its conditions, is for requests to models. A home that was set
    /// up before there was the action has none.
    #[must_use]
    pub fn permits_models(&self) -> bool {
        self.set.policies().any(|policy| policy.effect() == Effect::Permit && fits_ask(policy))
    }

    /// Each policy that can match a request to a model, evaluated alone.
    #[must_use]
    pub fn explain_ask(&self, asked: &AskQuestion<'_>) -> Vec<Considered> {
        self.explain_ask_among(asked, &self.groups)
    }

    pub(in crate::policy) fn explain_ask_among(
        &self,
        asked: &AskQuestion<'_>,
        groups: &Groups,
    ) -> Vec<Considered> {
        self.consider_asks(ask::build(asked, groups).cedar(&self.schema, &self.actions).as_ref())
    }

    /// Each policy that can match a request to a model, evaluated alone on `asked`.
    pub(in crate::policy) fn consider_asks(
        &self,
        asked: Result<&(Request, Entities), &RequestError>,
    ) -> Vec<Considered> {
        let in_reach = self.set.policies().filter(|policy| fits_ask(policy));
        in_reach.map(|policy| self.consider(policy, asked)).collect()
    }
}
