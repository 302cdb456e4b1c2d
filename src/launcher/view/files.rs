//! Files by descriptor: opening one by its path, its name, its identity, and reopening it for
//! reading.

use crate::call::{FileId, FileKind};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, openat, openat2, readlinkat};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// Opens `path` with `O_PATH`, following links.
pub(crate) fn open_path(path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// The canonical path of an open descriptor, through an open descriptor of `/proc`. `None` if it is
/// not UTF-8, not absolute, or the name is deleted.
pub(crate) fn name_of(proc: impl AsFd, fd: impl AsFd) -> Option<String> {
    let link = format!("self/fd/{}", fd.as_fd().as_raw_fd());
    let name = readlinkat(proc, link, Vec::new()).ok()?.into_string().ok()?;
    (name.starts_with('/') && !name.ends_with(" (deleted)")).then_some(name)
}

/// Whether this kernel has openat2(2), by which paths are resolved (Linux 5.6).
pub(crate) fn probe() -> Result<(), String> {
    open("/").map(drop).map_err(|e| format!("openat2: {e}: not in this kernel, or hidden by a filter"))
}

/// Opens for reading what an `O_PATH` descriptor names: never blocks on a FIFO, never takes a
/// terminal.
pub(crate) fn open_for_reading(proc: BorrowedFd<'_>, fd: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(proc, format!("self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())
}

pub(crate) fn open(path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

pub(crate) fn id(stat: &Stat) -> FileId {
    FileId { dev: stat.st_dev, ino: stat.st_ino }
}

pub(crate) fn kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        _ => FileKind::Other,
    }
}
