//! Rules on powers of the API that Cedar accepts and PAR refuses.

use super::finding::{LintFinding, LintPlace, offset};
use crate::policy::power::{GROUP, Power, fits_power};
use crate::policy::uses::Via;
use cedar_policy::{ActionConstraint, Effect, EntityUid, Policy};
use cedar_policy_core::ast::{self, BinaryOp, Expr, ExprKind, Literal};

/// Every fault of `policy`, if it can match a use of a power.
pub(in crate::policy) fn faults(policy: &Policy) -> Vec<LintFinding> {
    if !Power::ALL.into_iter().any(|power| fits_power(policy, power)) {
        return Vec::new();
    }
    let mut found: Vec<LintFinding> =
        [permit_of_both(policy), useless_approval(policy)].into_iter().flatten().collect();
    found.extend(single_object(policy));
    found.extend(unknown_entity(policy));
    let ast: &ast::Policy = policy.as_ref();
    for expr in ast.non_scope_constraints().into_iter().flat_map(Expr::subexpressions) {
        found.extend(owner_in(expr));
        found.extend(unknown_door(expr));
    }
    found
}

/// A permit that covers tools and powers alike: a reader takes it for a rule on tools, and it
/// grants key management too.
fn permit_of_both(policy: &Policy) -> Option<LintFinding> {
    let is_any = policy.action_constraint() == ActionConstraint::Any;
    (policy.effect() == Effect::Permit && is_any).then(|| LintFinding {
        at: LintPlace::Near("action".to_owned()),
        reason: "a permit without an action permits both tools and powers of the API".to_owned(),
        mend: "write `action in PAR::Action::\"call_tool\"`, or name the actions that it permits".to_owned(),
    })
}

/// An annotation that asks for approval of a use of a power. Powers have no approvals.
fn useless_approval(policy: &Policy) -> Option<LintFinding> {
    let name =
        ["require_approval", "require_confirm"].into_iter().find(|name| policy.annotation(name).is_some())?;
    let is_power =
        |uid: &EntityUid| uid.id().unescaped() == GROUP || Power::parse(uid.id().unescaped()).is_some();
    let names_power = match policy.action_constraint() {
        ActionConstraint::Any => false,
        ActionConstraint::Eq(uid) => is_power(&uid),
        ActionConstraint::In(uids) => uids.iter().any(is_power),
    };
    names_power.then(|| LintFinding {
        at: LintPlace::Near(format!("@{name}")),
        reason: format!("`@{name}` has no effect on a power of the API"),
        mend: "a power is either granted or denied; only tool calls can wait for a person".to_owned(),
    })
}

/// A server or caller that cannot exist: a `forbid` on it would never match.
fn unknown_entity(policy: &Policy) -> Option<LintFinding> {
    let is_none = |kind: &str, id: &str| match kind {
        "Server" => id != "self",
        "Caller" => !["key:", "os:"].into_iter().any(|start| id.starts_with(start)),
        _ => false,
    };
    let named = policy.entity_literals().into_iter().find_map(|uid| {
        let (kind, id) = (uid.type_name().basename().to_owned(), uid.id().unescaped().to_owned());
        is_none(&kind, &id).then_some((kind, id))
    });
    named.map(|(kind, id)| LintFinding {
        at: LintPlace::Near(format!("{kind}::\"{id}\"")),
        reason: format!("unknown {kind} `{id}`"),
        mend: "the only server is `self`; a caller has its name in the ledger, such as `key:Ab3dEf9h` or \
               `os:root`"
            .to_owned(),
    })
}

/// A single run or approval. Lists are filtered by owner, so such a rule would apply to a request
/// for one object and not to a list.
fn single_object(policy: &Policy) -> Option<LintFinding> {
    let named = policy.entity_literals().into_iter().find_map(|uid| {
        let kind = ["Run", "Approval"].into_iter().find(|kind| uid.type_name().basename() == *kind)?;
        Some((kind, uid.id().unescaped().to_owned()))
    });
    named.map(|(kind, id)| LintFinding {
        at: LintPlace::Near(format!("{kind}::\"{id}\"")),
        reason: format!("a rule names a single `{kind}`, but rules can distinguish them only by owner"),
        mend: "compare the owner: `resource.owner == principal`".to_owned(),
    })
}

/// A test of what an owner is in. The request does not contain the owner's parents, so to Cedar it
/// is in nothing.
fn owner_in(expr: &Expr) -> Option<LintFinding> {
    let ExprKind::BinaryApp { op: BinaryOp::In, arg1, .. } = expr.expr_kind() else { return None };
    let is_owner =
        |expr: &Expr| matches!(expr.expr_kind(), ExprKind::GetAttr { attr, .. } if attr == "owner");
    arg1.subexpressions().any(is_owner).then(|| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: "a request does not say which groups an owner is in, so this is never true".to_owned(),
        mend: "compare the owner itself: `resource.owner == principal`, or with a `PAR::Caller::\"key:…\"`"
            .to_owned(),
    })
}

/// An unknown door: a `forbid` on it would never match.
fn unknown_door(expr: &Expr) -> Option<LintFinding> {
    let ExprKind::BinaryApp { op: BinaryOp::Eq, arg1, arg2 } = expr.expr_kind() else { return None };
    let is_via = |expr: &Expr| matches!(expr.expr_kind(), ExprKind::GetAttr { attr, .. } if attr == "via");
    let word = |expr: &Expr| match expr.expr_kind() {
        ExprKind::Lit(Literal::String(word)) => Some(word.to_string()),
        _ => None,
    };
    let word = word(arg2).filter(|_| is_via(arg1)).or_else(|| word(arg1).filter(|_| is_via(arg2)))?;
    Via::parse(&word).is_none().then(|| LintFinding {
        at: LintPlace::Offset(offset(expr)),
        reason: format!("unknown door `{word}`"),
        mend: format!("expected one of {}", Via::ALL.map(Via::as_str).join(", ")),
    })
}
