//! Evaluates each part of a policy by itself, for `explain`.
//!
//! A policy matches if its scope and all of its conditions hold. A condition that is a chain of
//! `&&` counts as several parts, in the order in which Cedar evaluates them.

use crate::policy::load::origin::line_of;
use crate::types::text;
use cedar_policy::{Entities, EvalResult, Expression, Policy, Request, eval_expression};
use cedar_policy_core::ast::{self, EntityReference, Expr, ExprKind, PrincipalOrResourceConstraint, UnaryOp};
use cedar_policy_core::parser::Loc;

/// The longest part that is shown in full, in bytes.
const PART_BYTES_MAX: usize = 100;

/// A part of a policy that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingPart {
    /// What does not hold, as the policy writes it.
    pub words: String,
    /// Line in the policy's file, from 1; `None` if unknown.
    pub line: Option<usize>,
}

/// The parts of `policy` that do not hold, in order. Leaves out the action: only policies that
/// apply to the tool are considered.
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

/// Splits a chain of `&&` into its members. An operator of the text that became several in the tree
/// stays whole.
fn split<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match expr.expr_kind() {
        ExprKind::And { left, right } if left.source_loc() != right.source_loc() => {
            split(left, parts);
            split(right, parts);
        }
        _ => parts.push(expr),
    }
}

/// The condition of an `unless`, which the tree represents as a negation with the place of the
/// clause.
pub(in crate::policy) fn unless_condition(expr: &Expr) -> Option<&Expr> {
    let ExprKind::UnaryApp { op: UnaryOp::Not, arg } = expr.expr_kind() else { return None };
    let words = expr.source_loc().and_then(Loc::snippet)?;
    words.trim_start().starts_with("unless").then_some(arg)
}

fn condition(expr: &Expr) -> FailingPart {
    let snippet = |expr: &Expr| expr.source_loc().and_then(Loc::snippet).map(str::to_owned);
    let (part, says) = unless_condition(expr).map_or((expr, "does not hold"), |arg| (arg, "holds"));
    let words = snippet(part).unwrap_or_else(|| part.to_string());
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = text::prefix(&words, PART_BYTES_MAX);
    let cut = if shown.len() < words.len() { "…" } else { "" };
    FailingPart {
        words: format!("`{}{cut}` {says}", text::visible_line(shown)),
        line: expr.source_loc().map(line),
    }
}

/// A scope that does not hold, in words: `resource is not in …`, `resource is not a PAR::Path`.
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
