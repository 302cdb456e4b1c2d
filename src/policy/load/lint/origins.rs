//! Tests of where an argument was found that can never hold.

use super::finding::{LintFinding, LintPlace, offset};
use crate::policy::request::origins::{FROM, FROM_ALL};
use crate::types::FoundIn;
use cedar_policy_core::ast::{self, Expr, ExprKind, Literal};

/// A comparison of an origin with a word that no argument has: the rule matches nothing, and a
/// `forbid` forbids nothing.
pub(super) fn unknown_origin(expr: &Expr) -> Option<LintFinding> {
    let ExprKind::BinaryApp { arg1, arg2, .. } = expr.expr_kind() else { return None };
    let other = match (is_origin(arg1), is_origin(arg2)) {
        (true, false) => arg2,
        (false, true) => arg1,
        _ => return None,
    };
    let word = other.subexpressions().find_map(|part| match part.expr_kind() {
        ExprKind::Lit(Literal::String(word)) if FoundIn::parse(word).is_none() => Some(word.to_string()),
        _ => None,
    })?;
    Some(LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: format!("an argument is never found in `{}`", crate::types::text::visible_line(&word)),
        mend: format!("expected one of {}", FoundIn::ALL.map(FoundIn::as_str).join(", ")),
    })
}

/// `context.from_all`, or a member of `context.from`.
fn is_origin(expr: &Expr) -> bool {
    let ExprKind::GetAttr { expr: of, attr } = expr.expr_kind() else { return false };
    let is_context = |of: &Expr| matches!(of.expr_kind(), ExprKind::Var(ast::Var::Context));
    match of.expr_kind() {
        ExprKind::GetAttr { expr: of, attr } => attr == FROM && is_context(of),
        _ => attr == FROM_ALL && is_context(of),
    }
}
