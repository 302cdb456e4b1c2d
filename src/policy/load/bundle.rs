//! A bundle: policies, the schema derived from the catalog, and the digest that names them.
//!
//! A load is all or nothing: parsing, strict validation with warnings as errors, then the canary
//! (`policy/canary.rs`). No bundle leaves the room before it has passed the canary.

use super::annotations::{EXPIRES, asks, span_s};
use super::built_in;
use super::error::{PolicyError, SourceFile, sorted, whole};
use super::lint::words::{labels_of, words_of};
use super::mode;
use super::offer_index::OfferIndex;
use super::origin::{Origin, line_of};
use super::parse::{Parsed, parse, parse_all};
use super::paths::{named_paths, named_units};
use super::powers;
use super::recipe::Recipe;
use super::schema::{BASE, schema, schema_json, sensitive};
use super::slice::Slices;
use super::suite::file::Suite;
use super::validate;
use crate::policy::request::cedar::Actions;
use crate::policy::request::groups::Groups;
use crate::policy::request::labels::{GivenLabel, Labels};
use crate::runbooks::Runbooks;
use crate::tools::Catalog;
use crate::types::Digest;
use cedar_policy::{Effect, Policy, PolicyId, PolicySet, Schema};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A loaded bundle. Immutable: a reload makes another one.
#[derive(Debug)]
pub struct Bundle {
    /// The policies that decide. Never contains a policy in shadow mode.
    pub(in crate::policy) set: PolicySet,
    /// The policies that decide together with those in shadow mode, and their slices; `None` if no
    /// policy is in shadow mode.
    pub(in crate::policy) with_shadow: Option<(PolicySet, Slices)>,
    pub(in crate::policy) schema: Schema,
    /// The sensitive arguments of each tool, by its name.
    pub(in crate::policy) sensitive: BTreeMap<String, BTreeSet<String>>,
    pub(in crate::policy) actions: Actions,
    pub(in crate::policy) slices: Slices,
    pub(in crate::policy) origins: BTreeMap<String, Origin>,
    digest: Digest,
    named: Vec<String>,
    units: BTreeSet<String>,
    pub(in crate::policy) offer_index: OfferIndex,
    pub(in crate::policy) groups: Groups,
    pub(in crate::policy) labels: Labels,
    pub(in crate::policy) recipe: Arc<Recipe>,
    pub(in crate::policy) suite: Suite,
    runbooks: Runbooks,
    /// The policies on powers, as if all their conditions on context and resource held.
    pub(in crate::policy) ever: PolicySet,
    /// Why the policy files could not be loaded; empty if they were.
    pub(in crate::policy) broken: Vec<String>,
}

impl Bundle {
    /// Does what [`Bundle::load`] does before the canary.
    pub(in crate::policy) fn unproven(
        sources: &[SourceFile],
        catalog: &Catalog,
        names: &BTreeSet<String>,
    ) -> Result<Self, Vec<PolicyError>> {
        let Parsed { mut set, origins, mut errors } = parse_all(sources);
        let schema_json = match schema_json(catalog) {
            Ok(schema_json) => schema_json,
            Err(more) => return Err(sorted([errors, more])),
        };
        let schema = schema(BASE, &schema_json).map_err(|reason| vec![whole("schema", reason)])?;
        let (named, faults) = named_paths(&set, names, &origins, sources);
        let units = named_units(&set);
        errors.extend(faults);
        let own = built_in::current(&set, &schema_json)
            .and_then(|own| built_in::add(&mut set, &own).map(|()| own))
            .map_err(|reason| vec![whole("built-in policies", reason)]);
        let faults = validate::faults(&set, &schema, catalog, &origins, sources);
        errors = sorted([errors, faults]);
        if !errors.is_empty() {
            return Err(errors);
        }
        let own = own?;
        let recipe = Recipe::new(sources, catalog, BASE, schema_json.to_string(), own);
        let made = |reason: String| vec![whole("policies", reason)];
        let mut bundle =
            Self::put_together(recipe, set, (schema, sensitive(&schema_json)), origins).map_err(made)?;
        bundle.named = named;
        bundle.units = units;
        bundle.slices = Slices::new(&bundle.set, catalog);
        bundle.offer_index = OfferIndex::new(&bundle.set, catalog);
        if let Some((set, slices)) = &mut bundle.with_shadow {
            *slices = Slices::new(set, catalog);
        }
        Ok(bundle)
    }

