//! Rules on requests to language models that Cedar accepts and PAR refuses.

use super::finding::{LintFinding, LintPlace};
use crate::policy::ask::{ACTION, SINK, fits_ask};
use crate::types::{ModelSink, text};
use cedar_policy::{ActionConstraint, EntityUid, Policy};

/// Every fault of `policy`, if it can match a request to a model.
pub(in crate::policy) fn faults(policy: &Policy) -> Vec<LintFinding> {
    if !fits_ask(policy) {
        return Vec::new();
    }
    [useless_approval(policy), unknown_sink(policy)].into_iter().flatten().collect()
}

/// An annotation that asks a person about a request to a model. It is sent in the middle of a run,
/// and cannot wait.
fn useless_approval(policy: &Policy) -> Option<LintFinding> {
    let name =
        ["require_approval", "require_confirm"].into_iter().find(|name| policy.annotation(name).is_some())?;
    let is_ask = |uid: &EntityUid| uid.id().unescaped() == ACTION;
    let names_ask = match policy.action_constraint() {
        ActionConstraint::Any => false,
        ActionConstraint::Eq(uid) => is_ask(&uid),
        ActionConstraint::In(uids) => uids.iter().any(is_ask),
    };
    names_ask.then(|| LintFinding {
        at: LintPlace::Near(format!("@{name}")),
        reason: format!("`@{name}` has no effect on `{ACTION}`"),
        mend: "a request to a model is either allowed or denied; only tool calls can wait for a person"
            .to_owned(),
    })
}

/// A sink that cannot exist: a `forbid` on it would never match.
fn unknown_sink(policy: &Policy) -> Option<LintFinding> {
    let sinks = policy.entity_literals().into_iter().filter(|uid| uid.type_name().basename() == SINK);
    let is_none = |name: &String| name.strip_prefix(ModelSink::PREFIX).is_none_or(str::is_empty);
    let name = sinks.map(|uid| uid.id().unescaped().to_owned()).find(is_none)?;
    Some(LintFinding {
        at: LintPlace::Near(format!("{SINK}::\"{name}\"")),
        reason: format!("unknown sink `{}`", text::visible_line(&name)),
        mend: format!(
            "a model is `{}NAME`; the one of `[llm]` is `{0}{}`",
            ModelSink::PREFIX,
            ModelSink::DEFAULT
        ),
    })
}
