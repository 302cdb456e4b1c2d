//! Rules that never apply, comparisons with one outcome, and approvals that change nothing.
//!
//! A condition is taken apart into the ways to make it true. A way is impossible if two of its
//! comparisons exclude each other, or if one excludes what the schema of the tools, the manifest or
//! PAR itself allows. In doubt a way is possible: a rule is only called dead if it is.

use super::facts::{ReadIn, TermFacts, entities_of, kind_of};
use super::finding::{LintFinding, LintPlace, offset};
use super::world::ActionWorld;
use crate::policy::load::annotations::asks;
use crate::tools::Catalog;
use crate::types::{nearest, text};
use cedar_policy::{Effect, Policy};
use cedar_policy_core::ast::{self, BinaryOp, Expr, ExprKind, Literal, UnaryOp, Var};
use std::collections::BTreeSet;

/// Steps of one search. A condition that needs more is taken to be possible.
const STEPS_MAX: usize = 4_096;

/// The longest part of a rule that a message repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 120;

/// What is never true in `policy`, or why the policy never applies.
pub(in crate::policy) fn faults(policy: &Policy, catalog: &Catalog) -> Vec<LintFinding> {
    let worlds = ActionWorld::all_of(policy, catalog);
    let worlds = worlds.as_slice();
    let tree: &ast::Policy = policy.as_ref();
    let whole = tree.condition();
    let mut found: Vec<LintFinding> = Vec::new();
    let mut atoms = Vec::new();
    collect(&whole, true, &mut atoms);
    for (atom, holds) in &atoms {
        let is_never = worlds.iter().all(|world| !can_hold(*world, &[(atom, *holds)]));
        if is_never && is_comparison(atom) && !worlds.is_empty() {
            found.push(never(atom, *holds, worlds));
        }
    }
    if !found.is_empty() {
        return found;
    }
    if !worlds.is_empty() && worlds.iter().all(|world| !can_hold(*world, &[(&whole, true)])) {
        found.push(LintFinding {
            at: LintPlace::Offset(condition_offset(tree)),
            reason: "the rule never applies: its conditions exclude each other".to_owned(),
            mend: "no request makes all of them true: `par policy explain` shows each for one call"
                .to_owned(),
        });
    } else {
        found.extend(useless_gate(policy, &whole, worlds));
    }
    found
}

/// Comparisons of `policy` that hold for every request that gets to them, and a condition that
/// always holds: the rule says more than it does. Not a fault.
pub(in crate::policy) fn constants(policy: &Policy, catalog: &Catalog) -> Vec<LintFinding> {
    let worlds = ActionWorld::all_of(policy, catalog);
    let worlds = worlds.as_slice();
    let tree: &ast::Policy = policy.as_ref();
    let Some(condition) = tree.non_scope_constraints().filter(|_| !worlds.is_empty()) else {
        return Vec::new();
    };
    let mut atoms = Vec::new();
    collect(condition, true, &mut atoms);
    let always = |expr: &Expr, holds: bool| worlds.iter().all(|world| !can_hold(*world, &[(expr, !holds)]));
    let note = |expr: &Expr, reason: String| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason,
        mend: "it changes nothing: remove it, or correct what it compares".to_owned(),
    };
    let of_atoms = atoms.iter().filter(|(atom, holds)| is_comparison(atom) && always(atom, *holds));
    let mut found: Vec<LintFinding> =
        of_atoms.map(|(atom, holds)| note(atom, format!("{} is always true", shown(atom, *holds)))).collect();
    if found.is_empty() && always(condition, true) {
        found.push(note(condition, "the condition is always true".to_owned()));
    }
    found
}

/// Whether a request makes every part true, or false where it says so.
fn can_hold(world: ActionWorld<'_>, parts: &[(&Expr, bool)]) -> bool {
    let name = |term: &Expr| term.to_string();
    let at = ReadIn { world, name };
    let parts = parts.iter().map(|(expr, holds)| (*expr, *holds, at)).collect();
    search(parts, TermFacts::default(), &mut STEPS_MAX.clone())
}

/// One part of a condition: an expression, whether it holds, and how its terms are read.
type Part<'a> = (&'a Expr, bool, ReadIn<'a>);

