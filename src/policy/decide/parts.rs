//! The parts of a policy that have to hold, each evaluated by itself, for `explain`.
//!
//! A policy matches where its scope and every one of its conditions hold. A condition that is a chain of
//! `&&` is as many parts, in the order that Cedar evaluates them.

use crate::policy::load::origin::line_of;
use crate::types::text;
use cedar_policy::{Entities, EvalResult, Expression, Policy, Request, eval_expression};
use cedar_policy_core::ast::{self, EntityReference, Expr, ExprKind, PrincipalOrResourceConstraint, UnaryOp};
use cedar_policy_core::parser::Loc;

/// A part is shown up to this length, in bytes.
const PART_BYTES_MAX: usize = 100;

/// A part of a policy that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingPart {
    /// What does not hold, in the rule's own words.
    pub words: String,
    /// Line in the policy's file, from 1; `None` where that is not known.
    pub line: Option<usize>,
}

/// The parts of `policy` that do not hold, in their order. The action is not among them: only policies in
/// reach of the tool are looked at.
pub(in crate::policy) fn failing(
    policy: &Policy,
    request: &Request,
    entities: &Entities,
) -> Vec<FailingPart> {
    let ast: &ast::Policy = policy.as_ref();
    let holds = |expr: &Expr| {
        let answer = eval_expression(request, entities, &Expression::from(expr.clone()));
        matches!(answer, Ok(EvalResult::Bool(true)))
    };
    let mut found = Vec::new();
    let principal = ast.principal_constraint();
    if !holds(&principal.as_expr()) {
        found.push(scope("principal", principal.as_inner()));
    }
    let resource = ast.resource_constraint();
    if !holds(&resource.as_expr()) {
        found.push(scope("resource", resource.as_inner()));
    }
    let mut parts = Vec::new();
    if let Some(conditions) = ast.non_scope_constraints() {
        split(conditions, &mut parts);
    }
    found.extend(parts.into_iter().filter(|part| !holds(part)).map(condition));
    found
}

/// The members of a chain of `&&`. What one operator of the text became several in the tree stays whole.
fn split<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr.expr_kind() {
        ExprKind::And { left, right } if left.source_loc() != right.source_loc() => {
            split(left, parts);
            split(right, parts);
        }
        _ => parts.push(expr),
    }
}

/// What stands behind an `unless`, which the tree has as a negation with the clause's own place.
pub(in crate::policy) fn behind_unless(expr: &Expr) -> Option<&Expr> {
    let ExprKind::UnaryApp { op: UnaryOp::Not, arg } = expr.expr_kind() else { return None };
    let words = expr.source_loc().and_then(Loc::snippet)?;
    words.trim_start().starts_with("unless").then_some(arg)
}

fn condition(expr: &Expr) -> FailingPart {
    let snippet = |expr: &Expr| expr.source_loc().and_then(Loc::snippet).map(str::to_owned);
    let (part, says) = behind_unless(expr).map_or((expr, "does not hold"), |arg| (arg, "holds"));
    let words = snippet(part).unwrap_or_else(|| part.to_string());
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = text::prefix(&words, PART_BYTES_MAX);
    let cut = if shown.len() < words.len() { "…" } else { "" };
    FailingPart {
        words: format!("`{}{cut}` {says}", text::visible_line(shown)),
        line: expr.source_loc().map(line),
    }
}

/// Says that a scope does not hold, in its words: `resource is not in …`, `resource is not a PAR::Path`.
fn scope(what: &str, constraint: &PrincipalOrResourceConstraint) -> FailingPart {
    let uid = |reference: &EntityReference| match reference {
        EntityReference::EUID(uid) => (uid.to_string(), uid.loc().map(line)),
        EntityReference::Slot(_) => ("what a template says".to_owned(), None),
    };
    let (words, line) = match constraint {
        PrincipalOrResourceConstraint::Any => ("anything".to_owned(), None),
        PrincipalOrResourceConstraint::Eq(reference) => uid(reference),
        PrincipalOrResourceConstraint::In(reference) => {
            let (name, line) = uid(reference);
            (format!("in {name}"), line)
        }
        PrincipalOrResourceConstraint::Is(kind) => (format!("a {kind}"), kind.loc().map(line)),
        PrincipalOrResourceConstraint::IsIn(kind, reference) => {
            let (name, line) = uid(reference);
            (format!("a {kind} in {name}"), line)
        }
    };
    FailingPart { words: format!("{what} is not {words}"), line }
}

fn line(loc: &Loc) -> usize {
    line_of(&loc.src, loc.start())
}
