//! What was shipped to a home: a file of digests in `etc/`, by which an upgrade knows what was
//! edited and what was removed.

use super::people::People;
use crate::cli::exit::Fail;
use crate::config::Home;
use crate::types::Digest;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The first lines of the file.
const HEAD: &str = "# What `par init` wrote here, for `par init --upgrade`: SHA-256 and file. Do not edit.\n";

/// The files of `etc/` as they were shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShippedRecord {
    pub(super) people: People,
    pub(super) digests: BTreeMap<String, Digest>,
}

/// `shipped.txt` of the home.
pub(super) fn path(home: &Home) -> PathBuf {
    home.etc.join("shipped.txt")
}

impl ShippedRecord {
    /// The record of these files.
    pub(super) fn new(people: People, files: &[(&str, &str)]) -> Self {
        let digest = |(name, text): &(&str, &str)| ((*name).to_owned(), Digest::sha256(text.as_bytes()));
        Self { people, digests: files.iter().map(digest).collect() }
    }

    /// Reads the record; `None` in a home of a version that kept none.
    pub(super) fn read(home: &Home) -> Result<Option<Self>, Fail> {
        let path = path(home);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Fail::failed(format!("{}: {e}", path.display()))),
        };
        let wrong = |line: usize| {
            Fail::usage(format!(
                "{}:{}: is not a digest and a file: remove the file to go on without it",
                path.display(),
                line + 1
            ))
        };
        let mut record = Self { people: People::Several, digests: BTreeMap::new() };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            match line.split_once("  ") {
                Some(("people", "one")) => record.people = People::One,
                Some(("people", "several")) => record.people = People::Several,
                Some((digest, name)) => {
                    let digest = Digest::from_hex(digest).ok_or_else(|| wrong(at))?;
                    record.digests.insert(name.to_owned(), digest);
                }
                None => return Err(wrong(at)),
            }
        }
        Ok(Some(record))
    }

    pub(super) fn digest(&self, name: &str) -> Option<Digest> {
        self.digests.get(name).copied()
    }

    /// The file's text.
    pub(super) fn text(&self) -> String {
        let lines = self.digests.iter().map(|(name, digest)| format!("{}  {name}\n", digest.hex()));
        format!("{HEAD}people  {}\n{}", self.people.as_str(), lines.collect::<String>())
    }
}