/// Whether all parts can be as they say.
fn search(mut parts: Vec<Part<'_>>, mut facts: TermFacts, steps: &mut usize) -> bool {
    while let Some((expr, holds, at)) = parts.pop() {
        let Some(left) = steps.checked_sub(1) else { return true };
        *steps = left;
        let branches: [Vec<(&Expr, bool)>; 2] = match expr.expr_kind() {
            ExprKind::UnaryApp { op: UnaryOp::Not, arg } => {
                parts.push((arg, !holds, at));
                continue;
            }
            ExprKind::And { left, right } if holds => {
                parts.extend([(&**right, true, at), (&**left, true, at)]);
                continue;
            }
            ExprKind::Or { left, right } if !holds => {
                parts.extend([(&**right, false, at), (&**left, false, at)]);
                continue;
            }
            ExprKind::And { left, right } => [vec![(left, false)], vec![(left, true), (right, false)]],
            ExprKind::Or { left, right } => [vec![(left, true)], vec![(left, false), (right, true)]],
            ExprKind::If { test_expr, then_expr, else_expr } => {
                [vec![(test_expr, true), (then_expr, holds)], vec![(test_expr, false), (else_expr, holds)]]
            }
            _ => {
                if !facts.assume(at, expr, holds) {
                    return false;
                }
                continue;
            }
        };
        return branches.into_iter().any(|branch| {
            let more = branch.into_iter().rev().map(|(expr, holds)| (expr, holds, at));
            search(parts.iter().copied().chain(more).collect(), facts.clone(), steps)
        });
    }
    true
}

/// The comparisons of a condition, each with whether the condition asks that it holds.
fn collect<'a>(expr: &'a Expr, holds: bool, into: &mut Vec<(&'a Expr, bool)>) {
    match expr.expr_kind() {
        ExprKind::UnaryApp { op: UnaryOp::Not, arg } => collect(arg, !holds, into),
        ExprKind::And { left, right } | ExprKind::Or { left, right } => {
            collect(left, holds, into);
            collect(right, holds, into);
        }
        ExprKind::If { then_expr, else_expr, .. } => {
            collect(then_expr, holds, into);
            collect(else_expr, holds, into);
        }
        _ => into.push((expr, holds)),
    }
}

/// Whether the author compares something with a value. A test that tells tools apart does not
/// count: it may well have one outcome for the tools that are there.
fn is_comparison(expr: &Expr) -> bool {
    let is_action = |expr: &Expr| matches!(expr.expr_kind(), ExprKind::Var(Var::Action));
    match expr.expr_kind() {
        ExprKind::BinaryApp { op, arg1, .. } => {
            let compares = matches!(
                op,
                BinaryOp::Eq | BinaryOp::Less | BinaryOp::LessEq | BinaryOp::Contains | BinaryOp::In
            );
            compares && !is_action(arg1)
        }
        ExprKind::Like { .. } => true,
        _ => false,
    }
}

