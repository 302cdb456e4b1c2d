//! The schema derived from a catalog.

use super::error::{PolicyError, SourceFile, located};
use crate::policy::request::lower;
use crate::policy::request::origins::{FROM, FROM_ALL};
use crate::tools::{Catalog, Manifest};
use cedar_policy::{Schema, SchemaFragment};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

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
        let text = json!({ "type": "String" });
        let context = json!({ "type": "Record", "attributes": {
            "input": { "type": format!("{}_input", manifest.name) }, "call": { "type": "Call" },
            "channel": text, "agent": text, "task": text, "plan": { "type": "Boolean" },
            FROM: origins_type(manifest), FROM_ALL: text } });
        let kinds: Vec<&str> = manifest.resource_kinds().collect();
        let applies = json!({ "principalTypes": ["Session"], "resourceTypes": kinds, "context": context });
        let action = json!({ "memberOf": [{ "id": manifest.class.as_str() }], "appliesTo": applies });
        actions.insert(manifest.name.clone(), action);
    }
    Ok(json!({ "PAR": { "entityTypes": {}, "commonTypes": types, "actions": actions } }))
}

/// Where each sensitive argument was found: a member for each.
fn origins_type(manifest: &Manifest) -> Value {
    let members = manifest.sensitive.iter().map(|one| (one.name.clone(), json!({ "type": "String" })));
    json!({ "type": "Record", "attributes": members.collect::<Map<_, _>>() })
}

/// The sensitive arguments of each tool, by its name, in the derived schema `tools`. A schema of an
/// earlier version has none for any tool.
pub(in crate::policy) fn sensitive(tools: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let actions = tools.pointer("/PAR/actions").and_then(Value::as_object).into_iter().flatten();
    let members = |action: &Value| {
        let from = action.pointer("/appliesTo/context/attributes")?.get(FROM)?;
        Some(from.get("attributes")?.as_object()?.keys().cloned().collect())
    };
    actions.filter_map(|(name, action)| Some((name.clone(), members(action)?))).collect()
}

pub(in crate::policy) fn schema(base: &str, tools: &Value) -> Result<Schema, String> {
    let (base, warnings) = SchemaFragment::from_cedarschema_str(base).map_err(|e| e.to_string())?;
    if let Some(warning) = warnings.into_iter().next() {
        return Err(warning.to_string());
    }
    let tools = SchemaFragment::from_json_value(tools.clone()).map_err(|e| e.to_string())?;
    Schema::from_schema_fragments([base, tools]).map_err(|e| e.to_string())
}
