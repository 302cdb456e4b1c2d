//! The files of keys: written next to their place and renamed, readable only by their owner and by
//! the service.

use crate::cli::exit::Fail;
use crate::types::Secret;
use rustix::fs::{Gid, Mode, OFlags, fchmod, fchown, open};
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

/// Who may read a stored key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner alone.
    Owner,
    /// Its owner and the group of the service.
    Service(u32),
}

impl Readers {
    /// For the service that owns the folder `data`: its group reads the key, unless the service is
    /// the user of this process.
    pub(super) fn of(data: &Path) -> io::Result<Self> {
        let meta = std::fs::metadata(data)?;
        let own = rustix::process::geteuid().as_raw();
        Ok(if meta.uid() == own { Self::Owner } else { Self::Service(meta.gid()) })
    }

    /// The mode of the file.
    pub(super) fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Service(_) => 0o640,
        }
    }

    fn apply(self, file: &File, mode: u32) -> io::Result<()> {
        if let Self::Service(gid) = self {
            fchown(file, None, Some(Gid::from_raw(gid)))?;
        }
        Ok(fchmod(file, Mode::from_raw_mode(mode))?)
    }
}

/// Stores `key` in `path`, in place of an earlier one.
pub(super) fn write(path: &Path, key: &Secret, readers: Readers) -> Result<(), Fail> {
    let folder = path.parent().unwrap_or(path);
    prepare(folder, readers).map_err(|e| refused(folder, &e))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let place = || {
        // No other user can open it before it has its readers.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = File::from(open(&aside, flags, Mode::from_raw_mode(0o600))?);
        file.write_all(key.expose().as_bytes())?;
        file.write_all(b"\n")?;
        readers.apply(&file, readers.mode())?;
        file.sync_all()?;
        std::fs::rename(&aside, path)?;
        File::open(folder)?.sync_all()
    };
    place().inspect_err(|_| drop(std::fs::remove_file(&aside))).map_err(|e| refused(path, &e))
}

/// Makes the folder, and lets the service's group enter it.
fn prepare(folder: &Path, readers: Readers) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        Ok(()) | Err(_) => {}
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = File::from(open(folder, flags, Mode::empty())?);
    let meta = open.metadata()?;
    if meta.mode() & 0o022 != 0 {
        return Err(io::Error::other("the folder is writable by others, expected by its owner only"));
    }
    match readers {
        Readers::Service(gid) if !enters(&meta, gid) => readers.apply(&open, 0o750),
        Readers::Service(_) | Readers::Owner => Ok(()),
    }
}

fn enters(meta: &Metadata, gid: u32) -> bool {
    meta.mode() & 0o001 != 0 || (meta.gid() == gid && meta.mode() & 0o010 != 0)
}

/// Removes a stored key.
pub(super) fn remove(path: &Path) -> Result<(), Fail> {
    std::fs::remove_file(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Fail::failed(format!("no key is stored in {}", path.display())),
        _ => refused(path, &e),
    })
}

fn refused(path: &Path, e: &io::Error) -> Fail {
    let mend = match e.kind() {
        io::ErrorKind::PermissionDenied => ": run this as the owner of etc/, such as with sudo",
        _ => "",
    };
    Fail::failed(format!("{}: {e}{mend}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{Readers, write};
    use crate::types::Secret;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    #[test]
    fn a_key_is_readable_by_its_owner_and_the_service_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("credentials/fast");
        let key = |text: &str| Secret::new(text.to_owned()).expect("a key");
        let of = |path: &std::path::Path| {
            let meta = std::fs::metadata(path).expect("there");
            (meta.mode() & 0o7777, meta.gid())
        };
        write(&path, &key("first"), Readers::Owner).expect("written");
        assert_eq!(of(&path).0, 0o600);
        assert_eq!(of(&folder.path().join("credentials")).0, 0o700);
        write(&path, &key("second"), Readers::Owner).expect("written again");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "second\n");
        if rustix::process::geteuid().is_root() {
            write(&path, &key("third"), Readers::Service(12_345)).expect("written");
            assert_eq!(of(&path), (0o640, 12_345));
            assert_eq!(of(&folder.path().join("credentials")), (0o750, 12_345));
        }
        let left = std::fs::read_dir(folder.path().join("credentials")).expect("read").count();
        assert_eq!(left, 1, "nothing else is left");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path().join("credentials"), open).expect("mode");
        let error = write(&path, &key("fourth"), Readers::Owner).expect_err("a folder that all can write");
        assert!(error.what.contains("writable by others"), "{error}");
    }
}
