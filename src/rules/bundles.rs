//! Bundles stored by digest: `data/bundles/DIGEST.json`, written before the ledger records that
//! they are in force.

use crate::policy::{Bundle, RebuildError};
use crate::types::Digest;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

fn folder(data: &Path) -> PathBuf {
    data.join("bundles")
}

fn file(data: &Path, digest: Digest) -> PathBuf {
    folder(data).join(format!("{digest}.json"))
}

/// Stores `bundle` below `data` if it is not there yet: durable on return. Replaces a file whose
/// content does not have the digest in its name. Blocking.
pub fn keep_bundle(data: &Path, bundle: &Bundle) -> io::Result<()> {
    let path = file(data, bundle.digest());
    if std::fs::read(&path).is_ok_and(|kept| Bundle::rebuild(&kept, bundle.digest()).is_ok()) {
        return Ok(());
    }
    match DirBuilder::new().mode(0o700).create(folder(data)) {
        Ok(()) => File::open(data)?.sync_all()?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    // Whoever puts rules in force holds the ledger's lock, so there is one writer. What a crash
    // left under this name is useless.
    let half = path.with_extension("new");
    match std::fs::remove_file(&half) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
    new.write_all(bundle.archive().as_bytes())?;
    new.sync_all()?;
    std::fs::rename(&half, &path)?;
    // From here on the bundle is there after a crash too: the ledger may name it.
    File::open(folder(data))?.sync_all()
}

/// The bundle with `digest`, rebuilt from its file; `None` if it is not stored. Blocking.
///
/// # Errors
///
/// The file is unreadable, or is not that bundle.
pub(super) fn kept_bundle(data: &Path, digest: Digest) -> Result<Option<Bundle>, KeptError> {
    let path = file(data, digest);
    match std::fs::read(&path) {
        Ok(kept) => match Bundle::rebuild(&kept, digest) {
            Ok(bundle) => Ok(Some(bundle)),
            Err(source) => Err(KeptError::NotThat { path, source }),
        },
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeptError::Read { path, source }),
    }
}

/// Why a stored file is not the bundle in its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeptError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Its content does not lead to the digest in its name.
    #[error("{}: {source}", path.display())]
    NotThat {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: RebuildError,
    },
}

#[cfg(test)]
mod tests {
    use super::{file, folder, keep_bundle, kept_bundle};
    use crate::policy::SourceFile;
    use crate::tools::{Catalog, Places};
    use crate::types::Digest;
    use std::os::unix::fs::PermissionsExt as _;

    fn bundle() -> super::Bundle {
        let names = ["logs", "workspace"].map(|name| (name.to_owned(), "/var/log".into()));
        let places = Places { names: names.into(), private: Vec::new() };
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let catalog = Catalog::load(&top.join("tools.d"), &places).expect("tools");
        let text = std::fs::read_to_string(top.join("policies/10-read.cedar")).expect("policies");
        let source = SourceFile { name: "policies/10-read.cedar".to_owned(), text };
        super::Bundle::load(&[source], &catalog, &places.names.keys().cloned().collect()).expect("bundle")
    }

    #[test]
    fn a_bundle_is_kept_once_whole_and_private() {
        let (data, bundle) = (tempfile::tempdir().expect("folder"), bundle());
        let digest = bundle.digest();
        assert!(kept_bundle(data.path(), digest).expect("read").is_none());
        keep_bundle(data.path(), &bundle).expect("kept");
        let path = file(data.path(), digest);
        let mode = |path| std::fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        assert_eq!((mode(path.clone()), mode(folder(data.path()))), (0o600, 0o700));
        let made = std::fs::metadata(&path).expect("there").modified().expect("time");
        keep_bundle(data.path(), &bundle).expect("kept");
        assert_eq!(std::fs::metadata(&path).expect("there").modified().expect("time"), made, "written twice");
        let again = kept_bundle(data.path(), digest).expect("read").expect("there");
        assert_eq!((again.digest(), again.archive()), (digest, bundle.archive()));

        // Under another name it is not that bundle. What a crash or a person left there is
        // replaced.
        let other = Digest::sha256(b"other");
        std::fs::copy(&path, file(data.path(), other)).expect("copied");
        assert!(kept_bundle(data.path(), other).is_err());
        std::fs::write(path.with_extension("new"), "half").expect("written");
        std::fs::write(&path, "{}").expect("written");
        assert!(kept_bundle(data.path(), digest).is_err());
        keep_bundle(data.path(), &bundle).expect("kept");
        assert!(kept_bundle(data.path(), digest).expect("read").is_some());
    }
}
