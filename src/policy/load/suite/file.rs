//! Reads the files of a suite.

use super::asks::RawAsk;
use super::calls::{RawCase, RawOffered};
use super::case::{AskCase, Case, CasePlace, Offered, PowerCase};
use super::powers::RawUse;
use super::unread::{self, BlockRead};
use super::words::RawGroups;
use crate::policy::load::error::{PolicyError, SourceFile, located};
use crate::policy::load::origin::line_of;
use crate::types::{Digest, limits, nearest, with_meant};
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
            let mut faults = match toml::from_str::<RawSuite>(&source.text) {
                Ok(file) => suite.add(source, file),
                Err(first) => by_block(source, &first),
            };
            faults.sort_by_key(|fault| fault.line);
            errors.extend(faults);
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

    /// Adds what the file holds. Returns what is wrong with it.
    fn add(&mut self, source: &SourceFile, file: RawSuite) -> Vec<PolicyError> {
        let mut faults = Vec::new();
        let at = |raw: Range<usize>| CasePlace {
            file: source.name.clone(),
            line: line_of(&source.text, raw.start),
        };
        for raw in file.case {
            match raw.get_ref().cases(&at(raw.span()), &file.groups) {
                Ok(cases) => self.cases.extend(cases),
                Err(why) => {
                    faults.extend(every(source, &raw.span(), raw.get_ref().faults(&file.groups), why))
                }
            }
            if let Some(why) = self.too_long() {
                faults.push(located(source, Some(raw.span().start), why));
                return faults;
            }
        }
        for raw in file.uses {
            match raw.get_ref().cases(&at(raw.span()), &file.groups) {
                Ok(cases) => self.uses.extend(cases),
                Err(why) => {
                    faults.extend(every(source, &raw.span(), raw.get_ref().faults(&file.groups), why))
                }
            }
            if let Some(why) = self.too_long() {
                faults.push(located(source, Some(raw.span().start), why));
                return faults;
            }
        }
        for raw in file.ask {
            match raw.get_ref().cases(&at(raw.span()), &file.groups) {
                Ok(cases) => self.asks.extend(cases),
                Err(why) => {
                    faults.extend(every(source, &raw.span(), raw.get_ref().faults(&file.groups), why))
                }
            }
            if let Some(why) = self.too_long() {
                faults.push(located(source, Some(raw.span().start), why));
                return faults;
            }
        }
        for raw in file.offered {
            match raw.get_ref().lists(&at(raw.span()), &file.groups) {
                Ok(cases) => self.offered.extend(cases),
                Err(why) => faults.push(at_word(source, &raw.span(), why)),
            }
            if let Some(why) = self.too_long() {
                faults.push(located(source, Some(raw.span().start), why));
                return faults;
            }
        }
        faults
    }

    /// Lists multiply: a short file can ask for more cases than there is memory for.
    fn too_long(&self) -> Option<String> {
        let is_over = self.len() > limits::POLICY_CASES_MAX;
        is_over.then(|| format!("more than {} cases with this one", limits::POLICY_CASES_MAX))
    }
}

/// Where a block of a test file begins.
const BLOCKS: [&str; 5] = ["[[case]]", "[[use]]", "[[ask]]", "[[offered]]", "[groups]"];

/// Blocks of a file that are looked at one by one, at most.
const BLOCKS_MAX: usize = 500;

/// What is wrong with a file that cannot be read, block by block. A fault that no block has alone
/// is the file's, and is `first`.
fn by_block(source: &SourceFile, first: &toml::de::Error) -> Vec<PolicyError> {
    let text = source.text.as_str();
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if BLOCKS.iter().any(|block| line.trim_start().starts_with(block)) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let faults = starts.iter().zip(ends).take(BLOCKS_MAX).flat_map(|(start, end)| {
        // The block alone, at its own place in the file.
        let blank = |char: char| if char == '\n' { "\n".to_owned() } else { " ".repeat(char.len_utf8()) };
        let before: String = text.get(..*start).unwrap_or_default().chars().map(blank).collect();
        let alone = SourceFile {
            name: source.name.clone(),
            text: before + text.get(*start..end).unwrap_or_default(),
        };
        let BlockRead { faults, read } =
            unread::read(&alone.text, *start, |text| toml::from_str::<RawSuite>(text));
        let faults = faults.into_iter().map(|(at, why)| located(source, Some(at), with_meant(&why)));
        let more = read.map(|file| Suite::default().add(&alone, file)).unwrap_or_default();
        faults.chain(more).collect::<Vec<_>>()
    });
    let faults: Vec<PolicyError> = faults.collect();
    if !faults.is_empty() {
        return faults;
    }
    let at = first.span().map_or(0, |span| span.start);
    vec![located(source, Some(at), with_meant(first.message()))]
}

/// Every fault of a block, of which `first` is the one that was found first.
fn every(source: &SourceFile, raw: &Range<usize>, all: Vec<String>, first: String) -> Vec<PolicyError> {
    let all = if all.is_empty() { vec![first] } else { all };
    all.into_iter().map(|why| at_word(source, raw, why)).collect()
}

/// A fault of the block that begins at `raw`, at the line of the word that the reason names, with
/// the known word that was likely meant.
fn at_word(source: &SourceFile, raw: &Range<usize>, reason: String) -> PolicyError {
    let block = source.text.get(raw.start..).unwrap_or_default();
    let block = block.get(..block.find("\n[[").unwrap_or(block.len())).unwrap_or_default();
    let word = reason.split('`').nth(1).unwrap_or_default();
    let key = || block.find(&format!("\n{word} =")).map(|at| at + 1);
    let at = block.find(&format!("\"{word}\"")).or_else(key).unwrap_or(0);
    let known = reason.split_once("expected one of ").map(|(_, known)| known.split(", "));
    let meant =
        known.and_then(|known| nearest(word, known)).map(|meant| format!(": did you mean `{meant}`?"));
    located(source, Some(raw.start + at), format!("{reason}{}", meant.unwrap_or_default()))
}
