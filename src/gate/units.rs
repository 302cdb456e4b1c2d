//! The units that policies name, each decided on with a call that reads over all of them.
//!
//! The permit for this host covers its units. A unit that a rule forbids to the same tool is left
//! out, or the call is denied if the tool is a program. Rules distinguish units only by name and by
//! label, so one more unit stands for all those that no rule names.

use super::pending::Pending;
use super::point::Gate;
use super::refusal::Obstacle;
use super::subtree::{Below, SubtreePaths, UNNAMED_CHILD, decision};
use crate::call::{Exclusion, Object};
use crate::policy::{self, Evaluation, Ruling};
use crate::tools::IdKind;
use crate::types::limits;

/// Why a call is denied if rules forbid every unit that they do not name.
const NO_UNITS: &str =
    "the tool reads over all units of this host, and policies forbid units that they do not name";

/// Why a call is denied if rules name more units than a record may have.
const TOO_MANY: &str = "policies name more than 256 units, which is the most that one call can leave out";

/// What policies name of what a call reads: paths below its object, and units.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    paths: SubtreePaths<'a>,
    units: NamedUnits,
}

impl Gate {
    /// What policies name of what the call reads.
    ///
    /// # Errors
    ///
    /// The claim about paths below `object` is impossible, or there are too many units. The call is
    /// denied.
    pub(super) fn members<'a>(&self, pending: &Pending, object: &'a Object) -> Result<Members<'a>, Obstacle> {
        Ok(Members { paths: self.paths_below(pending, object)?, units: NamedUnits::new(pending)? })
    }
}

impl Members<'_> {
    /// Decides on each.
    pub(super) fn decide(&self, ask: impl Fn(&policy::Resource) -> Evaluation) -> Below {
        let mut below = self.paths.decide(&ask);
        self.units.decide(&ask, &mut below);
        below
    }
}

/// The units of a call, in the form that policies know.
#[derive(Debug, Default)]
struct NamedUnits(Vec<(String, policy::Resource)>);

impl NamedUnits {
    /// Those that the rules of `pending` name, if its tool reads over all units.
    ///
    /// # Errors
    ///
    /// There are more than a call may have. The call is denied.
    fn new(pending: &Pending) -> Result<Self, Obstacle> {
        if !pending.manifest().reads_units {
            return Ok(Self::default());
        }
        let named = pending.rules.bundle.named_units();
        if named.len() > limits::NAMED_BENEATH_MAX {
            return Err(Obstacle::by_policy(TOO_MANY));
        }
        let all = std::iter::once(UNNAMED_CHILD).chain(named.iter().map(String::as_str));
        let one = |name: &str| {
            let id = name.to_owned();
            (name.to_owned(), policy::Resource::Id { kind: IdKind::Service, id })
        };
        Ok(Self(all.map(one).collect()))
    }

    /// Adds the decision on each unit to `below`, and what follows from it.
    fn decide(&self, ask: impl Fn(&policy::Resource) -> Evaluation, below: &mut Below) {
        for (name, resource) in &self.0 {
            let verdict = ask(resource);
            below.decisions.push(decision(name, None, &verdict));
            match (is_left_out(&verdict.answer), name.as_str()) {
                (false, _) => {}
                (true, UNNAMED_CHILD) => below.closed = Some(NO_UNITS),
                (true, name) => {
                    below.has_units = true;
                    below.exclusions.push(Exclusion { canonical: name.to_owned(), id: None });
                }
            }
        }
    }
}

/// Whether the answer about one unit takes it out of a result that the host's permit covers: a rule
/// forbids it. The mere absence of a permit for the unit does not.
#[must_use]
pub fn is_left_out(answer: &Ruling) -> bool {
    match answer {
        Ruling::Allow { .. } => false,
        Ruling::NeedsApproval { .. } => true,
        Ruling::Deny { policies, errors, .. } => !policies.is_empty() || !errors.is_empty(),
    }
}
