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
use crate::types::json::{JsonError, canonical, parse_strict};
use cedar_policy::get_sdk_version;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The format's name.
const FORMAT: &str = "par/bundle/1";

/// Why a text is not what was kept of a bundle.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It is of another format.
    #[error("unknown format, expected `{FORMAT}`")]
    OtherForm,
    /// A member is missing, or of another type.
    #[error("`{0}` is missing or has the wrong type")]
    Lacks(&'static str),
    /// `entities` is not a digest.
    #[error("`entities` is not a digest")]
    NoDigest,
    /// A member of `tests` is not a digest.
    #[error("`tests` has a value that is not a digest")]
    NoDigests,
    /// Its parts do not make a bundle.
    #[error("{0}")]
    Apart(String),
    /// It is whole, and another bundle: the digest that it leads to.
    #[error("its content has the digest {0}")]
    OtherDigest(Digest),
}

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
    pub fn rebuild(text: &[u8], digest: Digest) -> Result<Self, RebuildError> {
        let value = parse_strict(text, 4)?;
        if value.get("t").and_then(Value::as_str) != Some(FORMAT) {
            return Err(RebuildError::OtherForm);
        }
        let word = |name: &'static str| text_of(&value, name);
        let policies =
            value.get("policies").and_then(Value::as_array).ok_or(RebuildError::Lacks("policies"))?;
        let source =
            |one: &Value| Ok(SourceFile { name: text_of(one, "name")?, text: text_of(one, "text")? });
        let recipe = Recipe {
            sources: policies.iter().map(source).collect::<Result<_, RebuildError>>()?,
            base: word("base")?,
            schema: word("schema")?,
            engine: word("engine")?,
            lines: word("lines")?,
        };
        recipe.check().map_err(RebuildError::Apart)?;
        let groups: BTreeMap<String, Vec<String>> = member(&value, "groups")?;
        let entities = match value.get("entities") {
            Some(Value::Null) => None,
            Some(Value::String(hex)) => Some(Digest::from_hex(hex).ok_or(RebuildError::NoDigest)?),
            _ => return Err(RebuildError::Lacks("entities")),
        };
        let tests: BTreeMap<String, String> = member(&value, "tests")?;
        let digests = tests.into_iter().map(|(name, hex)| Some((name, Digest::from_hex(&hex)?)));
        let tests = digests.collect::<Option<_>>().ok_or(RebuildError::NoDigests)?;
        let (labels, suite) = (Labels::known_by(entities), Suite::known_by(tests));
        let bundle = Self::from_recipe(recipe, labels, suite)
            .map_err(RebuildError::Apart)?
            .with_groups(Groups::new(groups));
        if bundle.digest() == digest { Ok(bundle) } else { Err(RebuildError::OtherDigest(bundle.digest())) }
    }

    /// The version of Cedar's SDK that decided, where it is not this program's.
    #[must_use]
    pub fn other_engine(&self) -> Option<&str> {
        Some(self.recipe.engine.as_str()).filter(|engine| *engine != get_sdk_version().to_string())
    }
}

fn member<T: serde::de::DeserializeOwned>(value: &Value, name: &'static str) -> Result<T, RebuildError> {
    let found = value.get(name).and_then(|found| T::deserialize(found).ok());
    found.ok_or(RebuildError::Lacks(name))
}

fn text_of(value: &Value, name: &'static str) -> Result<String, RebuildError> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(RebuildError::Lacks(name))
}
