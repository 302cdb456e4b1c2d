//! What the policies of a bundle name that exists outside it, and comparisons with one outcome: for
//! notes that a person reads.

use super::bundle::Bundle;
use super::error::PolicyError;
use super::validate;
use crate::tools::Catalog;
use cedar_policy::Effect;
use std::collections::BTreeSet;

/// An entity that a policy names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedEntity {
    /// The id of the entity.
    pub id: String,
    /// The policy file, such as `policies/90-never.cedar`.
    pub file: String,
    /// Line of the name in the file, from 1.
    pub line: usize,
    /// The id of the policy.
    pub policy: String,
    /// Whether the policy is a `forbid`.
    pub is_forbid: bool,
}

impl Bundle {
    /// The entities of the type `kind`, such as `Path`, that policies of the files name, in shadow
    /// mode or not, in the order of their places.
    #[must_use]
    pub fn entities_named(&self, kind: &str) -> Vec<NamedEntity> {
        let mut found = BTreeSet::new();
        for (policy, _) in self.policies() {
            let Some(rule) = self.policy(policy) else { continue };
            let literals = rule.entity_literals().into_iter();
            for uid in literals.filter(|uid| uid.type_name().to_string() == format!("PAR::{kind}")) {
                let id = uid.id().unescaped().to_owned();
                let place = self.at_words(policy, &format!("{kind}::\"{id}\""), String::new());
                found.insert(NamedEntity {
                    id,
                    file: place.file,
                    line: place.line.unwrap_or(1),
                    policy: policy.to_owned(),
                    is_forbid: rule.effect() == Effect::Forbid,
                });
            }
        }
        let mut found: Vec<NamedEntity> = found.into_iter().collect();
        found.sort_by(|a, b| (&a.file, a.line, &a.id).cmp(&(&b.file, b.line, &b.id)));
        found
    }

    /// The text of a policy file.
    #[must_use]
    pub fn file_text(&self, name: &str) -> Option<&str> {
        self.recipe.sources.iter().find(|source| source.name == name).map(|source| source.text.as_str())
    }

    /// Comparisons that are always true, and conditions that always hold, in every call that
    /// `catalog` allows. Not an error, but the rule says less than it seems to.
    #[must_use]
    pub fn constants(&self, catalog: &Catalog) -> Vec<PolicyError> {
        validate::constants(self.all(), catalog, &self.origins, &self.recipe.sources)
    }
}
