//! What a lint says of a policy.

use cedar_policy_core::ast::Expr;

/// What is wrong with a policy.
#[derive(Debug)]
pub(in crate::policy) struct LintFinding {
    pub(in crate::policy) at: LintPlace,
    pub(in crate::policy) reason: String,
    pub(in crate::policy) mend: String,
}

/// Where a finding stands.
#[derive(Debug)]
pub(in crate::policy) enum LintPlace {
    /// At this offset of the file, or at the policy's first line where the tree does not tell.
    Offset(Option<usize>),
    /// At the first line of the policy that has this, or else at its first.
    Near(String),
}

pub(in crate::policy) fn offset(expr: &Expr) -> Option<usize> {
    expr.source_loc().map(|loc| loc.span.offset())
}
