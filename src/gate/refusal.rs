//! Refusals: why a call is denied, by what, and what the model reads of it.
//!
//! A reason is for people. The model reads words that name no rule, the same when a decision is
//! made and when it is read back.

use super::stops::StopInForce;
use crate::policy::{Evaluation, Ruling};
use crate::types::{Decision, RefusalClass};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The words for the model about a call that the rules deny.
const NOT_PERMITTED: &str = "no policy permits this call";
/// The words for the model about an object outside the tool's folders.
const NOT_FOUND: &str = "not permitted or not found";
/// The built-in rule about such objects.
const OUTSIDE: &str = "par.outside";

/// What keeps a call from being decided by the policies, or from running as they decided.
#[derive(Clone, Debug)]
pub(super) struct Obstacle {
    class: RefusalClass,
    reason: Cow<'static, str>,
}

impl Obstacle {
    pub(super) fn new(class: RefusalClass, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { class, reason: reason.into() }
    }

    /// What follows from the rules without a question to them.
    pub(super) fn by_policy(reason: &'static str) -> Self {
        Self::new(RefusalClass::Policy, reason)
    }

    /// The sandbox cannot do what the call needs, or its claim about the object is impossible.
    pub(super) fn by_host(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(RefusalClass::Host, reason)
    }
}

/// The answer to a call, and the class of a deny that is not the policies'.
#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) evaluation: Evaluation,
    class: RefusalClass,
}

impl Judgement {
    pub(super) fn answer(&self) -> &Ruling {
        &self.evaluation.answer
    }

    pub(super) fn is_allow(&self) -> bool {
        matches!(self.answer(), Ruling::Allow { .. })
    }

    pub(super) fn is_deny(&self) -> bool {
        self.answer().decision() == Decision::Deny
    }

    /// The same answer, given while `stop` covers the call: a deny is explained by it.
    pub(super) fn under(self, stop: Option<&StopInForce>) -> Self {
        match (self.evaluation.answer, stop) {
            (Ruling::Deny { policies, errors, .. }, Some(stop)) => {
                let (reason, advice) = (stop.to_string(), Vec::new());
                let answer = Ruling::Deny { policies, reason, advice, errors };
                Self { evaluation: Evaluation { answer, ..self.evaluation }, class: RefusalClass::Halt }
            }
            (answer, _) => Self { evaluation: Evaluation { answer, ..self.evaluation }, class: self.class },
        }
    }

    /// The class of the refusal, if it is one.
    pub(super) fn class(&self) -> Option<RefusalClass> {
        self.is_deny().then_some(self.class)
    }
}

impl From<Evaluation> for Judgement {
    fn from(evaluation: Evaluation) -> Self {
        Self { evaluation, class: RefusalClass::Policy }
    }
}

impl From<Obstacle> for Judgement {
    fn from(obstacle: Obstacle) -> Self {
        let Obstacle { class, reason } = obstacle;
        let reason = reason.into_owned();
        let (policies, advice, errors) = (Vec::new(), Vec::new(), vec![reason.clone()]);
        let answer = Ruling::Deny { policies, reason, advice, errors };
        Self { evaluation: Evaluation { answer, request: json!({}), shadow: None }, class }
    }
}

/// The result of a refused call, for people.
pub(super) fn refusal(reason: &str, advice: &[String]) -> Value {
    let mut refused = Map::from_iter([("error".to_owned(), json!(reason))]);
    if !advice.is_empty() {
        refused.insert("advice".to_owned(), json!(advice));
    }
    Value::Object(refused)
}

/// The words that the model reads in place of the reason, if the policies were asked: which of them
/// decided is not for it. Other reasons are PAR's own words.
pub(super) fn told(
    class: Option<RefusalClass>,
    request: Option<&Value>,
    policies: &[String],
) -> Option<&'static str> {
    let was_asked = request.and_then(Value::as_object).is_some_and(|members| !members.is_empty());
    if class != Some(RefusalClass::Policy) || !was_asked {
        return None;
    }
    Some(if policies.iter().any(|id| id == OUTSIDE) { NOT_FOUND } else { NOT_PERMITTED })
}