/// A comparison that is never true, with what would be.
fn never(atom: &Expr, holds: bool, worlds: &[ActionWorld<'_>]) -> LintFinding {
    let (term, other) = match atom.expr_kind() {
        ExprKind::BinaryApp { op: BinaryOp::Contains, arg1, arg2 } => match arg1.expr_kind() {
            ExprKind::Set(_) => (&**arg2, &**arg1),
            _ => (&**arg1, &**arg2),
        },
        ExprKind::BinaryApp { arg1, arg2, .. } if matches!(arg1.expr_kind(), ExprKind::Lit(_)) => {
            (&**arg2, &**arg1)
        }
        ExprKind::BinaryApp { arg1, arg2, .. } => (&**arg1, &**arg2),
        ExprKind::Like { expr, .. } => (&**expr, &**expr),
        _ => (atom, atom),
    };
    let words = |world: &ActionWorld<'_>| world.words(term).or_else(|| world.items(term)).unwrap_or_default();
    let ids = entities_of(other).unwrap_or_default();
    let known: BTreeSet<String> = match ids.first() {
        Some(id) => worlds.iter().flat_map(|world| world.ids(&kind_of(id))).collect(),
        None => worlds.iter().flat_map(words).collect(),
    };
    let written = match (other.expr_kind(), ids.first()) {
        (_, Some(id)) => Some(AsRef::<str>::as_ref(id.eid())),
        (ExprKind::Lit(Literal::String(word)), None) => Some(word.as_str()),
        _ => None,
    };
    let meant = written.and_then(|word| nearest(word, known.iter().map(String::as_str)));
    let bounds = worlds.iter().map(|world| world.bounds(term)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let mend = match (meant, bounds) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, _) if !known.is_empty() => {
            format!("its values are {}", known.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
        (None, Some((low, high))) if (low, high) != (i64::MIN, i64::MAX) => match high {
            i64::MAX => format!("it is never less than {low}"),
            high => format!("it is a number from {low} to {high}"),
        },
        _ => "`par tool show TOOL` shows the arguments and the resource of a tool, and what they can be"
            .to_owned(),
    };
    // What the scope of a rule compares has no offset.
    let at = match (offset(atom), ids.first()) {
        (None, Some(id)) => LintPlace::Near(id.to_string()),
        (at, _) => LintPlace::Offset(at),
    };
    LintFinding { at, reason: format!("{} is never true", shown(atom, holds)), mend }
}

/// Where the conditions of a policy begin. Several clauses are one expression, which has the place
/// of the whole policy.
fn condition_offset(policy: &ast::Policy) -> Option<usize> {
    let start = policy.loc().map(|loc| loc.span.offset());
    let parts = policy.non_scope_constraints()?.subexpressions();
    parts.filter_map(offset).filter(|at| Some(*at) > start).min()
}

fn shown(atom: &Expr, holds: bool) -> String {
    // `a > b` is kept as `!(a <= b)`.
    let written = match atom.expr_kind() {
        ExprKind::BinaryApp { op: BinaryOp::LessEq, arg1, arg2 } if !holds => format!("{arg1} > {arg2}"),
        ExprKind::BinaryApp { op: BinaryOp::Less, arg1, arg2 } if !holds => format!("{arg1} >= {arg2}"),
        ExprKind::BinaryApp { op: BinaryOp::Eq, arg1, arg2 } if !holds => format!("{arg1} != {arg2}"),
        _ if holds => atom.to_string(),
        _ => format!("!({atom})"),
    };
    format!("`{}`", text::visible_line(text::prefix(&written, SHOWN_BYTES_MAX)))
}

/// An annotation that asks a person about calls that no answer lets through.
fn useless_gate(policy: &Policy, whole: &Expr, worlds: &[ActionWorld<'_>]) -> Option<LintFinding> {
    if policy.effect() == Effect::Permit || !asks(policy) || !worlds.iter().any(|world| world.is_tool()) {
        return None;
    }
    let name =
        ["require_approval", "require_confirm"].into_iter().find(|name| policy.annotation(name).is_some())?;
    let answer = if name == "require_approval" { "approved" } else { "no" };
    let lifts = |world: &ActionWorld<'_>| {
        // The same call before the answer and after it: only what the answer changes differs.
        let before = ReadIn { world: *world, name: |term| renamed(term, "no") };
        let after = ReadIn { world: *world, name: |term| renamed(term, "yes") };
        // Who confirms may also approve.
        let (no, yes) = (approved_is("no"), approved_is(answer));
        let parts = vec![
            (whole, false, after),
            (&yes, answer != "no", after),
            (whole, true, before),
            (&no, true, before),
        ];
        search(parts, TermFacts::default(), &mut STEPS_MAX.clone())
    };
    (!worlds.iter().filter(|world| world.is_tool()).any(lifts)).then(|| LintFinding {
        at: LintPlace::Near(format!("@{name}")),
        reason: format!("`@{name}` asks about calls that no answer allows"),
        mend: "let an answer lift the rule: `unless { context.call.approved == \"approved\" }`".to_owned(),
    })
}

/// `context.call.approved == WORD`.
fn approved_is(word: &str) -> Expr {
    let call = Expr::get_attr(Expr::var(Var::Context), "call".into());
    Expr::is_eq(Expr::get_attr(call, "approved".into()), Expr::val(word))
}

/// The name of a term in one of the two requests. Only what does not depend on the answer has the
/// same name in both.
fn renamed(term: &Expr, request: &str) -> String {
    let text = term.to_string();
    let is_part = |rest: &str| {
        let of_call = rest.strip_prefix(".call");
        rest.starts_with('.') && of_call.is_none_or(|rest| rest.starts_with('.'))
    };
    match text.contains("approve") || !text.split("context").skip(1).all(is_part) {
        true => format!("{request}: {text}"),
        false => text,
    }
}
