//! What runbooks are read from: files, and the tools and folders that their steps may name.

use crate::tools::Catalog;
use crate::types::{Digest, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The file of a runbook.
#[derive(Clone, Debug)]
pub struct RunbookFile {
    /// Its name in messages and in the digest, such as `runbooks.d/disk-full.md`.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl RunbookFile {
    pub(super) fn digest(&self) -> Digest {
        Digest::sha256(self.text.as_bytes())
    }
}

/// What steps may name.
#[derive(Clone, Copy, Debug)]
pub struct RunbookTools<'a> {
    /// The tools that are on.
    pub catalog: &'a Catalog,
    /// The names of tools that are off: a step may name them, and is left out.
    pub off: &'a BTreeSet<String>,
    /// The folders of `[paths]`.
    pub paths: &'a BTreeMap<String, PathBuf>,
}

impl RunbookTools<'_> {
    pub(super) fn knows(&self, tool: &str) -> bool {
        self.catalog.find(tool).is_some() || self.off.contains(tool)
    }

    /// Why the name of a tool is refused: no tool has it, and there is one that was likely
    /// meant. A tool that is simply not there is as one that is off, so that removing a tool
    /// refuses no runbook.
    pub(super) fn mistyped(&self, tool: &str) -> Option<String> {
        let on = self.catalog.manifests().map(|manifest| manifest.name.as_str());
        let meant = nearest(tool, on.chain(self.off.iter().map(String::as_str)))?;
        (!self.knows(tool)).then(|| format!("no tool is named `{tool}`, did you mean `{meant}`?"))
    }
}
