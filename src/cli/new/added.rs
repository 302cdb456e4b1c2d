//! Files added to `etc/` or renamed there. Unless they are kept, they are taken back.

use crate::cli::exit::Fail;
use crate::cli::show;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Files that were written or renamed. Dropped without [`keep`](Self::keep), it removes the new
/// ones, and restores the changed and the renamed ones.
#[derive(Debug, Default)]
pub(in crate::cli) struct Added {
    made: Vec<PathBuf>,
    /// Each changed file with its text from before.
    changed: Vec<(PathBuf, String)>,
    /// Each renamed file: its name from before, and its name now.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl Added {
    /// Writes a file that must not exist.
    pub(in crate::cli) fn make(&mut self, path: &Path, text: &str) -> Result<(), Fail> {
        place(path, text, RenameFlags::NOREPLACE).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                Fail::usage(format!("{} exists already: nothing is overwritten", path.display()))
            }
            _ => refused(path, &e),
        })?;
        self.made.push(path.to_owned());
        Ok(())
    }

    /// Replaces the text of a file.
    pub(in crate::cli) fn change(&mut self, path: &Path, text: &str) -> Result<(), Fail> {
        let before = std::fs::read_to_string(path).map_err(|e| refused(path, &e))?;
        place(path, text, RenameFlags::empty()).map_err(|e| refused(path, &e))?;
        if !self.made.iter().any(|made| made == path) {
            self.changed.push((path.to_owned(), before));
        }
        Ok(())
    }

    /// Renames a file to a name that must not exist.
    pub(in crate::cli) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Fail> {
        renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(|e| match e {
            rustix::io::Errno::EXIST => {
                Fail::usage(format!("{} exists already: nothing is overwritten", to.display()))
            }
            e => refused(from, &e.into()),
        })?;
        self.moved.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    /// Lets the files stay, and returns their paths.
    pub(in crate::cli) fn keep(mut self) -> Vec<PathBuf> {
        let changed = std::mem::take(&mut self.changed).into_iter().map(|(path, _)| path);
        let moved = std::mem::take(&mut self.moved).into_iter().map(|(_, to)| to);
        std::mem::take(&mut self.made).into_iter().chain(changed).chain(moved).collect()
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        for path in &self.made {
            if let Err(e) = std::fs::remove_file(path) {
                show::note(&format!("par: {} could not be removed again: {e}", path.display()));
            }
        }
        for (from, to) in &self.moved {
            if let Err(e) = renameat_with(CWD, to, CWD, from, RenameFlags::NOREPLACE) {
                show::note(&format!("par: {} could not be renamed again: {e}", to.display()));
            }
        }
        for (path, before) in &self.changed {
            if let Err(e) = place(path, before, RenameFlags::empty()) {
                show::note(&format!("par: {} could not be restored: {e}", path.display()));
            }
        }
    }
}

/// Writes a file of mode 0644 next to its place, and renames it.
fn place(path: &Path, text: &str, flags: RenameFlags) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create_new(&aside)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
        file.sync_all()?;
        renameat_with(CWD, &aside, CWD, path, flags).map_err(io::Error::from)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&aside)))
}

fn refused(path: &Path, e: &io::Error) -> Fail {
    let mend = match e.kind() {
        io::ErrorKind::PermissionDenied => ": run this as the owner of etc/, such as with sudo",
        _ => "",
    };
    Fail::failed(format!("{}: {e}{mend}", path.display()))
}
