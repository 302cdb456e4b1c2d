//! The schema derived from a catalog, and the forbids that follow from it.

use super::error::{PolicyError, SourceFile, located};
use super::powers;
use crate::policy::request::build;
use crate::policy::request::lower;
use crate::tools::{Catalog, Class};
use cedar_policy::{Policy, PolicyId, PolicySet, Schema, SchemaFragment};
use serde_json::{Map, Value, json};

/// The part of every schema that does not depend on the tools.
pub(in crate::policy) const BASE: &str = include_str!("base.cedarschema");

pub(in crate::policy) fn schema_json(catalog: &Catalog) -> Result<Value, Vec<PolicyError>> {
    let (mut actions, mut types) = (Map::new(), Map::new());
    for manifest in catalog.manifests() {
        let file = SourceFile { name: manifest.file_name(), text: manifest.text.clone() };
        let at = |argument: Option<&str>, reason| vec![located(&file, manifest.declared(argument), reason)];
        let input = lower::record_type(&manifest.input);
        let input = input.map_err(|unfit| at(unfit.argument.as_deref(), unfit.reason.to_string()))?;
        types.insert(format!("{}_input", manifest.name), input);
        let context = json!({ "type": "Record", "attributes": {
            "input": { "type": format!("{}_input", manifest.name) }, "call": { "type": "Call" } } });
        let applies = json!({ "principalTypes": ["Session"], "resourceTypes": [manifest.resource.kind()], "context": context });
        let action = json!({ "memberOf": [{ "id": manifest.class.as_str() }], "appliesTo": applies });
        actions.insert(manifest.name.clone(), action);
    }
    Ok(json!({ "PAR": { "entityTypes": {}, "commonTypes": types, "actions": actions } }))
}

pub(in crate::policy) fn schema(base: &str, tools: &Value) -> Result<Schema, String> {
    let (base, warnings) = SchemaFragment::from_cedarschema_str(base).map_err(|e| e.to_string())?;
    if let Some(warning) = warnings.into_iter().next() {
        return Err(warning.to_string());
    }
    let tools = SchemaFragment::from_json_value(tools.clone()).map_err(|e| e.to_string())?;
    Schema::from_schema_fragments([base, tools]).map_err(|e| e.to_string())
}

/// Adds the forbids that no file can remove: for tools outside the ceiling, and for paths outside
/// the roots. They follow from the schema of the `tools`, which the digest covers.
pub(in crate::policy) fn add_built_in(set: &mut PolicySet, tools: &Value) -> Result<(), String> {
    let mut add = |id: String, text: String| {
        let policy = Policy::parse(Some(PolicyId::new(id)), text).map_err(|e| e.to_string())?;
        set.add(policy).map_err(|e| e.to_string())
    };
    let actions = tools.pointer("/PAR/actions").and_then(Value::as_object);
    let actions = actions.ok_or("the schema of the tools has no actions")?;
    for name in actions.keys() {
        add(
            format!("par.ceiling.{name}"),
            format!(
                "forbid(principal, action == PAR::Action::\"{name}\", resource) \
                 unless {{ principal.ceiling.contains(\"{name}\") }};"
            ),
        )?;
    }
    // A tool of class `admin` is not even offered to a session that has read untrusted output.
    if actions.values().any(|tool| tool.pointer("/memberOf/0/id") == Some(&json!(Class::Admin.as_str()))) {
        let tainted = "forbid(principal, action in PAR::Action::\"admin\", resource) \
                       when { principal.taint.contains(\"untrusted\") };";
        add("par.tainted".to_owned(), tainted.to_owned())?;
    }
    let is_path = |tool: &Value| tool.pointer("/appliesTo/resourceTypes/0") == Some(&json!("Path"));
    if actions.values().any(is_path) {
        let outside = format!(
            "forbid(principal, action in PAR::Action::\"call_tool\", resource is PAR::Path) \
             when {{ resource.labels.contains(\"{}\") }};",
            build::OUTSIDE
        );
        add("par.outside".to_owned(), outside)?;
    }
    powers::add_bare(set)
}
