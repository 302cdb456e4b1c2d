//! Copies and compares files and folders.

use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::cli::init;
use crate::ledger;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Changes the owner of a folder and of everything in it.
pub(super) fn set_owner_of_tree(path: &Path, to: compose::HostUser) -> Result<(), Fail> {
    let at = |e: io::Error| Fail::failed(format!("{}: {e}", path.display()));
    if std::fs::symlink_metadata(path).map_err(at)?.is_dir() {
        for entry in std::fs::read_dir(path).map_err(at)? {
            set_owner_of_tree(&entry.map_err(at)?.path(), to)?;
        }
    }
    init::set_owner(path, to)
}

pub(super) fn folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: not a regular file", path.display())]
    NoFile { path: PathBuf },
}

/// Copies a file with its mode. Symbolic links are not followed.
pub(super) fn copy_file(from: &Path, to: &Path) -> Result<(), CopyError> {
    let at = |source| CopyError::File { path: from.to_owned(), source };
    let meta = std::fs::symlink_metadata(from).map_err(at)?;
    if !meta.is_file() {
        return Err(CopyError::NoFile { path: from.to_owned() });
    }
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(meta.permissions().mode() & 0o777)
        .open(to)
        .map_err(at)?;
    io::copy(&mut File::open(from).map_err(at)?, &mut copy).map_err(at)?;
    copy.sync_all().map_err(at)
}

pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), CopyError> {
    copy_tree_without(from, to, None)
}

/// Copies a folder, except the folder or file `left_out`.
pub(super) fn copy_tree_without(from: &Path, to: &Path, left_out: Option<&Path>) -> Result<(), CopyError> {
    let at = |source| CopyError::File { path: from.to_owned(), source };
    let mode = std::fs::symlink_metadata(from).map_err(at)?.permissions().mode() & 0o777;
    folder(to, mode).map_err(at)?;
    for entry in std::fs::read_dir(from).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if left_out == Some(path.as_path()) {
            continue;
        }
        let copy = to.join(path.file_name().unwrap_or_default());
        if std::fs::symlink_metadata(&path).map_err(at)?.is_dir() {
            copy_tree_without(&path, &copy, left_out)?;
        } else {
            copy_file(&path, &copy)?;
        }
    }
    Ok(())
}

/// Returns length and SHA-256 of every file in a folder, by its relative path.
pub(super) fn digests(root: &Path) -> io::Result<BTreeMap<String, (u64, String)>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if std::fs::symlink_metadata(&path)?.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(name, ledger::digest_of(&path)?);
        }
    }
    Ok(found)
}
