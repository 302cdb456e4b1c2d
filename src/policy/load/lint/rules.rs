//! Rules that Cedar accepts and PAR refuses: those that can err, and those that say less than they
//! seem to.
//!
//! The lints walk Cedar's whole syntax tree, so they find a fault wherever it is in a rule.

use super::finding::{LintFinding, LintPlace, offset};
use super::{annotations, asks, origins, powers};
use crate::auth::Role;
use crate::policy::load::scope::fits_action;
use crate::policy::request::question::UNTRUSTED;
use crate::tools::{Catalog, ResourceSpec};
use crate::types::{Channel, KeyId, nearest, text};
use cedar_policy::{ActionConstraint, Effect, Policy, PrincipalConstraint, ResourceConstraint};
use cedar_policy_core::ast::{self, BinaryOp, Expr, ExprKind, Literal, UnaryOp};
use std::collections::BTreeSet;

/// Every fault of `policy`.
pub(in crate::policy) fn faults(policy: &Policy, catalog: &Catalog) -> Vec<LintFinding> {
    let mut found: Vec<LintFinding> = unscoped(policy).into_iter().collect();
    found.extend(annotations::faults(policy, catalog));
    found.extend(unknown_roles(policy));
    found.extend(impossible_keys(policy));
    found.extend(powers::faults(policy));
    found.extend(asks::faults(policy));
    let ast: &ast::Policy = policy.as_ref();
    let words = path_arguments(policy, catalog);
    for expr in ast.non_scope_constraints().into_iter().flat_map(Expr::subexpressions) {
        found.extend(overflow(expr));
        found.extend(words_for_path(expr, &words));
        found.extend(unknown_word(expr, catalog));
        found.extend(unknown_channel(expr));
        found.extend(origins::unknown_origin(expr));
    }
    found
}

/// A permit of everything, for everyone, on everything. A condition does not help: a reader looks
/// at the scope, and the scope decides which tools are offered.
fn unscoped(policy: &Policy) -> Option<LintFinding> {
    // Every principal is a session, so `principal is PAR::Session` narrows nothing.
    let is_any =
        matches!(policy.principal_constraint(), PrincipalConstraint::Any | PrincipalConstraint::Is(_))
            && policy.action_constraint() == ActionConstraint::Any
            && policy.resource_constraint() == ResourceConstraint::Any;
    (policy.effect() == Effect::Permit && is_any).then(|| LintFinding {
        at: LintPlace::Near("principal".to_owned()),
        reason: "the permit names no principal, action or resource".to_owned(),
        mend: "name at least one, such as `principal in PAR::Role::\"operator\"`".to_owned(),
    })
}

/// An unknown role. The set of roles is fixed, so no principal would be in it.
fn unknown_roles(policy: &Policy) -> impl Iterator<Item = LintFinding> {
    let roles = policy.entity_literals().into_iter().filter(|uid| uid.type_name().to_string() == "PAR::Role");
    roles.filter_map(|uid| {
        let role = uid.id().unescaped();
        Role::parse(role).is_none().then(|| LintFinding {
            at: LintPlace::Near(format!("Role::\"{role}\"")),
            reason: format!("unknown role `{role}`"),
            mend: with_nearest(role, &Role::ALL.map(Role::as_str)),
        })
    })
}

/// The known words, and the one that was likely meant.
fn with_nearest(word: &str, known: &[&str]) -> String {
    let meant = nearest(word, known.iter().copied()).map(|meant| format!(": did you mean `{meant}`?"));
    format!("expected one of {}{}", known.join(", "), meant.unwrap_or_default())
}

/// A key that cannot exist: the name of a key in place of its id.
fn impossible_keys(policy: &Policy) -> impl Iterator<Item = LintFinding> {
    let keys =
        policy.entity_literals().into_iter().filter(|uid| uid.type_name().to_string() == "PAR::ApiKey");
    keys.filter_map(|uid| {
        let id = uid.id().unescaped();
        KeyId::parse(id).is_none().then(|| LintFinding {
            at: LintPlace::Near(format!("ApiKey::\"{id}\"")),
            reason: format!("unknown key `{}`: no key has such an id", text::visible_line(id)),
            mend: "a key is named by its id, eight letters and digits: `par key list` shows it".to_owned(),
        })
    })
}

