//! The checks of policies at load: Cedar's own validation, and PAR's lints.

use super::error::{PolicyError, SourceFile, first_offset, help, near, one_per_line, placed};
use super::lint::finding::{LintFinding, LintPlace};
use super::lint::{never, rules};
use super::origin::Origin;
use crate::policy::ask::ACTION as MODEL_ASK;
use crate::tools::{Catalog, Class, POWERS};
use crate::types::nearest;
use cedar_policy::{
    ActionConstraint, Policy, PolicyId, PolicySet, Schema, ValidationError, ValidationMode,
    ValidationWarning, Validator,
};
use miette::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};

/// The faults of the policies: those of Cedar's own validation, whose warnings count as errors, and
/// what Cedar accepts and PAR does not.
pub(in crate::policy) fn faults(
    set: &PolicySet,
    schema: &Schema,
    catalog: &Catalog,
    origins: &BTreeMap<String, Origin>,
    sources: &[SourceFile],
) -> Vec<PolicyError> {
    let result = Validator::new(schema.clone()).validate(set, ValidationMode::Strict);
    let place = |id: &PolicyId, fault: &dyn Diagnostic, mend| {
        let at = placed(id.as_ref(), first_offset(fault), fault.to_string(), origins, sources);
        PolicyError { mend, ..at }
    };
    let is_of_all = |id: &PolicyId| {
        set.policy(id).is_some_and(|policy| policy.action_constraint() == ActionConstraint::Any)
    };
    let mend = |e: &ValidationError| match e {
        ValidationError::UnsafeAttributeAccess(_) if is_of_all(e.policy_id()) => Some(OF_ALL.to_owned()),
        ValidationError::UnrecognizedActionId(_) => Some(known_actions(&e.to_string(), catalog)),
        other => mend_error(other),
    };
    let mut wrong: BTreeSet<&PolicyId> = result.validation_errors().map(ValidationError::policy_id).collect();
    let mut found: Vec<PolicyError> =
        result.validation_errors().map(|e| place(e.policy_id(), e, mend(e))).collect();
    // A built-in policy may be impossible: `par.tainted.TOOL` is if a permit lifts every call. And
    // a policy with an error is impossible because of it.
    let counts = |w: &&ValidationWarning| {
        origins.contains_key(AsRef::<str>::as_ref(w.policy_id())) && !wrong.contains(w.policy_id())
    };
    let warned: Vec<&ValidationWarning> = result.validation_warnings().filter(counts).collect();
    found.extend(warned.iter().map(|w| place(w.policy_id(), *w, mend_warning(w))));
    wrong.extend(warned.iter().map(|w| w.policy_id()));
    found.extend(lint(
        set,
        &|policy| {
            let form = rules::faults(policy, catalog);
            // What else is wrong with a rule says more than that it never applies.
            let is_sound = form.is_empty() && !wrong.contains(policy.id());
            if is_sound { never::faults(policy, catalog) } else { form }
        },
        origins,
        sources,
    ));
    one_per_line(found)
}

/// What the policies say without effect: comparisons that are always true. Not a fault.
pub(in crate::policy) fn constants(
    set: &PolicySet,
    catalog: &Catalog,
    origins: &BTreeMap<String, Origin>,
    sources: &[SourceFile],
) -> Vec<PolicyError> {
    one_per_line(lint(set, &|policy| never::constants(policy, catalog), origins, sources))
}

const OF_ALL: &str = "a rule without an action covers every tool and every power of the API: write \
                      `action in PAR::Action::\"call_tool\"`, or name the tools that have this";

/// The actions that exist, and the one that was likely meant.
fn known_actions(message: &str, catalog: &Catalog) -> String {
    let classes = Class::ALL.map(Class::as_str);
    let written = message.split_once("::\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
    let tools = catalog.manifests().map(|manifest| manifest.name.as_str());
    let known = tools.chain(classes).chain(POWERS).chain(["call_tool", "api", MODEL_ASK]);
    let meant = nearest(written, known).map(|meant| format!("did you mean `{meant}`? "));
    format!(
        "{}`par tool list` lists the tools; classes are {}; powers are {}",
        meant.unwrap_or_default(),
        classes.join(", "),
        POWERS.join(", ")
    )
}

/// Cedar's own advice, unless PAR knows better which names exist.
fn mend_error(error: &ValidationError) -> Option<String> {
    match error {
        // For an argument of another tool, Cedar would suggest whichever name is spelled most
        // alike.
        ValidationError::UnsafeAttributeAccess(e) if e.to_string().contains(" in context for ") => Some(
            "`par tool show TOOL` lists the arguments; `action` must name tools that have this one"
                .to_owned(),
        ),
        other => help(other),
    }
}

fn mend_warning(warning: &ValidationWarning) -> Option<String> {
    match warning {
        ValidationWarning::InvalidActionApplication(_) => Some(NO_CALL.to_owned()),
        ValidationWarning::ImpossiblePolicy(_) => {
            Some(format!("{NO_CALL}; or the conditions exclude each other"))
        }
        other => help(other),
    }
}

const NO_CALL: &str = "no call matches this: `par tool list` shows actions and resources, and a principal is \
                       always `in` a role, group, user or key";

/// What Cedar accepts and PAR does not: what `findings` are of each policy of the files.
fn lint(
    set: &PolicySet,
    findings: &dyn Fn(&Policy) -> Vec<LintFinding>,
    origins: &BTreeMap<String, Origin>,
    sources: &[SourceFile],
) -> Vec<PolicyError> {
    let of_files = set.policies().filter(|policy| origins.contains_key(AsRef::<str>::as_ref(policy.id())));
    let found = of_files.flat_map(|policy| {
        let id: &str = policy.id().as_ref();
        findings(policy).into_iter().map(move |finding| {
            let offset = match finding.at {
                LintPlace::Offset(offset) => offset,
                LintPlace::Near(words) => near(id, &words, origins, sources),
            };
            placed(id, offset, finding.reason, origins, sources).mended(finding.mend)
        })
    });
    found.collect()
}
