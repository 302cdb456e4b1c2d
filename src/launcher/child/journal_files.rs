//! Which files a journal has, counted before journalctl reads them: with `-o json` it says
//! neither that files are missing nor that it may not open some.

use super::walk::read_names;
use crate::launcher::tool::Root;
use crate::tools::JournalFiles;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// Names that are looked at in one folder.
const NAMES_MAX: usize = 10_000;
/// Letters of a machine's id, which is the name of the folder with its journal
/// (sd_journal_open(3)).
const MACHINE_ID_LETTERS: usize = 32;

/// The files of the journal in the folders `roots`.
pub(crate) fn count(roots: &[Root]) -> JournalFiles {
    let mut found = JournalFiles::default();
    for root in roots {
        let Some(names) = names(&mut found, &root.fd, c".") else { continue };
        for name in names.1 {
            if is_journal(name.to_bytes()) {
                count_file(&mut found, &names.0, &name);
            } else if is_machine(name.to_bytes())
                && let Some((folder, files)) = self::names(&mut found, &names.0, &name)
            {
                let files = files.iter().filter(|name| is_journal(name.to_bytes()));
                files.for_each(|name| count_file(&mut found, &folder, name));
            }
        }
    }
    found
}

/// The folder `name` and the names in it; counts one that may not be read.
fn names(found: &mut JournalFiles, at: &OwnedFd, name: &CStr) -> Option<(OwnedFd, Vec<std::ffi::CString>)> {
    let folder = open(at, name, OFlags::DIRECTORY);
    match folder.and_then(|folder| Ok((read_names(&folder, NAMES_MAX)?, folder))) {
        Ok((names, folder)) => Some((folder, names)),
        // It went away, or is not a folder.
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        Err(_) => {
            found.unreadable = found.unreadable.saturating_add(1);
            None
        }
    }
}

fn count_file(found: &mut JournalFiles, folder: &OwnedFd, name: &CStr) {
    match open(folder, name, OFlags::empty()) {
        Ok(_) => found.readable = found.readable.saturating_add(1),
        Err(Errno::NOENT) => {}
        Err(_) => found.unreadable = found.unreadable.saturating_add(1),
    }
}

fn open(at: impl AsFd, name: &CStr, more: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    openat(at, name, flags, Mode::empty())
}

/// `system.journal`, and `user-1000@….journal~`, which was not closed.
fn is_journal(name: &[u8]) -> bool {
    name.ends_with(b".journal") || name.ends_with(b".journal~")
}

fn is_machine(name: &[u8]) -> bool {
    name.len() == MACHINE_ID_LETTERS && name.iter().all(u8::is_ascii_hexdigit)
}
