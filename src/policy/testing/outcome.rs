//! Compares the expected answer of a case with the actual one.

use crate::policy::decide::explain::{Considered, nearest};
use crate::policy::decide::ruling::{Obligation, Ruling};
use crate::policy::load::bundle::Bundle;
use crate::policy::load::suite::case::{Case, CasePlace, Expect, Who, Yes};
use std::collections::BTreeSet;
use std::fmt;

/// A case that was not answered as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseFailure {
    /// The place of the case.
    pub place: CasePlace,
    /// Its name; `offered` for a tool list.
    pub name: String,
    /// The request: `operator read_file @logs/syslog`.
    pub asked: String,
    /// The expected answer.
    pub expected: String,
    /// The actual answer.
    pub got: String,
    /// What that answer follows from.
    pub why: String,
}

impl CaseFailure {
    /// Whether the case makes no call, such as of a tool that does not exist.
    #[must_use]
    pub fn makes_no_call(&self) -> bool {
        self.got == NO_CALL
    }
}

/// What a case got that makes no call.
pub(in crate::policy) const NO_CALL: &str = "no call";

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, name, asked, expected, got, why } = self;
        write!(f, "{place}: {name}: {asked}: expected {expected}, got {got}")?;
        if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role.as_str())?;
        if let Some(user) = &self.user {
            write!(f, " {user}")?;
        }
        if !self.taint.is_empty() {
            f.write_str(", tainted")?;
        }
        match &self.ceiling {
            None => Ok(()),
            Some(tools) => {
                write!(f, ", left [{}]", tools.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Expect {
    pub(in crate::policy) fn matches(&self, answer: &Ruling) -> bool {
        let policies: BTreeSet<String> = answer.policies().iter().cloned().collect();
        self.word == answer.word()
            && self.policies.as_ref().is_none_or(|expect| *expect == policies)
            && self.asks.as_ref().is_none_or(|expect| *expect == groups_asked(answer))
    }

    /// The expected answer, briefly.
    pub(in crate::policy) fn described(&self) -> String {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut words = self.word.to_owned();
        if let Some(policies) = self.policies.as_ref().filter(|policies| !policies.is_empty()) {
            words.push_str(&format!(" by {}", list(policies)));
        }
        match &self.asks {
            Some(groups) if groups.is_empty() => words.push_str(" from a person"),
            Some(groups) => words.push_str(&format!(" from {}", list(groups))),
            None => {}
        }
        words
    }
}

impl Case {
    /// The request, briefly.
    pub(in crate::policy) fn asked(&self) -> String {
        let on = self.resource.as_ref().map_or_else(String::new, |resource| format!(" {resource}"));
        let yes = match self.approved {
            Yes::No => "",
            Yes::Confirmed => " (confirmed)",
            Yes::Approved => " (approved)",
        };
        format!("{} {}{on}{yes}", self.who, self.tool)
    }

    pub(in crate::policy) fn failure(&self, got: &str, why: String) -> CaseFailure {
        let (place, name, asked) = (self.place.clone(), self.name.clone(), self.asked());
        CaseFailure { place, name, asked, expected: self.expect.described(), got: got.to_owned(), why }
    }
}

impl Bundle {
    /// What an answer follows from, with places: the determining policies, else the errors, else
    /// the permit that was nearest to matching.
    pub(in crate::policy) fn why(
        &self,
        answer: &Ruling,
        explain: impl FnOnce() -> Vec<Considered>,
    ) -> String {
        if let Ruling::Deny { errors, .. } = answer
            && !errors.is_empty()
        {
            return errors.join("; ");
        }
        let placed = |id: &String| self.origin(id).map_or_else(|| id.clone(), |at| format!("{id} ({at})"));
        if !answer.policies().is_empty() {
            return answer.policies().iter().map(placed).collect::<Vec<_>>().join(", ");
        }
        let considered = explain();
        let nearest = nearest(&considered);
        nearest.map_or_else(
            || "no policy permits it".to_owned(),
            |one| {
                format!(
                    "no policy permits it; the nearest is {}, where {}",
                    placed(&one.policy),
                    one.failing_line()
                )
            },
        )
    }
}

fn groups_asked(answer: &Ruling) -> BTreeSet<String> {
    let Ruling::NeedsApproval { gates, .. } = answer else { return BTreeSet::new() };
    let groups = gates.iter().filter_map(|gate| match gate {
        Obligation::Approval { group } => Some(group.clone()),
        Obligation::Confirm => None,
    });
    groups.collect()
}

/// The decision, with the groups that it asks.
pub(in crate::policy) fn described(answer: &Ruling) -> String {
    let groups: Vec<String> = groups_asked(answer).into_iter().collect();
    match answer {
        Ruling::NeedsApproval { .. } if groups.is_empty() => format!("{} from a person", answer.word()),
        Ruling::NeedsApproval { .. } => format!("{} from {}", answer.word(), groups.join(", ")),
        Ruling::Allow { .. } | Ruling::Deny { .. } => answer.word().to_owned(),
    }
}