    /// The faults of policies that can be found without knowing the tools: of their form and their
    /// ids.
    #[must_use]
    pub fn syntax_faults(sources: &[SourceFile]) -> Vec<PolicyError> {
        sorted([parse_all(sources).errors, Vec::new()])
    }

    /// The bundle that `recipe` describes, without its groups, for deciding recorded requests: it
    /// has no labels to put on entities, no slices, and offers no tool. The checks of a load are
    /// not repeated: the bundle passed them when it came into force, perhaps under a version that
    /// required less.
    pub(in crate::policy) fn from_recipe(
        recipe: Recipe,
        labels: Labels,
        suite: Suite,
    ) -> Result<Self, String> {
        let joined =
            |errors: Vec<PolicyError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let tools: Value = serde_json::from_str(&recipe.schema).map_err(|e| format!("schema: {e}"))?;
        let schema = schema(&recipe.base, &tools)?;
        let (mut set, origins) = parse(&recipe.sources).map_err(joined)?;
        let own = match &recipe.built_in {
            Some(kept) => kept.clone(),
            None => built_in::first(&set, &tools)?,
        };
        built_in::add(&mut set, &own)?;
        let bundle = Self::put_together(recipe, set, (schema, sensitive(&tools)), origins)?;
        let digest = labelled(bundle.digest, &labels);
        Ok(Self { digest, labels, ..bundle }.with_suite(suite))
    }

