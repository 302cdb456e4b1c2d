//! A bundle as it is archived: one JSON text with everything that its digest covers and its
//! decisions depend on, from which the same bundle can be rebuilt.
//!
//! It has only the digests of the tools and the schema derived from them, because policies see
//! nothing else. It has only the digests of `entities.toml`, of the policies' tests and of
//! runbooks, because each recorded request has its labels, a replay runs no tests, and a run that
//! was given a runbook has its text.

use super::bundle::Bundle;
use super::error::SourceFile;
use super::recipe::Recipe;
use super::suite::file::Suite;
use crate::policy::request::groups::Groups;
use crate::policy::request::labels::Labels;
use crate::runbooks::Runbooks;
use crate::types::Digest;
use crate::types::json::{JsonError, canonical, parse_strict};
use cedar_policy::get_sdk_version;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of the format.
const FORMAT: &str = "par/bundle/2";
/// The format before it, without the text of the built-in policies.
const FORMAT_1: &str = "par/bundle/1";

/// Why a text is not the archive of a bundle.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The text is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The text has another format.
    #[error("unknown format, expected `{FORMAT}` or `{FORMAT_1}`")]
    OtherForm,
    /// A member is missing, or of another type.
    #[error("`{0}` is missing or has the wrong type")]
    Missing(&'static str),
    /// `entities` is not a digest.
    #[error("`entities` is not a digest")]
    NoDigest,
    /// A value in this member is not a digest.
    #[error("`{0}` has a value that is not a digest")]
    NoDigests(&'static str),
    /// Its parts do not make a bundle.
    #[error("{0}")]
    Apart(String),
    /// The text is a whole bundle, but another one; this is its digest.
    #[error("its content has the digest {0}")]
    OtherDigest(Digest),
}

impl Bundle {
    /// The archive of this bundle, to be stored under its digest: canonical JSON and a newline.
    #[must_use]
    pub fn archive(&self) -> String {
        let policies = self.recipe.sources.iter().map(|s| json!({ "name": s.name, "text": s.text }));
        let mut kept = json!({
            "t": if self.recipe.built_in.is_some() { FORMAT } else { FORMAT_1 },
            "policies": policies.collect::<Vec<_>>(),
            "base": self.recipe.base,
            "schema": self.recipe.schema,
            "engine": self.recipe.engine,
            "lines": self.recipe.lines,
            "tests": self.suite.files().iter().map(|(name, digest)| (name, digest.hex())).collect::<BTreeMap<_, _>>(),
            "entities": self.labels.digest().map(|digest| digest.hex()),
            "groups": self.groups.users(),
        });
        if let (Some(built_in), Some(members)) = (&self.recipe.built_in, kept.as_object_mut()) {
            members.insert("built_in".to_owned(), json!(built_in));
        }
        let runbooks = self.runbooks().files();
        if let (false, Some(members)) = (runbooks.is_empty(), kept.as_object_mut()) {
            let digests: BTreeMap<_, _> =
                runbooks.iter().map(|(name, digest)| (name, digest.hex())).collect();
            members.insert("runbooks".to_owned(), json!(digests));
        }
        // It contains no number, so it has a canonical form.
        canonical(&kept).unwrap_or_default() + "\n"
    }

    /// Rebuilds a bundle from `text`, which was archived under `digest`.
    ///
    /// # Errors
    ///
    /// The text is malformed, its parts do not make a bundle, or the bundle has another digest.
    pub fn rebuild(text: &[u8], digest: Digest) -> Result<Self, RebuildError> {
        let value = parse_strict(text, 4)?;
        let built_in = match value.get("t").and_then(Value::as_str) {
            Some(FORMAT) => Some(member(&value, "built_in")?),
            Some(FORMAT_1) => None,
            _ => return Err(RebuildError::OtherForm),
        };
        let word = |name: &'static str| text_of(&value, name);
        let policies =
            value.get("policies").and_then(Value::as_array).ok_or(RebuildError::Missing("policies"))?;
        let source =
            |one: &Value| Ok(SourceFile { name: text_of(one, "name")?, text: text_of(one, "text")? });
        let recipe = Recipe {
            sources: policies.iter().map(source).collect::<Result<_, RebuildError>>()?,
            base: word("base")?,
            schema: word("schema")?,
            engine: word("engine")?,
            built_in,
            lines: word("lines")?,
        };
        recipe.check().map_err(RebuildError::Apart)?;
        let groups: BTreeMap<String, Vec<String>> = member(&value, "groups")?;
        let entities = match value.get("entities") {
            Some(Value::Null) => None,
            Some(Value::String(hex)) => Some(Digest::from_hex(hex).ok_or(RebuildError::NoDigest)?),
            _ => return Err(RebuildError::Missing("entities")),
        };
        let tests = digests(member(&value, "tests")?).ok_or(RebuildError::NoDigests("tests"))?;
        let runbooks = match value.get("runbooks") {
            None => BTreeMap::new(),
            Some(_) => digests(member(&value, "runbooks")?).ok_or(RebuildError::NoDigests("runbooks"))?,
        };
        let (labels, suite) = (Labels::known_by(entities), Suite::known_by(tests));
        let bundle = Self::from_recipe(recipe, labels, suite)
            .map_err(RebuildError::Apart)?
            .with_groups(Groups::new(groups))
            .with_runbooks(Runbooks::known_by(runbooks));
        if bundle.digest() == digest { Ok(bundle) } else { Err(RebuildError::OtherDigest(bundle.digest())) }
    }

    /// The version of Cedar's SDK that decided, if it differs from the one in this program.
    #[must_use]
    pub fn other_engine(&self) -> Option<&str> {
        Some(self.recipe.engine.as_str()).filter(|engine| *engine != get_sdk_version().to_string())
    }
}

/// The digests of files, by their names.
fn digests(written: BTreeMap<String, String>) -> Option<BTreeMap<String, Digest>> {
    written.into_iter().map(|(name, hex)| Some((name, Digest::from_hex(&hex)?))).collect()
}

fn member<T: serde::de::DeserializeOwned>(value: &Value, name: &'static str) -> Result<T, RebuildError> {
    let found = value.get(name).and_then(|found| T::deserialize(found).ok());
    found.ok_or(RebuildError::Missing(name))
}

fn text_of(value: &Value, name: &'static str) -> Result<String, RebuildError> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(RebuildError::Missing(name))
}