/// A string that the compared attribute never has: the rule matches nothing, and a `forbid` forbids
/// nothing.
fn unknown_word(expr: &Expr, catalog: &Catalog) -> Option<LintFinding> {
    let ExprKind::BinaryApp { op, arg1, arg2 } = expr.expr_kind() else { return None };
    let member = |expr: &Expr| match expr.expr_kind() {
        ExprKind::GetAttr { expr, attr } => Some((expr.clone(), attr.to_string())),
        _ => None,
    };
    let is_call = |of: &Expr| member(of).is_some_and(|(_, name)| name == "call");
    let is_context = |of: &Expr| matches!(of.expr_kind(), ExprKind::Var(ast::Var::Context));
    let is_principal = |of: &Expr| matches!(of.expr_kind(), ExprKind::Var(ast::Var::Principal));
    let ((of, name), word) = match (member(arg1), literal(arg2)) {
        (Some(member), Some(word)) => (member, word),
        _ if *op == BinaryOp::Eq => (member(arg2)?, literal(arg1)?),
        _ => return None,
    };
    let known: Vec<&str> = match (op, name.as_str()) {
        (BinaryOp::Eq, "approved") if is_call(&of) => vec!["no", "confirmed", "approved"],
        (BinaryOp::Eq, "channel") if is_context(&of) => Channel::ALL.map(Channel::as_str).to_vec(),
        (BinaryOp::Contains, "taint") if is_principal(&of) => vec![UNTRUSTED],
        (BinaryOp::Contains, "ceiling") if is_principal(&of) => {
            catalog.manifests().map(|manifest| manifest.name.as_str()).collect()
        }
        _ => return None,
    };
    (!known.contains(&word)).then(|| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: format!("`{name}` is never `{word}`"),
        mend: format!("its values are {}", known.join(", ")),
    })
}

/// A list of channels with one that does not exist: `["http", "web"].contains(context.channel)`.
fn unknown_channel(expr: &Expr) -> Option<LintFinding> {
    let ExprKind::BinaryApp { op: BinaryOp::Contains, arg1, arg2 } = expr.expr_kind() else { return None };
    let ExprKind::GetAttr { attr, .. } = arg2.expr_kind() else { return None };
    let ExprKind::Set(items) = arg1.expr_kind() else { return None };
    let word = items.iter().filter_map(literal).find(|word| Channel::parse(word).is_none())?;
    (attr == "channel").then(|| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: format!("`channel` is never `{word}`"),
        mend: format!("its values are {}", Channel::ALL.map(Channel::as_str).join(", ")),
    })
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr.expr_kind() {
        ExprKind::Lit(Literal::String(word)) => Some(word.as_str()),
        _ => None,
    }
}

/// Arithmetic that may overflow. An error denies every call that the policy applies to, so a caller
/// who chooses the number would choose one that overflows.
fn overflow(expr: &Expr) -> Option<LintFinding> {
    let sign = match expr.expr_kind() {
        ExprKind::UnaryApp { op: UnaryOp::Neg, .. } => "-",
        ExprKind::BinaryApp { op: BinaryOp::Add, .. } => "+",
        ExprKind::BinaryApp { op: BinaryOp::Sub, .. } => "-",
        ExprKind::BinaryApp { op: BinaryOp::Mul, .. } => "*",
        _ => return None,
    };
    constant(expr).is_none().then(|| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: format!(
            "`{sign}` may overflow, and an error denies the call: only literals can be used in arithmetic"
        ),
        mend: "compare the value itself with a literal or another value".to_owned(),
    })
}

/// The value of an expression of integer literals, unless it overflows.
fn constant(expr: &Expr) -> Option<i64> {
    match expr.expr_kind() {
        ExprKind::Lit(Literal::Long(number)) => Some(*number),
        ExprKind::UnaryApp { op: UnaryOp::Neg, arg } => constant(arg)?.checked_neg(),
        ExprKind::BinaryApp { op, arg1, arg2 } => {
            let (left, right) = (constant(arg1)?, constant(arg2)?);
            match op {
                BinaryOp::Add => left.checked_add(right),
                BinaryOp::Sub => left.checked_sub(right),
                BinaryOp::Mul => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The arguments that are paths, of the tools that the policy applies to.
fn path_arguments(policy: &Policy, catalog: &Catalog) -> BTreeSet<String> {
    let in_reach = catalog.manifests().filter(|m| fits_action(policy, &m.name, m.class));
    in_reach
        .filter_map(|manifest| match &manifest.resource {
            ResourceSpec::Path { argument } => Some(argument.clone()),
            ResourceSpec::Fixed { .. } | ResourceSpec::Id { .. } | ResourceSpec::Host { .. } => None,
        })
        .collect()
}

/// A test of a path as the caller wrote it, which can spell one file in many ways. The lint ignores
/// the expression that the attribute is read from: a record that contains the input would hide it
/// otherwise.
fn words_for_path(expr: &Expr, words: &BTreeSet<String>) -> Option<LintFinding> {
    let ExprKind::GetAttr { attr, .. } = expr.expr_kind() else { return None };
    words.contains(attr.as_str()).then(|| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: format!(
            "`{attr}` is the path as the caller wrote it, and one file has many paths (links, `..`)"
        ),
        mend: "test the resource, such as `resource in PAR::Path::\"/var/log\"`".to_owned(),
    })
}
