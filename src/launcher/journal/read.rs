//! What the journals of a folder say, to be compared with the ledger.

use super::write::{FORMAT, files};
use crate::types::json::parse_strict;
use crate::types::{Digest, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Bytes read of one file at most.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What the journals of a folder, or of one file, say.
#[derive(Debug, Default)]
pub struct Journals {
    /// Every order, as it was written.
    pub orders: Vec<Ordered>,
    /// From the first line to the last, in microseconds since 1970.
    pub span_us: Option<(u64, u64)>,
    /// Deviations from what a launcher writes: a changed, missing or torn line.
    pub faults: Vec<String>,
}

/// An order that a launcher accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// File and line.
    pub place: String,
    /// The ledger's sequence number of the decision, as the front claimed it.
    pub decision: u64,
    /// The tool's name.
    pub tool: String,
    /// The manifest's digest, in hexadecimal.
    pub manifest: String,
    /// SHA-256 of the canonical arguments, in hexadecimal.
    pub arguments: String,
    /// How it ended, in the words of a `call.result`; `None` if the launcher ended first.
    pub end: Option<String>,
}

impl Journals {
    /// Reads `path`, a file or a folder of files. An error means that reading failed; deviations in
    /// the lines are in `faults`.
    pub fn read(path: &Path) -> Result<Self, String> {
        let is_folder = path.metadata().map_err(|e| format!("`{}`: {e}", path.display()))?.is_dir();
        let paths = if is_folder { files(path)? } else { vec![path.to_owned()] };
        let mut all = Self::default();
        // Hashes of every file so far: a launcher may continue after the next one has begun.
        let mut hashes = None;
        for path in paths {
            all.read_file(&path, &mut hashes)?;
        }
        Ok(all)
    }

    fn read_file(&mut self, path: &Path, before: &mut Option<Vec<Digest>>) -> Result<(), String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = text::visible_line(&name);
        let at = |e: std::io::Error| format!("`{}`: {e}", path.display());
        let mut bytes = Vec::new();
        File::open(path).map_err(at)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(at)?;
        self.read_bytes(&name, &bytes, before);
        Ok(())
    }

    /// Reads the bytes of the file called `name`, whose first line follows one of those in
    /// `before`.
    pub(crate) fn read_bytes(&mut self, name: &str, bytes: &[u8], before: &mut Option<Vec<Digest>>) {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if lines.pop().is_some_and(|rest| !rest.is_empty()) {
            self.faults.push(format!("{name}: its last line is torn"));
        }
        let mut prev: Option<Digest> = None;
        let mut open: BTreeMap<u64, usize> = BTreeMap::new();
        for (number, bytes) in (1..).zip(lines) {
            let place = format!("{name}:{number}");
            let line = parse_strict(bytes, 2).unwrap_or_default();
            let said = line.get("prev").and_then(Value::as_str).and_then(Digest::from_hex);
            let follows = match (&prev, &*before) {
                (Some(prev), _) => said == Some(*prev),
                // The first file that is read follows an unknown line.
                (None, None) => said.is_some(),
                (None, Some(hashes)) => said.is_some_and(|said| hashes.contains(&said)),
            };
            if !follows || line.get("t").and_then(Value::as_str) != Some(FORMAT) {
                self.faults.push(format!("{place}: does not follow the line before"));
            }
            self.take(&line, place, &mut open);
            let hash = Digest::sha256(bytes);
            prev = Some(hash);
            before.get_or_insert_default().push(hash);
        }
    }

    fn take(&mut self, line: &Value, place: String, open: &mut BTreeMap<u64, usize>) {
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let count = |name: &str| line.get(name).and_then(Value::as_u64);
        if let Some(at) = count("at_us") {
            let (first, last) = self.span_us.unwrap_or((at, at));
            self.span_us = Some((first.min(at), last.max(at)));
        }
        match (text("what").as_str(), count("call"), count("decision")) {
            ("begin", ..) => {}
            ("order", Some(call), Some(decision)) => {
                open.insert(call, self.orders.len());
                let (tool, manifest, arguments) = (text("tool"), text("manifest"), text("arguments"));
                self.orders.push(Ordered { place, decision, tool, manifest, arguments, end: None });
            }
            ("end", Some(call), _) => match open.remove(&call).and_then(|at| self.orders.get_mut(at)) {
                Some(order) => order.end = Some(text("end")),
                None => self.faults.push(format!("{place}: an end without its order")),
            },
            _ => self.faults.push(format!("{place}: not a line that a launcher writes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Journals;
    use crate::call::{End, Object};
    use crate::launcher::journal::write::Journal;
    use crate::launcher::protocol::Go;
    use crate::types::Digest;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use tempfile::TempDir;

    fn go(decision: u64) -> Go {
        Go {
            tool: "read_file".to_owned(),
            manifest: "0f".repeat(32),
            arguments: Digest::sha256(b"{}"),
            decision,
            object: Object::Fixed,
            exclusions: Vec::new(),
            secrets: None,
        }
    }

    /// Three launchers, the second of which begins while the first still works.
    fn written() -> TempDir {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).expect("mode");
        let begin = || Journal::begin(folder.path()).expect("journal");
        let mut first = begin();
        first.order(1, &go(7)).expect("written");
        let mut second = begin();
        first.end(1, &End::Exit { code: 0 }).expect("written");
        second.order(1, &go(9)).expect("written");
        second.order(2, &go(11)).expect("written");
        second.end(1, &End::Timeout).expect("written");
        let _third = begin();
        folder
    }

    fn paths(folder: &Path) -> Vec<PathBuf> {
        super::files(folder).expect("files")
    }

    fn faults(folder: &Path) -> Vec<String> {
        Journals::read(folder).expect("read").faults
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = written();
        let journals = Journals::read(folder.path()).expect("read");
        assert_eq!(journals.faults, Vec::<String>::new());
        let told: Vec<_> =
            journals.orders.iter().map(|order| (order.decision, order.end.as_deref())).collect();
        assert_eq!(told, [(7, Some("exit")), (9, Some("timeout")), (11, None)]);
        assert!(journals.span_us.is_some_and(|(first, last)| first < last));
    }

    #[test]
    fn what_is_changed_is_seen() {
        let change = |at: usize, how: &dyn Fn(String) -> String| {
            let folder = written();
            let path = &paths(folder.path())[at];
            let text = std::fs::read_to_string(path).expect("text");
            let changed = how(text.clone());
            assert_ne!(text, changed);
            std::fs::write(path, changed).expect("written");
            faults(folder.path())
        };
        let without = |line: usize| {
            move |text: String| {
                let kept = text.split_inclusive('\n').enumerate().filter(|(at, _)| *at != line);
                kept.map(|(_, line)| line).collect::<String>()
            }
        };
        assert!(!change(0, &|text| text.replace("\"decision\":7", "\"decision\":8")).is_empty());
        assert!(!change(1, &without(0)).is_empty());
        assert!(!change(1, &without(1)).is_empty());
        assert!(!change(1, &|text| text.trim_end().to_owned()).is_empty(), "torn");
        // The last line of a file is what the next file begins with, unless another launcher
        // continued meanwhile.
        assert!(!change(1, &without(3)).is_empty());
        let folder = written();
        std::fs::remove_file(&paths(folder.path())[1]).expect("removed");
        assert!(!faults(folder.path()).is_empty());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o770)).expect("mode");
        assert!(Journal::begin(folder.path()).is_err_and(|e| e.contains("no other user")));
    }
}
