//! The policies that no file can remove.
//!
//! They follow from the schema of the tools and from the policies of the files. A bundle is
//! archived with their text, so that a later version of this program, whose built-in policies may
//! differ, still decides under those that were in force. An archive of the first format has no such
//! text: its built-in policies are those of [`first`], which therefore never change.

use super::annotations::lifts_taint;
use super::powers;
use super::scope::fits_action;
use crate::policy::ask::ACTION as MODEL_ASK;
use crate::policy::power::Power;
use crate::policy::request::build;
use crate::tools::Class;
use cedar_policy::{Effect, Policy, PolicyId, PolicySet};
use cedar_policy_core::ast;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Built-in policies: id → text.
pub(in crate::policy) type BuiltIn = BTreeMap<String, String>;

/// The built-in policies of bundles that were archived without them.
pub(in crate::policy) fn first(set: &PolicySet, tools: &Value) -> Result<BuiltIn, String> {
    let actions = actions(tools)?;
    let mut found = common(actions);
    found.extend(powers::bare(set, &[]));
    if actions.values().any(is_admin) {
        found.insert(TAINTED.to_owned(), tainted(ADMIN, ""));
    }
    Ok(found)
}

/// The built-in policies of a bundle that is loaded now.
///
/// A permit with `@tainted("confirm")` lets a person confirm calls that it permits in a tainted
/// session. Its condition is part of the text of a policy here, so the archive says which permits
/// those were, and so is that of the tool's other permits, whose calls no person can confirm. The
/// tools that no permit with the annotation covers are denied by a policy of their own, which
/// depends on the session alone: they are not even offered.
pub(in crate::policy) fn current(set: &PolicySet, tools: &Value) -> Result<BuiltIn, String> {
    let actions = actions(tools)?;
    let mut found = common(actions);
    found.extend(powers::bare(set, &[Power::Halt]));
    found.extend(halted());
    let (mut lifted, mut is_other) = (Vec::new(), false);
    for (name, _) in actions.iter().filter(|(_, tool)| is_admin(tool)) {
        let permits = conditions(set, name, lifts_taint);
        if permits.is_empty() {
            is_other = true;
            continue;
        }
        // Only what another permit covers: a call without any is denied as in every other session.
        let others = conditions(set, name, |policy| !lifts_taint(policy));
        if !others.is_empty() {
            let scope = format!("action == PAR::Action::\"{name}\"");
            let rest = format!(" when {{ {} }} unless {{ {} }}", others.join(" || "), permits.join(" || "));
            found.insert(format!("{TAINTED}.{name}"), tainted(&scope, &rest));
        }
        lifted.push(format!("PAR::Action::\"{name}\""));
    }
    if lifted.is_empty() && is_other {
        found.insert(TAINTED.to_owned(), tainted(ADMIN, ""));
    } else if is_other {
        let unless = format!(" unless {{ action in [{}] }}", lifted.join(", "));
        found.insert(TAINTED.to_owned(), tainted(ADMIN, &unless));
    }
    if !lifted.is_empty() {
        let scope = format!("action in [{}]", lifted.join(", "));
        let unless =
            " unless { context.call.approved == \"confirmed\" || context.call.approved == \"approved\" }";
        found.insert(TAINTED_CONFIRM.to_owned(), format!("{CONFIRMS} {}", tainted(&scope, unless)));
    }
    Ok(found)
}

/// The annotations of the policy that asks a person.
const CONFIRMS: &str = "@require_confirm(\"\") \
     @advice(\"the run has read untrusted text: a person must check this call first\")";

/// The conditions, with their scopes, of those permits of the tool `name` of the class `admin` that
/// are `wanted`.
fn conditions(set: &PolicySet, name: &str, wanted: impl Fn(&Policy) -> bool) -> Vec<String> {
    let is_one = |policy: &&Policy| {
        policy.effect() == Effect::Permit && fits_action(policy, name, Class::Admin) && wanted(policy)
    };
    let permits = set.policies().filter(is_one);
    let mut permits: Vec<(String, String)> = permits
        .map(|policy| {
            let tree: &ast::Policy = policy.as_ref();
            (policy.id().to_string(), format!("({})", tree.condition()))
        })
        .collect();
    permits.sort();
    permits.into_iter().map(|(_, condition)| condition).collect()
}

/// Adds the policies to `set`.
pub(in crate::policy) fn add(set: &mut PolicySet, built_in: &BuiltIn) -> Result<(), String> {
    for (id, text) in built_in {
        let policy = Policy::parse(Some(PolicyId::new(id)), text).map_err(|e| e.to_string())?;
        set.add(policy).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The forbid of tools of the class `admin` in a session that has read untrusted output.
pub(in crate::policy) const TAINTED: &str = "par.tainted";
/// The forbid that asks a person about those that a permit with `@tainted("confirm")` covers.
const TAINTED_CONFIRM: &str = "par.tainted-confirm";
/// The scope of every tool of that class.
const ADMIN: &str = "action in PAR::Action::\"admin\"";

fn tainted(action: &str, rest: &str) -> String {
    format!(
        "forbid(principal, {action}, resource) \
         when {{ principal.taint.contains(\"untrusted\") }}{rest};"
    )
}

/// Those for tools outside the ceiling and for paths outside the roots.
fn common(actions: &Map<String, Value>) -> BuiltIn {
    let ceiling = |name: &String| {
        let text = format!(
            "forbid(principal, action == PAR::Action::\"{name}\", resource) \
             unless {{ principal.ceiling.contains(\"{name}\") }};"
        );
        (format!("par.ceiling.{name}"), text)
    };
    let mut found: BuiltIn = actions.keys().map(ceiling).collect();
    let is_path = |tool: &Value| tool.pointer("/appliesTo/resourceTypes/0") == Some(&json!("Path"));
    if actions.values().any(is_path) {
        let outside = format!(
            "forbid(principal, action in PAR::Action::\"call_tool\", resource is PAR::Path) \
             when {{ resource.labels.contains(\"{}\") }};",
            build::OUTSIDE
        );
        found.insert("par.outside".to_owned(), outside);
    }
    found
}

/// The forbids of what a person has stopped: calls and requests to models.
fn halted() -> BTreeMap<String, String> {
    let of = |actions: &str, fact: &str| {
        format!("forbid(principal, {actions}, resource) when {{ context.{fact}.halted }};")
    };
    BTreeMap::from([
        ("par.halted".to_owned(), of("action in PAR::Action::\"call_tool\"", "call")),
        ("par.halted.ask".to_owned(), of(&format!("action == PAR::Action::\"{MODEL_ASK}\""), "ask")),
    ])
}

fn is_admin(tool: &Value) -> bool {
    tool.pointer("/memberOf/0/id") == Some(&json!(Class::Admin.as_str()))
}

fn actions(tools: &Value) -> Result<&Map<String, Value>, String> {
    let actions = tools.pointer("/PAR/actions").and_then(Value::as_object);
    actions.ok_or_else(|| "the schema of the tools has no actions".to_owned())
}
