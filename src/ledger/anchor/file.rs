//! A file that checkpoints are appended to.

use super::failure::{AnchorFailure, AnchorOpenError};
use crate::ledger::checkpoint::{Checkpoint, Note};
use crate::ledger::read::Reader;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file that checkpoints are appended to.
#[derive(Debug)]
pub(super) struct AnchorFile {
    path: PathBuf,
    /// Opened before the front locked itself. It is the only file outside `data/` that the front
    /// can write.
    file: Mutex<std::fs::File>,
}

impl AnchorFile {
    pub(super) fn open(path: &Path, data: &Path) -> Result<Self, AnchorOpenError> {
        let place = |what: &'static str| AnchorOpenError::Place(path.to_owned(), what);
        let at = |e: std::io::Error| AnchorOpenError::File(path.to_owned(), e);
        if !path.is_absolute() {
            return Err(place("must be an absolute path"));
        }
        if path.starts_with(data) {
            return Err(place("is in `data/`: a rollback of the ledger would roll it back too"));
        }
        let mut open = std::fs::OpenOptions::new();
        let file = open.read(true).append(true).create(true).mode(0o600).open(path).map_err(at)?;
        if !file.metadata().map_err(at)?.is_file() {
            return Err(place("not a regular file"));
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Appends `note` after an empty line, durably. The file's last checkpoint must be of the same
    /// history.
    pub(super) fn append(&self, reader: &Reader, note: &Note) -> Result<(), AnchorFailure> {
        let missed = |e: std::io::Error| AnchorFailure::Missed(e.to_string());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, there) = (file.metadata().map_err(missed)?, std::fs::metadata(&self.path));
        // A file without a name cannot be found again, so nothing is written to it.
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())) {
            return Err(AnchorFailure::Missed(
                "the file was removed or replaced: restart to open it again".to_owned(),
            ));
        }
        file.seek(SeekFrom::Start(held.len().saturating_sub(TAIL_BYTES))).map_err(missed)?;
        let mut tail = Vec::new();
        (&*file).take(TAIL_BYTES).read_to_end(&mut tail).map_err(missed)?;
        let tail = String::from_utf8_lossy(&tail);
        if let Some(last) = Note::last(&tail) {
            goes_on(reader, &last, note)?;
        }
        // A note that a full disk left incomplete stays separate.
        let between = match tail.as_bytes() {
            [] => "",
            [.., b'\n'] => "\n",
            _ => "\n\n",
        };
        file.write_all(format!("{between}{note}").as_bytes()).map_err(missed)?;
        file.sync_all().map_err(missed)
    }
}

/// Bytes at the end of the file that are searched for the last note.
const TAIL_BYTES: u64 = 64 << 10;

/// Checks that the ledger extends the last checkpoint in the file.
fn goes_on(reader: &Reader, last: &Note, note: &Note) -> Result<(), AnchorFailure> {
    let read = |note: &Note| Checkpoint::parse(note.text());
    let (last, now) = (read(last)?, read(note)?);
    let (before, here) = (last.head.size, now.head.size);
    let conflict = if last.origin != now.origin {
        format!("the file's last checkpoint belongs to `{}`: each log needs its own file", last.origin)
    } else if before > here {
        format!("the file's last checkpoint covers {before} entries, but the ledger has {here}")
    } else if reader.head_at(before)? != last.head {
        format!("the file's last checkpoint, over {before} entries, has another root")
    } else {
        return Ok(());
    };
    Err(AnchorFailure::Conflict(conflict))
}
