//! The string literals in a policy's conditions.

use cedar_policy::Policy;
use cedar_policy_core::ast::{self, Expr, ExprKind, Literal};
use std::collections::BTreeSet;

/// Every string literal in the conditions of `policy`.
pub(in crate::policy) fn words_of(policy: &Policy) -> BTreeSet<String> {
    let ast: &ast::Policy = policy.as_ref();
    ast.non_scope_constraints().into_iter().flat_map(texts).collect()
}

/// The labels that `policy` tests for: string literals that share an operator with `.labels`.
/// Leaves out PAR's own labels.
pub(in crate::policy) fn labels_of(policy: &Policy) -> BTreeSet<String> {
    let is_labels =
        |expr: &Expr| matches!(expr.expr_kind(), ExprKind::GetAttr { attr, .. } if attr == "labels");
    let ast: &ast::Policy = policy.as_ref();
    let exprs = ast.non_scope_constraints().into_iter().flat_map(Expr::subexpressions);
    let operands = exprs.filter_map(|expr| match expr.expr_kind() {
        ExprKind::BinaryApp { arg1, arg2, .. } if is_labels(arg1) => Some(arg2),
        ExprKind::BinaryApp { arg1, arg2, .. } if is_labels(arg2) => Some(arg1),
        _ => None,
    });
    operands.flat_map(|expr| texts(expr)).filter(|label| !label.starts_with("par:")).collect()
}

fn texts(expr: &Expr) -> impl Iterator<Item = String> {
    expr.subexpressions().filter_map(|expr| match expr.expr_kind() {
        ExprKind::Lit(Literal::String(text)) => Some(text.to_string()),
        _ => None,
    })
}
