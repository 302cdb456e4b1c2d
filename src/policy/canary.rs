//! The last check of a load: requests that built-in forbids must deny, decided as every request is.
//!
//! If entities were ever built without the action hierarchy, forbids on classes would silently stop
//! matching. [`Bundle::load`] is therefore in this module: no bundle leaves the room before it has
//! passed.

use super::ask::ACTION;
use super::load::bundle::Bundle;
use super::load::error::{PolicyError, SourceFile, whole};
use super::power::{GROUP, Power};
use super::request::build;
use super::request::cedar::Built;
use super::request::error::RequestError;
use crate::tools::Catalog;
use std::collections::BTreeSet;

/// A request that must be denied and was not, or a fault that would let one through.
#[derive(Debug, thiserror::Error)]
pub(super) enum CanaryError {
    #[error("`{0}` is not known to be in its class")]
    Class(String),
    #[error("`{0}` is not known to be a power")]
    Power(&'static str),
    #[error("the action `{ACTION}` is not known, or a permit of tools would cover it")]
    Ask,
    #[error("a request that `{expected}` must deny was answered by {by:?}")]
    NotDenied { expected: String, by: BTreeSet<String> },
    #[error("a slice answered with {slice:?}, and all policies with {all:?}")]
    Slice { slice: BTreeSet<String>, all: BTreeSet<String> },
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Bundle {
    /// Loads `sources` over `catalog`. `names` are those of `[paths]`, as policies write them
    /// (`@logs`).
    pub fn load(
        sources: &[SourceFile],
        catalog: &Catalog,
        names: &BTreeSet<String>,
    ) -> Result<Self, Vec<PolicyError>> {
        let bundle = Self::unproven(sources, catalog, names)?;
        bundle.canary(catalog).map_err(|error| vec![whole("canary", error.to_string())])?;
        Ok(bundle)
    }

    /// A bundle without the policies of any file, for policies that could not be loaded: no tool is
    /// called and nothing is approved. An administrator can read, and over the admin socket manage
    /// keys and reload the rules.
    pub fn closed(catalog: &Catalog, reasons: Vec<String>) -> Result<Self, Vec<PolicyError>> {
        let mut bundle = Self::load(&[], catalog, &BTreeSet::new())?;
        bundle.broken = reasons;
        Ok(bundle)
    }

    /// Decides, for each tool, a request that its built-in forbids must deny; for the first tool
    /// also with all policies and all of Cedar's checks.
    pub(super) fn canary(&self, catalog: &Catalog) -> Result<(), CanaryError> {
        self.canary_powers()?;
        if !self.actions.is_alone(ACTION) {
            return Err(CanaryError::Ask);
        }
        for (at, manifest) in catalog.manifests().enumerate() {
            if !self.actions.holds(&manifest.name, manifest.class.as_str()) {
                return Err(CanaryError::Class(manifest.name.clone()));
            }
            let built = build::canary(manifest);
            let reasons = self.reasons(&built)?;
            let outside = (manifest.resource.kind() == "Path").then(|| "par.outside".to_owned());
            for expected in std::iter::once(format!("par.ceiling.{}", manifest.name)).chain(outside) {
                if !reasons.contains(&expected) {
                    return Err(CanaryError::NotDenied { expected, by: reasons });
                }
            }
            if at == 0 {
                let slowly = self.ask_slowly(&built)?;
                let all: BTreeSet<String> = slowly.diagnostics().reason().map(ToString::to_string).collect();
                if all != reasons {
                    return Err(CanaryError::Slice { slice: reasons, all });
                }
            }
        }
        Ok(())
    }

    fn reasons(&self, built: &Built) -> Result<BTreeSet<String>, RequestError> {
        Ok(self.ask(built)?.diagnostics().reason().map(ToString::to_string).collect())
    }

    /// Checks that the schema knows each power as a power: otherwise a rule on all powers would
    /// silently match none.
    fn canary_powers(&self) -> Result<(), CanaryError> {
        let odd = Power::ALL.into_iter().find(|power| !self.actions.is_in(power.as_str(), GROUP));
        odd.map_or(Ok(()), |power| Err(CanaryError::Power(power.as_str())))
    }
}
