//! Writes a line of the journal before each start and after each end.

use crate::call::End;
use crate::launcher::protocol::Go;
use crate::types::Digest;
use crate::types::clock::{Wall, boot_id};
use crate::types::json::canonical;
use rustix::fs::{CWD, Mode, OFlags, open, openat};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The format's name, in every line.
pub(super) const FORMAT: &str = "par/launcher/1";
/// Length of one line at most, in bytes: a tool's name and digests.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// The extension of a file's name.
const ENDING: &str = ".jsonl";

/// The file of one launcher, open to append to.
#[derive(Debug)]
pub(crate) struct Journal {
    file: OwnedFd,
    prev: Digest,
    /// Set once a line could not be written: what the file ends with is then unknown.
    is_broken: bool,
}

impl Journal {
    /// Begins a new file in `folder`, which only its owner may write to, after those that are
    /// there.
    pub(crate) fn begin(folder: &Path) -> Result<Self, String> {
        let at = |e: &dyn std::fmt::Display| format!("journal `{}`: {e}", folder.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = open(folder, flags, Mode::empty()).map_err(|e| at(&e))?;
        let stat = rustix::fs::fstat(&there).map_err(|e| at(&e))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return Err(at(&"must belong to the launcher's user and be writable by no other user"));
        }
        let before = files(folder)?.into_iter().rev().find_map(|path| last_line(&path).transpose());
        let prev = before.transpose().map_err(|e| at(&e))?.unwrap_or(Digest([0; 32]));
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let name = format!("{:016}-{pid}{ENDING}", Wall::now().0);
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&there, name, flags, Mode::RUSR | Mode::WUSR).map_err(|e| at(&e))?;
        let mut journal = Self { file, prev, is_broken: false };
        journal.write(json!({ "what": "begin", "pid": pid, "boot": boot_id() }))?;
        Ok(journal)
    }

    /// Call `id` is about to start.
    pub(crate) fn order(&mut self, id: u64, go: &Go) -> Result<(), String> {
        self.write(json!({
            "what": "order", "call": id, "decision": go.decision, "tool": go.tool, "manifest": go.manifest,
            "arguments": go.arguments.hex(),
        }))
    }

    /// Call `id` is over.
    pub(crate) fn end(&mut self, id: u64, end: &End) -> Result<(), String> {
        self.write(json!({ "what": "end", "call": id, "end": word(end) }))
    }

    fn write(&mut self, mut line: Value) -> Result<(), String> {
        if self.is_broken {
            return Err("an earlier write to the launcher's journal failed".to_owned());
        }
        if let Some(members) = line.as_object_mut() {
            members.insert("t".to_owned(), json!(FORMAT));
            members.insert("prev".to_owned(), json!(self.prev.hex()));
            members.insert("at_us".to_owned(), json!(Wall::now().0));
        }
        let line = canonical(&line).map_err(|e| format!("journal: {e}"))?;
        let bytes = format!("{line}\n");
        // One call, which appends the line as a whole: anything less is a line that nothing can
        // follow.
        match rustix::io::write(&self.file, bytes.as_bytes()) {
            Ok(written) if written == bytes.len() => {
                self.prev = Digest::sha256(line.as_bytes());
                Ok(())
            }
            other => {
                self.is_broken = true;
                Err(format!("cannot write the launcher's journal: {other:?}"))
            }
        }
    }
}

/// The end's name, as in a `call.result`.
fn word(end: &End) -> String {
    let value = serde_json::to_value(end).unwrap_or_default();
    value.get("end").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The files of a folder, oldest first.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let at = |e: std::io::Error| format!("`{}`: {e}", folder.display());
    let all = std::fs::read_dir(folder).map_err(at)?.map(|item| item.map(|item| item.path()));
    let mut all = all.collect::<Result<Vec<_>, _>>().map_err(at)?;
    all.retain(|path| path.to_str().is_some_and(|path| path.ends_with(ENDING)));
    all.sort();
    Ok(all)
}

/// The digest of the last complete line of a file; `None` if it has none.
fn last_line(path: &Path) -> std::io::Result<Option<Digest>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let size = file.metadata()?.size();
    file.seek(SeekFrom::Start(size.saturating_sub(2 * LINE_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(2 * LINE_BYTES_MAX).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').and_then(|end| bytes.get(..end));
    Ok(whole.and_then(|whole| whole.rsplit(|byte| *byte == b'\n').next()).map(Digest::sha256))
}
