//! Reads the files of a suite.

use super::asks::RawAsk;
use super::calls::{RawCase, RawOffered};
use super::case::{AskCase, Case, CasePlace, Offered, PowerCase};
use super::powers::RawUse;
use super::words::RawGroups;
use crate::policy::load::error::{PolicyError, SourceFile, located};
use crate::policy::load::origin::line_of;
use crate::types::{Digest, limits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuite {
    /// The groups in this file's cases, with their users.
    #[serde(default)]
    groups: RawGroups,
    #[serde(default)]
    case: Vec<Spanned<RawCase>>,
    #[serde(default)]
    offered: Vec<Spanned<RawOffered>>,
    #[serde(default, rename = "use")]
    uses: Vec<Spanned<RawUse>>,
    #[serde(default)]
    ask: Vec<Spanned<RawAsk>>,
}

/// Every case and tool list of a bundle. Empty if it has no tests.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    pub(in crate::policy) cases: Vec<Case>,
    pub(in crate::policy) offered: Vec<Offered>,
    pub(in crate::policy) uses: Vec<PowerCase>,
    pub(in crate::policy) asks: Vec<AskCase>,
    /// `policies/tests/NAME.toml` with the digest of its bytes.
    files: BTreeMap<String, Digest>,
}

impl Suite {
    /// Reads test files.
    ///
    /// # Errors
    ///
    /// An unknown key, role or answer. Tools and arguments are checked when the suite runs, because
    /// they depend on the catalog.
    pub fn parse(sources: &[SourceFile]) -> Result<Self, Vec<PolicyError>> {
        let (mut suite, mut errors) = (Self::default(), Vec::new());
        for source in sources {
            suite.files.insert(source.name.clone(), Digest::sha256(source.text.as_bytes()));
            match toml::from_str::<RawSuite>(&source.text) {
                Ok(file) => errors.extend(suite.add(source, file).err()),
                Err(e) => {
                    let offset = e.span().map(|span| span.start);
                    errors.push(located(source, offset, e.message().to_owned()));
                }
            }
        }
        if errors.is_empty() { Ok(suite) } else { Err(errors) }
    }

    /// Number of cases of calls, of powers and of models, and of tool lists; each combination
    /// counts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cases.len() + self.offered.len() + self.uses.len() + self.asks.len()
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tests whose files are known only by their digests: there is nothing to run.
    pub(in crate::policy) fn known_by(files: BTreeMap<String, Digest>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Each file with the digest of its bytes.
    pub(in crate::policy) fn files(&self) -> &BTreeMap<String, Digest> {
        &self.files
    }

    /// One line for each file, for the bundle's digest.
    pub(in crate::policy) fn lines(&self) -> String {
        self.files.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect()
    }

    fn add(&mut self, source: &SourceFile, file: RawSuite) -> Result<(), PolicyError> {
        let at = |raw: Range<usize>| CasePlace {
            file: source.name.clone(),
            line: line_of(&source.text, raw.start),
        };
        let refuse = |raw: Range<usize>| move |reason: String| located(source, Some(raw.start), reason);
        for raw in file.case {
            let cases = raw.get_ref().cases(&at(raw.span()), &file.groups);
            self.cases.extend(cases.map_err(refuse(raw.span()))?);
            self.check_length().map_err(refuse(raw.span()))?;
        }
        for raw in file.uses {
            let cases = raw.get_ref().cases(&at(raw.span()), &file.groups);
            self.uses.extend(cases.map_err(refuse(raw.span()))?);
            self.check_length().map_err(refuse(raw.span()))?;
        }
        for raw in file.ask {
            let cases = raw.get_ref().cases(&at(raw.span()), &file.groups);
            self.asks.extend(cases.map_err(refuse(raw.span()))?);
            self.check_length().map_err(refuse(raw.span()))?;
        }
        for raw in file.offered {
            let lists = raw.get_ref().lists(&at(raw.span()), &file.groups);
            self.offered.extend(lists.map_err(refuse(raw.span()))?);
            self.check_length().map_err(refuse(raw.span()))?;
        }
        Ok(())
    }

    /// Lists multiply: a short file can ask for more cases than there is memory for.
    fn check_length(&self) -> Result<(), String> {
        match self.len() {
            over if over > limits::POLICY_CASES_MAX => {
                Err(format!("more than {} cases with this one", limits::POLICY_CASES_MAX))
            }
            _ => Ok(()),
        }
    }
}
