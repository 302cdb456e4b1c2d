//! A file that gets its name once it is complete.

use crate::cli::exit::Fail;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that is being written. A command that is interrupted leaves nothing of it.
pub(super) struct Unfinished {
    path: PathBuf,
    file: File,
    /// Whether the file has its name already, because its file system has no files without a name.
    is_named: bool,
}

impl Unfinished {
    /// Creates a file for `path`, which must not exist. Only its owner can read it.
    pub(super) fn make(path: &Path) -> Result<Self, Fail> {
        if path.symlink_metadata().is_ok() {
            return Err(Fail::failed(format!("{}: it exists already", path.display())));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, is_named) = match openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => (File::from(file), false),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
                (file.map_err(|e| Fail::failed(at(path, &e)))?, true)
            }
            Err(e) => return Err(Fail::failed(at(path, &e.into()))),
        };
        Ok(Self { path: path.to_owned(), file, is_named })
    }

    pub(super) fn write(&mut self, piece: &[u8]) -> Result<(), Fail> {
        self.file.write_all(piece).map_err(|e| Fail::failed(at(&self.path, &e)))
    }

    /// Makes the file durable and gives it its name.
    pub(super) fn finish(mut self) -> Result<PathBuf, Fail> {
        let failed = |path: &Path, e: &std::io::Error| Fail::failed(at(path, e));
        self.file.sync_all().map_err(|e| failed(&self.path, &e))?;
        if !self.is_named {
            // open(2), O_TMPFILE.
            let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, open, CWD, &self.path, AtFlags::SYMLINK_FOLLOW)
                .map_err(|e| failed(&self.path, &e.into()))?;
        }
        self.is_named = false;
        Ok(self.path.clone())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_named {
            // It is not complete; if it cannot be removed, the command has failed anyway.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// An error at a path.
pub(super) fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::Unfinished;

    /// C9: an export that is interrupted leaves no file that would block the next one.
    #[test]
    fn a_file_has_its_name_only_once_it_is_complete() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("export.jsonl");
        let mut file = Unfinished::make(&path).expect("made");
        file.write(b"half").expect("written");
        assert!(!path.exists());
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 0);
        let mut file = Unfinished::make(&path).expect("made");
        file.write(b"whole").expect("written");
        file.finish().expect("finished");
        assert_eq!(std::fs::read(&path).expect("file"), b"whole");
        assert!(Unfinished::make(&path).is_err(), "an existing file is kept");
        assert_eq!(std::fs::read(&path).expect("file"), b"whole");
    }
}
