//! The policies that no file can remove.
//!
//! They follow from the schema of the tools and from the policies of the files. A bundle is archived
//! with their text, so that a later version of this program, whose built-in policies may differ,
//! still decides under those that were in force. An archive of the first format has no such text:
//! its built-in policies are those of [`first`], which therefore never change.

use super::powers;
use crate::policy::request::build;
use crate::tools::Class;
use cedar_policy::{Policy, PolicyId, PolicySet};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Built-in policies: id → text.
pub(in crate::policy) type BuiltIn = BTreeMap<String, String>;

/// The built-in policies of bundles that were archived without them.
pub(in crate::policy) fn first(set: &PolicySet, tools: &Value) -> Result<BuiltIn, String> {
    let actions = actions(tools)?;
    let mut found = common(set, actions);
    if actions.values().any(is_admin) {
        found.insert(TAINTED.to_owned(), tainted(""));
    }
    Ok(found)
}

/// The built-in policies of a bundle that is loaded now.
pub(in crate::policy) fn current(set: &PolicySet, tools: &Value) -> Result<BuiltIn, String> {
    first(set, tools)
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
const TAINTED: &str = "par.tainted";

fn tainted(unless: &str) -> String {
    format!(
        "forbid(principal, action in PAR::Action::\"admin\", resource) \
         when {{ principal.taint.contains(\"untrusted\") }}{unless};"
    )
}

/// Those for tools outside the ceiling and for paths outside the roots, and those that apply if no
/// file permits a power.
fn common(set: &PolicySet, actions: &Map<String, Value>) -> BuiltIn {
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
    found.extend(powers::bare(set));
    found
}

fn is_admin(tool: &Value) -> bool {
    tool.pointer("/memberOf/0/id") == Some(&json!(Class::Admin.as_str()))
}

fn actions(tools: &Value) -> Result<&Map<String, Value>, String> {
    let actions = tools.pointer("/PAR/actions").and_then(Value::as_object);
    actions.ok_or_else(|| "the schema of the tools has no actions".to_owned())
}
