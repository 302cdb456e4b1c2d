//! What a bundle is made from, and the digest that names it.

use super::built_in::BuiltIn;
use super::error::SourceFile;
use crate::tools::Catalog;
use crate::types::Digest;
use cedar_policy::get_sdk_version;
use std::collections::BTreeSet;

/// What a bundle without its groups is made from.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Recipe {
    pub(in crate::policy) sources: Vec<SourceFile>,
    /// The schema without any tool, in Cedar's own language.
    pub(in crate::policy) base: String,
    /// The schema of the tools, in Cedar's JSON form, to the byte.
    pub(in crate::policy) schema: String,
    /// The version of Cedar's SDK.
    pub(in crate::policy) engine: String,
    /// The text of the built-in policies. `None` for a bundle that was archived without it.
    pub(in crate::policy) built_in: Option<BuiltIn>,
    /// What the digest covers: sorted lines `name sha256`.
    pub(in crate::policy) lines: String,
}

impl Recipe {
    pub(in crate::policy) fn new(
        sources: &[SourceFile],
        catalog: &Catalog,
        base: &str,
        schema: String,
        built_in: BuiltIn,
    ) -> Self {
        let engine = get_sdk_version().to_string();
        let mut lines: BTreeSet<String> = sources.iter().map(of_source).collect();
        lines.extend(catalog.manifests().map(|m| line(&format!("tools.d/{}", m.name), m.digest)));
        lines.extend(catalog.manifests().filter_map(|m| m.script()).map(|s| line(s.name(), s.digest())));
        // The members of the schema are in the order of the catalog, which is sorted.
        lines.insert(of_schema(base, &schema));
        lines.insert(of_engine(&engine));
        lines.insert(of_built_in(&built_in));
        let lines = lines.into_iter().collect();
        let built_in = Some(built_in);
        Self { sources: sources.to_vec(), base: base.to_owned(), schema, engine, built_in, lines }
    }

    /// SHA-256 over sorted lines `path sha256` of policies, manifests and their scripts, the
    /// schema, the engine's version and the built-in policies.
    pub(in crate::policy) fn digest(&self) -> Digest {
        Digest::sha256(self.lines.as_bytes())
    }

    /// Checks that each source has its line and each policy line its source.
    pub(in crate::policy) fn check(&self) -> Result<(), String> {
        let has = |wanted: &String| self.lines.split_inclusive('\n').any(|line| line == wanted);
        let mut wanted: BTreeSet<String> = self.sources.iter().map(of_source).collect();
        // Every file with such a name is a policy file or the file of links, even if a manifest
        // names it as its script. A script with any other name is not.
        let is_policy = |line: &&str| {
            let name = line.rsplit_once(' ').and_then(|(name, _)| name.strip_prefix("policies/"));
            name.is_some_and(|name| (name.ends_with(".cedar") && !name.contains('/')) || name == "links.toml")
        };
        let policies = self.lines.split_inclusive('\n').filter(is_policy).count();
        if policies != wanted.len() || policies != self.sources.len() {
            return Err("its policies are not those of its lines".to_owned());
        }
        wanted.extend([of_schema(&self.base, &self.schema), of_engine(&self.engine)]);
        match &self.built_in {
            Some(built_in) => wanted.extend([of_built_in(built_in)]),
            // Or the archive of a later bundle would pass for an earlier one, with other policies.
            None if self.lines.lines().any(|line| line.starts_with(BUILT_IN)) => {
                return Err("its lines name built-in policies, which it does not have".to_owned());
            }
            None => {}
        }
        match wanted.iter().find(|line| !has(line)) {
            None => Ok(()),
            Some(line) => Err(format!("its lines are missing `{}`", line.trim_end())),
        }
    }
}

fn line(name: &str, digest: Digest) -> String {
    format!("{name} {digest}\n")
}

fn of_source(source: &SourceFile) -> String {
    line(&source.name, Digest::sha256(source.text.as_bytes()))
}

fn of_schema(base: &str, tools: &str) -> String {
    line("schema", Digest::sha256_parts(&[&Digest::sha256(base.as_bytes()).0, tools.as_bytes()]))
}

/// The line of the built-in policies begins with this.
const BUILT_IN: &str = "built-in ";

fn of_built_in(built_in: &BuiltIn) -> String {
    let text: String = built_in.iter().map(|(id, text)| format!("{id} {text}\n")).collect();
    line(BUILT_IN.trim_end(), Digest::sha256(text.as_bytes()))
}

fn of_engine(version: &str) -> String {
    line("engine", Digest::sha256(version.as_bytes()))
}
