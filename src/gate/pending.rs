//! A call before its decision.

use super::mint::asked::Asked;
use super::rules::Rules;
use crate::tools::{Manifest, ResourceSpec, ValidCall};
use crate::types::{CallId, HostPort};
use serde_json::Value;
use std::sync::Arc;

/// A valid call that waits for its decision. The sandbox resolves its object.
#[derive(Debug)]
#[must_use = "a pending call needs `decide`"]
pub struct Pending {
    pub(super) call: CallId,
    pub(super) valid: ValidCall,
    pub(super) named: Vec<String>,
    /// The earlier request, if a person was already asked about this call.
    pub(super) again: Option<Asked>,
    /// The rules that decide it.
    pub(super) rules: Rules,
}

impl Pending {
    /// The call's identifier.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// The tool's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Arc<Manifest> {
        self.valid.manifest()
    }

    /// The arguments as canonical JSON.
    #[must_use]
    pub fn arguments(&self) -> &str {
        self.valid.canonical()
    }

    /// The hosts that the call may connect to: the one that it is about, or else those of its
    /// manifest.
    pub(super) fn hosts(&self) -> Vec<HostPort> {
        match &self.manifest().resource {
            ResourceSpec::Host { argument, form } => {
                let words = self.valid.arguments().get(argument).and_then(Value::as_str);
                words.and_then(|words| form.read(words).ok()).into_iter().collect()
            }
            ResourceSpec::Path { .. } | ResourceSpec::Id { .. } | ResourceSpec::Fixed { .. } => {
                self.manifest().reach.hosts.clone()
            }
        }
    }

    /// Whether its manifest differs from the one in the rules that decide it.
    pub(super) fn is_stale(&self) -> bool {
        let manifest = self.rules.catalog.find(&self.manifest().name);
        manifest.is_none_or(|manifest| manifest.digest != self.manifest().digest)
    }

    /// Absolute paths that policies name: prepare finds out which of them contain the object.
    #[must_use]
    pub fn named(&self) -> &[String] {
        &self.named
    }
}
