//! Mutation tests of the policies: each policy is changed in a few ways, and the bundle's tests run
//! on the result.
//!
//! The changes: the policy is dropped; its effect is flipped; each condition, and each operand of
//! `&&` and `||` in it, is removed. A change that would not load does not count.

use super::folders::Folders;
use super::runner::ReadySuite;
use crate::policy::decide::parts::unless_condition;
use crate::policy::load::annotations::{EXPIRES, TAINTED};
use crate::policy::load::bundle::Bundle;
use crate::policy::load::lint::rules;
use crate::policy::load::origin::line_of;
use crate::tools::Catalog;
use crate::types::text;
use cedar_policy::{Policy, PolicyId, PolicySet, ValidationMode, Validator};
use cedar_policy_core::ast::{self, Expr, ExprKind};
use cedar_policy_core::parser::Loc;
use serde_json::json;

/// The longest changed part that is shown in full, in bytes.
const WORDS_BYTES_MAX: usize = 120;

/// How many changes the tests notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MutationScore {
    /// Changes that load.
    pub made: usize,
    /// Changes that no case noticed, in the order of the policies.
    pub survivors: Vec<Survivor>,
}

/// A change that no case noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// The policy.
    pub policy: String,
    /// `file:line` of the changed part.
    pub at: String,
    /// The change.
    pub change: Change,
}

/// A change of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The policy is removed.
    Drop,
    /// A permit becomes a forbid or the reverse, without its annotations about
    /// approvals.
    Flip,
    /// A part of its conditions is removed; this is its text.
    Without(String),
}

impl MutationScore {
    /// Percentage of changes that the tests noticed; 100 if there is nothing to change.
    #[must_use]
    pub fn percent(&self) -> usize {
        let noticed = self.made.saturating_sub(self.survivors.len());
        noticed.saturating_mul(100).checked_div(self.made).unwrap_or(100)
    }
}

impl std::fmt::Display for Survivor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { policy, at, change } = self;
        match change {
            Change::Drop => write!(f, "{at}: no case notices when `{policy}` is dropped"),
            Change::Flip => write!(f, "{at}: no case notices when the effect of `{policy}` is flipped"),
            Change::Without(words) => {
                write!(f, "{at}: no case notices when `{policy}` is without `{words}`")
            }
        }
    }
}

impl Bundle {
    /// Changes the policies of the files one by one and runs the bundle's tests on each change. The
    /// tests must pass on the unchanged policies.
    #[must_use]
    pub fn score(&self, catalog: &Catalog, folders: &Folders) -> MutationScore {
        let (run, _) = self.ready(catalog, folders);
        let mut score = MutationScore::default();
        let mut ids: Vec<(&String, _)> = self.origins.iter().collect();
        ids.sort_by_key(|(_, origin)| (&origin.file, origin.line));
        for (id, origin) in ids {
            let Some(policy) = self.set.policy(&PolicyId::new(id)) else { continue };
            for mutant in mutants(policy, origin.line) {
                let notices = match mutant.policy {
                    None => Some(self.notices(&run, catalog, id, None)),
                    Some(other) => {
                        self.loads(&other, catalog).then(|| self.notices(&run, catalog, id, Some(other)))
                    }
                };
                score.made += usize::from(notices.is_some());
                if notices == Some(false) {
                    let at = format!("{}:{}", origin.file, mutant.line);
                    score.survivors.push(Survivor { policy: id.clone(), at, change: mutant.change });
                }
            }
        }
        score
    }

    fn loads(&self, policy: &Policy, catalog: &Catalog) -> bool {
        let Ok(alone) = PolicySet::from_policies([policy.clone()]) else { return false };
        let result = Validator::new(self.schema.clone()).validate(&alone, ValidationMode::Strict);
        result.validation_passed_without_warnings() && rules::faults(policy, catalog).is_empty()
    }

    fn notices(&self, run: &ReadySuite<'_>, catalog: &Catalog, id: &str, other: Option<Policy>) -> bool {
        let mut set = self.set.clone();
        let is_changed =
            set.remove_static(PolicyId::new(id)).is_ok() && other.is_none_or(|other| set.add(other).is_ok());
        // A change that could not be applied counts as not noticed.
        is_changed && run.notices(&self.with_set(set, catalog))
    }
}

struct Mutant {
    change: Change,
    line: usize,
    /// `None`: the policy is removed.
    policy: Option<Policy>,
}

fn mutants(policy: &Policy, line: usize) -> Vec<Mutant> {
    let mut found = vec![Mutant { change: Change::Drop, line, policy: None }];
    found.extend(flipped(policy).map(|policy| Mutant { change: Change::Flip, line, policy: Some(policy) }));
    let ast: &ast::Policy = policy.as_ref();
    let mut sites = Vec::new();
    if let Some(conditions) = ast.non_scope_constraints() {
        sites_of(conditions, "true", &mut sites);
    }
    let whole = ast.loc();
    found.extend(sites.into_iter().filter_map(|(part, neutral)| {
        let (whole, loc) = (whole?, part.source_loc()?);
        let start = loc.start().checked_sub(whole.start())?;
        let mut text = whole.snippet()?.to_owned();
        text.get(start..loc.end() - whole.start())?;
        text.replace_range(start..loc.end() - whole.start(), neutral);
        let policy = Policy::parse(Some(policy.id().clone()), text).ok()?;
        let words = loc.snippet()?.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = text::visible_line(text::prefix(&words, WORDS_BYTES_MAX));
        Some(Mutant { change: Change::Without(words), line: line_at(loc), policy: Some(policy) })
    }));
    found
}

/// Each part of a condition that can be removed, with the neutral literal that replaces it.
fn sites_of<'a>(expr: &'a Expr, neutral: &'static str, sites: &mut Vec<(&'a Expr, &'static str)>) {
    match expr.expr_kind() {
        ExprKind::And { left, right } if left.source_loc() != right.source_loc() => {
            let mut operands = Vec::new();
            sites_of(left, "true", &mut operands);
            sites_of(right, "true", &mut operands);
            // The whole chain, if it is below an `||` or an `unless`; at the top each member is a
            // separate part.
            if neutral == "false" {
                sites.push((expr, neutral));
            }
            sites.append(&mut operands);
        }
        ExprKind::Or { left, right } if left.source_loc() != right.source_loc() => {
            if neutral == "true" {
                sites.push((expr, neutral));
            }
            sites_of(left, "false", sites);
            sites_of(right, "false", sites);
        }
        _ => match unless_condition(expr) {
            Some(arg) => {
                if let ExprKind::Or { .. } = arg.expr_kind() {
                    sites.push((arg, "false"));
                }
                sites_of(arg, "false", sites);
            }
            None => sites.push((expr, neutral)),
        },
    }
}

fn flipped(policy: &Policy) -> Option<Policy> {
    let mut est = policy.to_json().ok()?;
    let effect = est.get_mut("effect")?;
    *effect = if effect.as_str() == Some("permit") { json!("forbid") } else { json!("permit") };
    if let Some(annotations) = est.get_mut("annotations").and_then(serde_json::Value::as_object_mut) {
        annotations.retain(|name, _| !name.starts_with("require_") && ![TAINTED, EXPIRES].contains(&&**name));
    }
    Policy::from_json(Some(policy.id().clone()), est).ok()
}

fn line_at(loc: &Loc) -> usize {
    line_of(&loc.src, loc.start())
}
