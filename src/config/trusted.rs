//! Reads the files that decide what may run: only files that no user but their owner could have
//! written.

use rustix::fs::OFlags;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Largest file of `etc/`, in bytes; no valid one comes near it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a regular file that only its owner can write, who is root or the user that started PAR.
///
/// The check uses the descriptor that is read, so the file cannot be swapped in between.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_where(path, check)
}

/// Like [`read`], for a file that must not be world-readable.
pub fn read_private(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let is_private = |meta: &Metadata| {
        check(meta)?;
        match meta.mode() & 0o004 {
            0 => Ok(()),
            _ => Err(io::Error::other(format!(
                "is world-readable (mode {:04o}), expected 0640 or less",
                meta.mode() & 0o7777
            ))),
        }
    };
    read_where(path, is_private).map(Zeroizing::new)
}

/// Like [`read`], for a key: only its owner and the service's group may read it. The service is the
/// owner of the folder `data`; the file may belong to it too.
pub fn read_key(path: &Path, data: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let service = std::fs::metadata(data).ok().map(|meta| (meta.uid(), meta.gid()));
    let is_key = |meta: &Metadata| {
        let mode = meta.mode() & 0o7777;
        if service.is_none_or(|(uid, _)| uid != meta.uid()) {
            check(meta)?;
        }
        if mode & 0o037 != 0 {
            return Err(io::Error::other(format!("has mode {mode:04o}, expected 0600 or 0640")));
        }
        let own = rustix::process::getegid().as_raw();
        let is_of_service = service.is_some_and(|(_, gid)| gid == meta.gid());
        if mode & 0o040 != 0 && !is_of_service && meta.gid() != own && meta.gid() != 0 {
            let gid = meta.gid();
            return Err(io::Error::other(format!(
                "has mode {mode:04o} and group {gid}, which is not the service's: expected mode 0600, or the \
                 service's group"
            )));
        }
        Ok(())
    };
    read_where(path, is_key).map(Zeroizing::new)
}

fn read_where(path: &Path, check: impl Fn(&Metadata) -> io::Result<()>) -> io::Result<Vec<u8>> {
    // Opening a pipe would block until its other end opens; the type is checked next.
    let waitless = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(waitless).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    check(&meta)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Reads the file `below` a folder of `etc/`. Each folder on the path must pass the same check: a
/// user who can write one could put another file there.
pub fn read_below(folder: &Path, below: &Path) -> io::Result<Vec<u8>> {
    let path = folder.join(below);
    let mut at = path.parent();
    while let Some(above) = at.filter(|above| above.starts_with(folder)) {
        check(&std::fs::metadata(above)?)?;
        at = above.parent();
    }
    read(&path)
}

/// Why [`read`] would refuse the file, or [`list`] the folder, by its owner and mode alone.
pub fn examine(path: &Path) -> io::Result<()> {
    check(&std::fs::metadata(path)?)
}

/// Opens the program at `path`, which need not be below `etc/`, and says whether only root and the
/// user that started PAR can change it: the file, and every folder that leads to it. In a folder
/// with the sticky bit, others cannot rename what they do not own.
pub fn open_program(path: &Path) -> io::Result<(File, io::Result<()>)> {
    let real = std::fs::canonicalize(path)?;
    let waitless = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(waitless).open(&real)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let trust = check(&meta).and_then(|()| check_above(&real));
    Ok((file, trust))
}

/// Checks that only root and the user that started PAR can put something else at `path`, which has
/// no links: the owner and the mode of every folder that leads to it. In a folder with the sticky
/// bit, others cannot rename what they do not own.
pub fn check_above(path: &Path) -> io::Result<()> {
    path.ancestors().skip(1).try_for_each(|folder| {
        let meta = std::fs::metadata(folder)?;
        let is_sticky = meta.mode() & 0o1000 != 0;
        let checked = if is_sticky { check_owner(&meta) } else { check(&meta) };
        checked.map_err(|why| io::Error::other(format!("its folder `{}` {why}", folder.display())))
    })
}

/// Opens a file of a code folder for reading, not through a link, and returns its mode. The same
/// check as in [`read`] applies.
pub fn open_code(path: &Path) -> io::Result<(File, u32)> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("is neither a regular file nor a folder nor a link"));
    }
    check(&meta)?;
    Ok((file, meta.mode()))
}

/// The files in `folder` whose names end in `.ending`, sorted. The folder must pass the same check.
pub fn list(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    check(&std::fs::metadata(folder)?)?;
    let mut files = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let path = item?.path();
        if path.extension().is_some_and(|is| is == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn check(meta: &Metadata) -> io::Result<()> {
    check_owner(meta)?;
    if meta.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "is writable by others (mode {:04o}), expected by its owner only",
            meta.mode() & 0o7777
        )));
    }
    Ok(())
}

fn check_owner(meta: &Metadata) -> io::Result<()> {
    let starter = rustix::process::geteuid().as_raw();
    if meta.uid() != 0 && meta.uid() != starter {
        return Err(io::Error::other(format!(
            "belongs to uid {}, expected root or the user that started PAR",
            meta.uid()
        )));
    }
    Ok(())
}
