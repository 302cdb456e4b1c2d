//! Reading below a folder without what policies exclude.
//!
//! INVARIANT: what is excluded is not read. Each entry is opened with `O_PATH` and without
//! following a link; its inode and its name are compared with the exclusions, and only that
//! descriptor is then opened for reading.

use crate::call::Beneath;
use crate::launcher::view::files::id;
use rustix::fs::{Mode, OFlags, RawDir, Stat, fstat, openat};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// Bytes per read of a folder.
const READ_BYTES: usize = 32 << 10;

/// Opens the entry `name` of `folder` with `O_PATH`; a link is opened itself.
pub(crate) fn open_entry(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<(Stat, OwnedFd)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).and_then(|fd| Ok((fstat(&fd)?, fd)))
}

/// Whether an entry is excluded: by its inode, or by its name.
pub(crate) fn is_excluded(excluded: &[&Beneath], stat: &Stat, path: &[u8]) -> bool {
    excluded.iter().any(|one| one.id == Some(id(stat)) || one.canonical.as_bytes() == path)
}

/// The names in a folder, sorted; one more than `most` if there are more.
pub(crate) fn read_names(folder: &OwnedFd, most: usize) -> rustix::io::Result<Vec<CString>> {
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut items = RawDir::new(folder, &mut buffer);
    let mut names = Vec::new();
    while let Some(item) = items.next().filter(|_| names.len() <= most) {
        let item = item?;
        if ![c".", c".."].contains(&item.file_name()) {
            names.push(item.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}
