//! A bundle as it is kept: everything that its digest covers and that its decisions hang on, as one JSON
//! text, from which the same bundle can be made again.
//!
//! Of tools only the digests are kept, and the schema that they led to: that is what policies see of them. Of
//! `entities.toml` only the digest: the labels that it gave stand in each request. So of the policies' tests.

use super::bundle::Bundle;
use super::error::Source;
use crate::policy::request::groups::Groups;
use super::labels::Labels;
use super::suite::Suite;
use crate::tools::Catalog;
use crate::types::Digest;
use crate::types::json::{canonical, parse_strict};
use cedar_policy::get_sdk_version;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The format's name.
const FORMAT: &str = "par/bundle/1";

/// What a bundle without its groups is made from.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Kept {
    pub(in crate::policy) sources: Vec<Source>,
    /// The schema that is there without any tool, in Cedar's own language.
    pub(in crate::policy) base: String,
    /// The schema of the tools, in Cedar's JSON form, to the byte.
    pub(in crate::policy) schema: String,
    /// The version of Cedar's SDK.
    engine: String,
    /// What the digest is of: sorted lines `name sha256`.
    lines: String,
}

impl Kept {
    pub(in crate::policy) fn new(sources: &[Source], catalog: &Catalog, base: &str, schema: String) -> Self {
        let engine = get_sdk_version().to_string();
        let mut lines: BTreeSet<String> = sources.iter().map(of_source).collect();
        lines.extend(catalog.manifests().map(|m| line(&format!("tools.d/{}", m.name), m.digest)));
        lines.extend(catalog.manifests().filter_map(|m| m.script()).map(|s| line(s.name(), s.digest())));
        // The schema's members stand in the order of the catalog, which is sorted.
        lines.insert(of_schema(base, &schema));
        lines.insert(of_engine(&engine));
        let lines = lines.into_iter().collect();
        Self { sources: sources.to_vec(), base: base.to_owned(), schema, engine, lines }
    }

    /// SHA-256 over sorted lines `path sha256` of policies, manifests and their scripts, the schema and
    /// the engine's version.
    pub(in crate::policy) fn digest(&self) -> Digest {
        Digest::of(self.lines.as_bytes())
    }

    /// What is lacking among the lines, or too much: each source has its own, and each policy its source.
    fn check(&self) -> Result<(), String> {
        let has = |wanted: &String| self.lines.split_inclusive('\n').any(|line| line == wanted);
        let mut wanted: BTreeSet<String> = self.sources.iter().map(of_source).collect();
        // Every such file is a policy, or the links of templates, whoever else may name it; a script of any other
        // name is none.
        let is_policy = |line: &&str| {
            let name = line.rsplit_once(' ').and_then(|(name, _)| name.strip_prefix("policies/"));
            name.is_some_and(|name| (name.ends_with(".cedar") && !name.contains('/')) || name == "links.toml")
        };
        let policies = self.lines.split_inclusive('\n').filter(is_policy).count();
        if policies != wanted.len() || policies != self.sources.len() {
            return Err("its policies are not those of its lines".to_owned());
        }
        wanted.extend([of_schema(&self.base, &self.schema), of_engine(&self.engine)]);
        match wanted.iter().find(|line| !has(line)) {
            None => Ok(()),
            Some(line) => Err(format!("its lines lack `{}`", line.trim_end())),
        }
    }
}

fn line(name: &str, digest: Digest) -> String {
    format!("{name} {digest}\n")
}

fn of_source(source: &Source) -> String {
    line(&source.name, Digest::of(source.text.as_bytes()))
}

fn of_schema(base: &str, tools: &str) -> String {
    line("schema", Digest::of_parts(&[&Digest::of(base.as_bytes()).0, tools.as_bytes()]))
}

fn of_engine(version: &str) -> String {
    line("engine", Digest::of(version.as_bytes()))
}

impl Bundle {
    /// What is to be kept of the bundle under its digest: canonical JSON, and a newline.
    #[must_use]
    pub fn keep(&self) -> String {
        let policies = self.kept.sources.iter().map(|s| json!({ "name": s.name, "text": s.text }));
        let kept = json!({
            "t": FORMAT,
            "policies": policies.collect::<Vec<_>>(),
            "base": self.kept.base,
            "schema": self.kept.schema,
            "engine": self.kept.engine,
            "lines": self.kept.lines,
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
        let source = |one: &Value| Ok(Source { name: text_of(one, "name")?, text: text_of(one, "text")? });
        let kept = Kept {
            sources: policies.iter().map(source).collect::<Result<_, String>>()?,
            base: word("base")?,
            schema: word("schema")?,
            engine: word("engine")?,
            lines: word("lines")?,
        };
        kept.check()?;
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
        let bundle = Self::of_kept(kept, labels, suite)?.with_groups(Groups::new(groups));
        if bundle.digest() == digest {
            Ok(bundle)
        } else {
            Err(format!("leads to the digest {}", bundle.digest()))
        }
    }

    /// The version of Cedar's SDK that decided, where it is not this program's.
    #[must_use]
    pub fn other_engine(&self) -> Option<&str> {
        Some(self.kept.engine.as_str()).filter(|engine| *engine != get_sdk_version().to_string())
    }
}

fn member<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> Result<T, String> {
    let found = value.get(name).and_then(|found| T::deserialize(found).ok());
    found.ok_or_else(|| format!("has no `{name}`"))
}

fn text_of(value: &Value, name: &str) -> Result<String, String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("has no `{name}`"))
}
