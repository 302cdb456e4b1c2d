//! The paths below the object of a recursive tool that policies name, each decided on with the
//! call.
//!
//! Policies distinguish paths only by the names in them and in `entities.toml`, and prepare was
//! asked about all of those. Every other path counts like any unnamed path in the same named
//! folders: one such path is decided on for the object and for each named path below it. A rule
//! with `==` may permit a folder and nothing in it.

use super::pending::Pending;
use super::point::Gate;
use super::refusal::Obstacle;
use super::resource::lexical;
use crate::call::{Beneath, Exclusion, FileId, FileKind, Object, PathObject};
use crate::ledger::payload::{BeneathDecision, CallDecisionPayload, Excluded};
use crate::policy::{self, Approved, Evaluation, Ruling};
use crate::tools::Runner;
use crate::types::limits;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// Why a program is denied if a builtin would leave something out.
const NO_VIEW: &str = "the tool reads all below the folder, and policies exclude some of it: in this version only \
                       builtins can leave something out";
/// Why a program that reads over all units is denied if rules forbid one of them.
const ALL_UNITS: &str = "the tool reads the entries of all units, and policies exclude some units: ask about one \
                         unit with a tool such as `journal_query`";
/// Why a call is denied that may read the folder itself and nothing in it.
const NOTHING_BELOW: &str = "the tool reads what lies below the folder, and policies permit the folder alone";

/// A name that no file has: it stands for everything in a folder that no policy names.
pub const UNNAMED_CHILD: &str = "\0";

/// The object and the named paths below it, in the form that policies know.
#[derive(Debug, Default)]
pub(super) struct SubtreePaths<'a>(Vec<SubtreePath<'a>>);

#[derive(Debug)]
struct SubtreePath<'a> {
    name: &'a str,
    canonical: &'a str,
    id: Option<FileId>,
    /// `None` for the object, which is decided on elsewhere.
    resource: Option<policy::Resource>,
    /// An unnamed path in it.
    any: policy::Resource,
}

/// The decisions on them.
#[derive(Debug, Default)]
pub(super) struct Below {
    pub(super) decisions: Vec<BeneathDecision>,
    /// The paths that the call leaves out.
    pub(super) exclusions: Vec<Exclusion>,
    /// Why nothing at all may be read.
    pub(super) closed: Option<&'static str>,
    /// Whether a unit is left out.
    pub(super) has_units: bool,
}

impl Gate {
    /// The named paths below `object` that the sandbox claims.
    ///
    /// # Errors
    ///
    /// The claim is impossible, or is missing a path that lies below the object by name. The call
    /// is denied.
    pub(super) fn paths_below<'a>(
        &self,
        pending: &Pending,
        object: &'a Object,
    ) -> Result<SubtreePaths<'a>, Obstacle> {
        let Object::Path(path) = object else { return Ok(SubtreePaths::default()) };
        let is_empty = path.beneath.is_empty() && path.unseen.is_empty();
        if !pending.manifest().recursive || path.kind != FileKind::Folder {
            return if is_empty {
                Ok(SubtreePaths::default())
            } else {
                Err(Obstacle::by_host("the sandbox looked below the object unasked"))
            };
        }
        let named: HashSet<&str> = pending.named.iter().map(String::as_str).collect();
        let is_one =
            |one: &Beneath| named.contains(one.name.as_str()) && lexical(&one.canonical) == one.canonical;
        if path.beneath.len() > limits::NAMED_BENEATH_MAX || !path.beneath.iter().all(is_one) {
            return Err(Obstacle::by_host("the sandbox reported paths that it was not asked about"));
        }
        if !path.unseen.is_empty() {
            return Err(Obstacle::by_host(
                "a path below it that policies name cannot be looked at by the tool's user",
            ));
        }
        if !covers_all(path, &named) {
            return Err(Obstacle::by_host("the sandbox did not report every named path below the object"));
        }
        let resource = |canonical: &str, within: &[String]| {
            if !pending.manifest().read.iter().any(|root| Path::new(canonical).starts_with(root)) {
                return policy::Resource::Outside { lexical: canonical.to_owned() };
            }
            let within: BTreeSet<String> =
                within.iter().filter(|name| named.contains(name.as_str())).cloned().collect();
            self.named(canonical.to_owned(), within)
        };
        let any = |canonical: &str, within| {
            resource(&format!("{}/{UNNAMED_CHILD}", canonical.trim_end_matches('/')), within)
        };
        let object = SubtreePath {
            name: &path.canonical,
            canonical: &path.canonical,
            id: Some(path.id),
            resource: None,
            any: any(&path.canonical, &path.within),
        };
        let below = path.beneath.iter().map(|one| SubtreePath {
            name: &one.name,
            canonical: &one.canonical,
            id: one.id,
            resource: Some(resource(&one.canonical, &one.within)),
            any: any(&one.canonical, &one.within),
        });
        Ok(SubtreePaths(std::iter::once(object).chain(below).collect()))
    }
}