    /// Why the policies in the files are not in force; empty if they are.
    #[must_use]
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Whether no policy file permits a power, so that the built-in policies apply.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.set.policy(&PolicyId::new(powers::BARE)).is_some()
    }

    fn put_together(
        recipe: Recipe,
        set: PolicySet,
        (schema, sensitive): (Schema, BTreeMap<String, BTreeSet<String>>),
        origins: BTreeMap<String, Origin>,
    ) -> Result<Self, String> {
        let (set, with_shadow) = mode::separate(set)?;
        Ok(Self {
            ever: powers::ever(&set)?,
            broken: Vec::new(),
            with_shadow: with_shadow.map(|all| (all, Slices::default())),
            actions: Actions::new(&schema).map_err(|e| e.to_string())?,
            schema,
            sensitive,
            slices: Slices::default(),
            origins,
            digest: recipe.digest(),
            named: Vec::new(),
            units: BTreeSet::new(),
            offer_index: OfferIndex::default(),
            set,
            groups: Groups::default(),
            labels: Labels::default(),
            suite: Suite::default(),
            runbooks: Runbooks::default(),
            recipe: Arc::new(recipe),
        })
    }

    /// The same policies with `suite` as their tests, which the digest then covers. Does not run
    /// them.
    #[must_use]
    pub fn with_suite(self, suite: Suite) -> Self {
        let lines = suite.lines();
        let digest = match lines.as_str() {
            "" => self.digest,
            some => Digest::sha256_parts(&[&self.digest.0, some.as_bytes()]),
        };
        Self { suite, digest, ..self }
    }

    /// The tests of these policies.
    #[must_use]
    pub fn suite(&self) -> &Suite {
        &self.suite
    }

    /// The same policies with these groups, which the digest then covers.
    #[must_use]
    pub fn with_groups(self, groups: Groups) -> Self {
        let lines = groups.lines();
        let digest = match lines.as_str() {
            "" => self.digest,
            some => Digest::sha256_parts(&[&self.digest.0, some.as_bytes()]),
        };
        Self { groups, digest, ..self }
    }

    /// The same policies with these runbooks, which the digest then covers: what a person is given
    /// to follow is under the digest that a decision names.
    #[must_use]
    pub fn with_runbooks(self, runbooks: Runbooks) -> Self {
        let lines = runbooks.files().iter().map(|(name, digest)| format!("{name} {digest}\n"));
        let digest = match lines.collect::<String>().as_str() {
            "" => self.digest,
            some => Digest::sha256_parts(&[&self.digest.0, b"runbooks", some.as_bytes()]),
        };
        Self { runbooks, digest, ..self }
    }

    /// The runbooks.
    #[must_use]
    pub fn runbooks(&self) -> &Runbooks {
        &self.runbooks
    }

    /// Every policy, in shadow mode or not.
    pub(super) fn all(&self) -> &PolicySet {
        self.with_shadow.as_ref().map_or(&self.set, |(set, _)| set)
    }

    pub(in crate::policy) fn policy(&self, id: &str) -> Option<&Policy> {
        self.all().policy(&PolicyId::new(id))
    }

    /// Ids of the policies in shadow mode, which are evaluated in addition to the others and only
    /// reported.
    pub fn in_shadow(&self) -> impl Iterator<Item = &str> {
        self.origins.keys().map(String::as_str).filter(|id| self.set.policy(&PolicyId::new(id)).is_none())
    }

    /// The same policies over labelled entities, which the digest then covers.
    ///
    /// # Errors
    ///
    /// A policy tests for a label that nothing carries: a `forbid` that can never match looks like
    /// one that does.
    pub fn with_labels(self, labels: Labels) -> Result<Self, Vec<PolicyError>> {
        let given: BTreeSet<String> = labels.given().map(|label| label.name).collect();
        let missing = self.labels_wanted().filter(|(_, label)| !given.contains(label));
        let errors: Vec<PolicyError> = missing.map(|(id, label)| self.uncarried(&id, &label)).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let digest = labelled(self.digest, &labels);
        let paths = labels.paths().map(|path| path.name);
        let named: BTreeSet<String> = self.named.into_iter().chain(paths).collect();
        let units = self.units.iter().cloned().chain(labels.units()).collect();
        Ok(Self { labels, digest, named: named.into_iter().collect(), units, ..self })
    }

    /// Which entity carries which label.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Labels that no policy tests for, each with the first line that assigns it. Not an error, but
    /// a misspelled label looks the same.
    #[must_use]
    pub fn unasked_labels(&self) -> Vec<GivenLabel> {
        let words: BTreeSet<String> = self.all().policies().flat_map(words_of).collect();
        self.labels.given().filter(|label| !words.contains(&label.name)).collect()
    }

    /// Policies of the files with the labels that they test for, in the order of their lines.
    fn labels_wanted(&self) -> impl Iterator<Item = (String, String)> {
        self.origins.keys().flat_map(|id| {
            let wanted = self.policy(id).map(labels_of).unwrap_or_default();
            wanted.into_iter().map(move |label| (id.clone(), label))
        })
    }

    fn uncarried(&self, id: &str, label: &str) -> PolicyError {
        let reason = format!("for policy `{id}`, no path has the label `{label}`");
        self.at_words(id, &format!("\"{label}\""), reason).mended("assign labels in policies/entities.toml")
    }

    /// Forbids that name an undefined group, which would never match. A group that is defined and
    /// empty is deliberate, and a permit for an empty group permits nothing.
    #[must_use]
    pub fn unknown_groups(&self) -> Vec<PolicyError> {
        let forbids = self.origins.keys().filter_map(|id| self.set.policy(&PolicyId::new(id)));
        let forbids = forbids.filter(|policy| policy.effect() == Effect::Forbid);
        let named = forbids.flat_map(|policy| {
            let groups: BTreeSet<String> = groups_named(policy).collect();
            groups.into_iter().map(|group| (policy.id().to_string(), group))
        });
        let unknown = named.filter(|(_, group)| !self.groups.has(group));
        let error = |(id, group): (String, String)| {
            let reason =
                format!("a `forbid` names the group `{group}`, which `[groups]` of par.toml does not define");
            let mend = format!("if the group has no members, write `{group} = []` there");
            self.at_words(&id, &format!("Group::\"{group}\""), reason).mended(mend)
        };
        unknown.map(error).collect()
    }

    /// An error at the last place in a policy that contains `words`, because the policy's id may
    /// contain them too.
    pub(super) fn at_words(&self, id: &str, words: &str, reason: String) -> PolicyError {
        let origin = self.origins.get(id);
        let text = self.text(id).unwrap_or_default();
        let below = text.rfind(words).map_or(0, |at| line_of(&text, at) - 1);
        PolicyError {
            file: origin.map_or_else(|| "policies".to_owned(), |origin| origin.file.clone()),
            line: origin.map(|origin| origin.line + below),
            shown: text.lines().nth(below).map(str::to_owned),
            reason,
            mend: None,
        }
    }

    /// The same bundle with other policies, for mutation tests. Its digest stays, because no call
    /// is decided under it.
    pub(in crate::policy) fn with_set(&self, set: PolicySet, catalog: &Catalog) -> Self {
        Self {
            slices: Slices::new(&set, catalog),
            offer_index: OfferIndex::new(&set, catalog),
            set,
            schema: self.schema.clone(),
            sensitive: self.sensitive.clone(),
            actions: self.actions.clone(),
            origins: self.origins.clone(),
            digest: self.digest,
            named: self.named.clone(),
            units: self.units.clone(),
            groups: self.groups.clone(),
            labels: self.labels.clone(),
            suite: self.suite.clone(),
            runbooks: self.runbooks.clone(),
            with_shadow: None,
            // No mutant is asked about `ever`.
            ever: self.ever.clone(),
            broken: Vec::new(),
            recipe: self.recipe.clone(),
        }
    }

    /// Which user is in which group.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// SHA-256 over sorted lines `path sha256` of policies, manifests and their scripts, the schema
    /// and the engine's version.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Absolute paths that policies name, which prepare compares with the object.
    #[must_use]
    pub fn named(&self) -> &[String] {
        &self.named
    }

    /// Units that policies or labels name: what is read of them is decided on for each.
    #[must_use]
    pub fn named_units(&self) -> &BTreeSet<String> {
        &self.units
    }

    /// `file:line` of a policy, and of its link if it has one. `None` for a built-in policy.
    #[must_use]
    pub fn origin(&self, policy: &str) -> Option<String> {
        self.origins.get(policy).map(Origin::place)
    }

    /// The text of a policy.
    #[must_use]
    pub fn text(&self, policy: &str) -> Option<String> {
        self.policy(policy).map(ToString::to_string)
    }

    /// The `@advice` of a policy, for the caller that it denies.
    #[must_use]
    pub fn advice(&self, policy: &str) -> Option<String> {
        self.policy(policy)?.annotation("advice").map(str::to_owned)
    }

    /// How long an approval that the policy asks for may be given, in seconds: its `@expires`.
    #[must_use]
    pub fn expires_s(&self, policy: &str) -> Option<u64> {
        self.policy(policy)?.annotation(EXPIRES).and_then(span_s)
    }

    /// Policies in the files, with their places.
    pub fn policies(&self) -> impl Iterator<Item = (&str, String)> {
        self.origins.iter().map(|(id, origin)| (id.as_str(), origin.place()))
    }

    /// Whether the policy `policy` asks a person instead of denying.
    #[must_use]
    pub fn asks(&self, policy: &str) -> bool {
        self.policy(policy).is_some_and(asks)
    }

    /// The group that must approve what the policy `policy` forbids until then.
    #[must_use]
    pub fn asked_group(&self, policy: &str) -> Option<&str> {
        self.policy(policy)?.annotation("require_approval")
    }

    /// Groups without members that policies name, each with one such policy: `release`,
    /// `deploy-needs-release`. Not an error, since users come and go, but a misspelled group looks
    /// the same.
    #[must_use]
    pub fn empty_groups(&self) -> BTreeMap<String, String> {
        let named = |policy: &Policy| {
            let mut groups: Vec<String> = groups_named(policy).collect();
            groups.extend(policy.annotation("require_approval").map(str::to_owned));
            groups
        };
        let mut found = BTreeMap::new();
        for id in self.origins.keys() {
            let groups = self.policy(id).map(named).unwrap_or_default();
            for group in groups.into_iter().filter(|group| self.groups.is_empty(group)) {
                found.entry(group).or_insert_with(|| id.clone());
            }
        }
        found
    }
}

/// The groups in scope and conditions, without those in annotations.
fn groups_named(policy: &Policy) -> impl Iterator<Item = String> {
    let literals = policy.entity_literals().into_iter();
    literals
        .filter(|uid| uid.type_name().to_string() == "PAR::Group")
        .map(|uid| uid.id().unescaped().to_owned())
}

/// The digest of a bundle over labelled entities.
fn labelled(digest: Digest, labels: &Labels) -> Digest {
    match labels.digest() {
        None => digest,
        Some(file) => Digest::sha256_parts(&[&digest.0, b"entities", &file.0]),
    }
}
