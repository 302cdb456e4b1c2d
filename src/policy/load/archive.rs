//! A bundle as it is kept: everything that its digest covers and that its decisions hang on, as one JSON
//! text, from which the same bundle can be made again.
//!
//! Of tools only the digests are kept, and the schema that they led to: that is what policies see of them. Of
//! `entities.toml` only the digest: the labels that it gave stand in each request. So of the policies' tests.

use super::bundle::Bundle;
use super::error::SourceFile;
use super::recipe::Recipe;
use super::suite::file::Suite;
use crate::policy::request::groups::Groups;
use crate::policy::request::labels::Labels;
use crate::types::Digest;
use crate::types::json::{canonical, parse_strict};
use cedar_policy::get_sdk_version;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The format's name.
const FORMAT: &str = "par/bundle/1";

impl Bundle {
    /// What is to be kept of the bundle under its digest: canonical JSON, and a newline.
    #[must_use]
    pub fn keep(&self) -> String {
        let policies = self.recipe.sources.iter().map(|s| json!({ "name": s.name, "text": s.text }));
        let kept = json!({
            "t": FORMAT,
            "policies": policies.collect::<Vec<_>>(),
            "base": self.recipe.base,
            "schema": self.recipe.schema,
            "engine": self.recipe.engine,
            "lines": self.recipe.lines,
            "tests": self.suite.files().iter().map(|(name, digest)| (name, digest.hex())).collect::<BTreeMap<_, _>>(),
            "entities": self.labels.digest().map(|digest| digest.hex()),
            "groups": self.groups.users(),
        });
        // It holds no number, so there is a canonical form.
        canonical(&kept).unwrap_or_default() + "\n"
    }

    /// Makes a bundle again from what was kept of it. `digest` is what it was kept under: where the text
    /// does not lead to it, or does not hold together, there is none.
    pub fn rebuild(text: &[u8], digest: Digest) -> Result<Self, String> {
        let value = parse_strict(text, 4).map_err(|e| e.to_string())?;
        if value.get("t").and_then(Value::as_str) != Some(FORMAT) {
            return Err(format!("is not of the form `{FORMAT}`"));
        }
        let word = |name: &str| text_of(&value, name);
        let policies = value.get("policies").and_then(Value::as_array).ok_or("has no `policies`")?;
        let source =
            |one: &Value| Ok(SourceFile { name: text_of(one, "name")?, text: text_of(one, "text")? });
        let recipe = Recipe {
            sources: policies.iter().map(source).collect::<Result<_, String>>()?,
            base: word("base")?,
            schema: word("schema")?,
            engine: word("engine")?,
            lines: word("lines")?,
        };
        recipe.check()?;
        let groups: BTreeMap<String, Vec<String>> = member(&value, "groups")?;
        let entities = match value.get("entities") {
            Some(Value::Null) => None,
            Some(Value::String(hex)) => Some(Digest::from_hex(hex).ok_or("`entities` is no digest")?),
            _ => return Err("has no `entities`".to_owned()),
        };
        let tests: BTreeMap<String, String> = member(&value, "tests")?;
        let digests = tests.into_iter().map(|(name, hex)| Some((name, Digest::from_hex(&hex)?)));
        let tests = digests.collect::<Option<_>>().ok_or("`tests` has no digests")?;
        let (labels, suite) = (Labels::known_by(entities), Suite::known_by(tests));
        let bundle = Self::of_recipe(recipe, labels, suite)?.with_groups(Groups::new(groups));
        if bundle.digest() == digest {
            Ok(bundle)
        } else {
            Err(format!("leads to the digest {}", bundle.digest()))
        }
    }

    /// The version of Cedar's SDK that decided, where it is not this program's.
    #[must_use]
    pub fn other_engine(&self) -> Option<&str> {
        Some(self.recipe.engine.as_str()).filter(|engine| *engine != get_sdk_version().to_string())
    }
}

fn member<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> Result<T, String> {
    let found = value.get(name).and_then(|found| T::deserialize(found).ok());
    found.ok_or_else(|| format!("has no `{name}`"))
}

fn text_of(value: &Value, name: &str) -> Result<String, String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("has no `{name}`"))
}
