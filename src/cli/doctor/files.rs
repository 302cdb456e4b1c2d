//! Checks of the files in etc/ and data/: their owner, and who may read or write them.

use super::check::{Checks, report};
use crate::cli::compose;
use crate::config::{Config, trusted};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files that decide what may run are writable only by their owner.
pub(super) fn etc_modes(config: &Config, checks: &mut Checks) {
    let etc = &config.home.etc;
    let mut count = 0;
    let mut wrong = Vec::new();
    for folder in [etc.clone(), etc.join("policies"), etc.join("tools.d")] {
        match files_of(&folder) {
            Ok(files) => {
                for path in std::iter::once(folder).chain(files) {
                    count += 1;
                    wrong.extend(trusted::examine(&path).err().map(|e| format!("{}: {e}", path.display())));
                }
            }
            Err(e) => wrong.push(format!("{}: {e}", folder.display())),
        }
    }
    report(
        checks,
        "files of etc/",
        wrong,
        format!("{count} files and folders, writable only by their owner"),
    );
}

/// The ledger and the keys are accessible only to their owner.
pub(super) fn data_modes(config: &Config, checks: &mut Checks) {
    let data = &config.home.data;
    let files = compose::files(config);
    let mut wrong = Vec::new();
    let mut keys = vec![files.log_key(), data.join("pepper")];
    // Made with the first entry.
    if files.ledger().exists() {
        keys.push(data.join("epoch.key"));
    }
    for key in keys {
        if !key.is_file() {
            wrong.push(format!("{}: does not exist", key.display()));
        }
    }
    let inside = files_of(data).unwrap_or_else(|e| {
        wrong.push(format!("{}: {e}", data.display()));
        Vec::new()
    });
    let owner = std::fs::metadata(data).map(|meta| meta.uid()).ok();
    for path in std::iter::once(data.clone()).chain(inside) {
        // A file of a running server may disappear during the check.
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.mode() & 0o077 != 0 {
            wrong.push(format!(
                "{}: mode {:04o} gives access to others",
                path.display(),
                meta.mode() & 0o7777
            ));
        }
        if Some(meta.uid()) != owner {
            wrong.push(format!("{}: owned by uid {}, not by the folder's owner", path.display(), meta.uid()));
        }
    }
    report(checks, "files of data/", wrong, "keys and ledger are accessible only to their owner".to_owned());
}

/// Returns the files in a folder, sorted, without subfolders.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let item = item?;
        if !item.file_type()?.is_dir() {
            found.push(item.path());
        }
    }
    found.sort();
    Ok(found)
}