/// Whether the claim covers each name that lies lexically below the object: as a path below it, or
/// as a folder that contains it.
fn covers_all(path: &PathObject, named: &HashSet<&str>) -> bool {
    let claimed: HashSet<&str> = path.beneath.iter().map(|one| one.name.as_str()).collect();
    let is_below = |name: &str| name != path.canonical && Path::new(name).starts_with(&path.canonical);
    let holds = |name: &str| path.within.iter().any(|one| one == name);
    named.iter().all(|name| !is_below(name) || claimed.contains(name) || holds(name))
}

impl SubtreePaths<'_> {
    /// Decides on each path and on an unnamed path in it: whatever is not allowed is an exclusion.
    pub(super) fn decide(&self, ask: impl Fn(&policy::Resource) -> Evaluation) -> Below {
        let mut below = Below::default();
        for one in &self.0 {
            let mut allows = |resource: &policy::Resource| {
                let verdict = ask(resource);
                below.decisions.push(decision(one.name, one.id, &verdict));
                matches!(verdict.answer, Ruling::Allow { .. })
            };
            if one.resource.as_ref().is_none_or(&mut allows) && allows(&one.any) {
                continue;
            }
            if one.resource.is_none() {
                below.closed = Some(NOTHING_BELOW);
            }
            below.exclusions.push(Exclusion { canonical: one.canonical.to_owned(), id: one.id });
        }
        below
    }
}

impl Below {
    /// Why the call is denied: it may read nothing, or it cannot leave out what it must, because a
    /// program gets whole folders.
    pub(super) fn obstacle(&self, runner: &Runner) -> Option<Obstacle> {
        let has_some = self.exclusions.iter().any(|one| one.id.is_some());
        match (self.closed, runner) {
            (Some(why), _) => Some(Obstacle::by_policy(why)),
            (None, Runner::Program(_)) if self.has_units => Some(Obstacle::by_policy(ALL_UNITS)),
            (None, Runner::Program(_)) if has_some => Some(Obstacle::by_policy(NO_VIEW)),
            (None, Runner::Program(_) | Runner::Builtin(_) | Runner::Front(_)) => None,
        }
    }

    /// Adds the decisions, and what follows from them, to a decision's payload.
    pub(super) fn put(&self, payload: &mut CallDecisionPayload) {
        if !self.decisions.is_empty() {
            payload.beneath = Some(self.decisions.clone());
            payload.exclusions = Some(excluded(&self.exclusions));
        }
    }
}

/// The approval that `gates` require, without a user.
pub(super) fn approval_for(gates: &[policy::Obligation]) -> Approved<'static> {
    let needs_other = gates.iter().any(|gate| matches!(gate, policy::Obligation::Approval { .. }));
    if needs_other { Approved::Approved { by: None } } else { Approved::Confirmed { by: None } }
}

/// In the form that is recorded; device and inode as text.
pub(super) fn excluded(exclusions: &[Exclusion]) -> Vec<Excluded> {
    let one = |one: &Exclusion| Excluded {
        canonical: one.canonical.clone(),
        dev: one.id.map(|id| id.dev.to_string()),
        ino: one.id.map(|id| id.ino.to_string()),
    };
    exclusions.iter().map(one).collect()
}

/// One decision in the form that is recorded. Principal, action and context are those of the call:
/// only the resource and its parent paths are repeated; for a unit, that unit.
pub(super) fn decision(name: &str, id: Option<FileId>, verdict: &Evaluation) -> BeneathDecision {
    let entities = verdict.request.get("entities").and_then(Value::as_array).into_iter().flatten();
    let kind = verdict.request.pointer("/resource/type");
    let is_of_kind = |entity: &&Value| entity.pointer("/uid/type") == kind;
    let errors = verdict.answer.errors();
    BeneathDecision {
        name: name.to_owned(),
        dev: id.map(|id| id.dev.to_string()),
        ino: id.map(|id| id.ino.to_string()),
        resource: verdict.request.get("resource").cloned().unwrap_or_default(),
        entities: entities.filter(is_of_kind).cloned().collect(),
        decision: verdict.answer.decision(),
        policies: verdict.answer.policies().to_vec(),
        errors: (!errors.is_empty()).then(|| errors.to_vec()),
    }
}
