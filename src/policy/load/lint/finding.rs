//! A finding of a lint.

use cedar_policy_core::ast::Expr;

/// What is wrong with a policy.
#[derive(Debug)]
pub(in crate::policy) struct LintFinding {
    pub(in crate::policy) at: LintPlace,
    pub(in crate::policy) reason: String,
    pub(in crate::policy) mend: String,
}

/// The place of a finding.
#[derive(Debug)]
pub(in crate::policy) enum LintPlace {
    /// At this offset of the file, or at the policy's first line if the syntax tree has no offset.
    Offset(Option<usize>),
    /// At the first line of the policy that contains this text, or else at its first line.
    Near(String),
}

pub(in crate::policy) fn offset(expr: &Expr) -> Option<usize> {
    expr.source_loc().map(|loc| loc.span.offset())
}
