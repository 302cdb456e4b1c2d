//! The walk below the folder of a recursive call, for a builtin that reads files there.
//!
//! The walk stays on its folder's mount of the host, so nothing of another mount turns up in it
//! under a second name.

use super::walk::{is_excluded, open_entry, read_names};
use crate::call::{Beneath, FileKind, PathObject};
use crate::launcher::host::entered::Paths;
use crate::launcher::view::files::{kind, open_for_reading};
use crate::tools::Limits;
use crate::tools::builtin::{Answer, Search, Skip};
use crate::types::clock::mono_us;
use serde_json::Value;
use std::ffi::CStr;
use std::os::fd::{AsFd as _, OwnedFd};

/// Entries that one walk examines.
const ENTRIES_MAX: usize = 100_000;

struct SearchWalk<'a> {
    paths: &'a Paths,
    excluded: &'a [&'a Beneath],
    mount: Option<u64>,
    entries_left: usize,
    search: Search,
}

/// Searches `object`, a file or folder that is open for reading as `fd`, except what is `excluded`
/// below it.
pub(crate) fn search(
    paths: &Paths,
    object: &PathObject,
    fd: &OwnedFd,
    excluded: &[&Beneath],
    arguments: &Value,
    limits: &Limits,
) -> Answer {
    // Ends early, so that what was found by then is reported: at the launcher's deadline nothing
    // would be.
    let end_us = mono_us().saturating_add(limits.wall_ms_max.saturating_mul(750));
    let search = Search::new(&object.canonical, arguments, limits.output_bytes_max, end_us)?;
    let mount = paths.origins.mount(fd.as_fd());
    let mut walk = SearchWalk { paths, excluded, mount, entries_left: ENTRIES_MAX, search };
    let path = object.canonical.trim_end_matches('/').as_bytes();
    match object.kind {
        FileKind::Folder => walk.folder(fd, path, walk.search.depth()),
        FileKind::File | FileKind::Other => walk.search.read(path, fd.as_fd()),
    }
    Ok(walk.search.answer())
}

impl SearchWalk<'_> {
    fn folder(&mut self, folder: &OwnedFd, path: &[u8], depth: u64) {
        let names = match read_names(folder, self.entries_left) {
            Ok(names) => names,
            Err(e) => return self.search.skip_folder(e),
        };
        for name in names {
            if self.entries_left == 0 {
                self.search.stop("entries");
            }
            if !self.search.goes_on() {
                return;
            }
            self.entries_left -= 1;
            self.entry(folder, &[path, b"/", name.to_bytes()].concat(), &name, depth);
        }
    }

    fn entry(&mut self, folder: &OwnedFd, path: &[u8], name: &CStr, depth: u64) {
        let (stat, fd) = match open_entry(folder, name) {
            Ok(entry) => entry,
            Err(e) => return self.search.skip_file(e),
        };
        if is_excluded(self.excluded, &stat, path) {
            return self.search.exclude();
        }
        let is_here = self.mount.is_some() && self.paths.origins.mount(fd.as_fd()) == self.mount;
        match kind(&stat) {
            FileKind::Folder if is_here && depth > 0 => {
                match open_for_reading(self.paths.proc.as_fd(), &fd) {
                    Ok(folder) => self.folder(&folder, path, depth - 1),
                    Err(e) => self.search.skip_folder(e),
                }
            }
            FileKind::Folder if is_here => self.search.skip_folder(Skip::TooDeep),
            FileKind::Folder => self.search.skip_folder(Skip::OtherMount),
            FileKind::File if is_here && self.search.wants(name.to_bytes()) => {
                match open_for_reading(self.paths.proc.as_fd(), &fd) {
                    Ok(file) => self.search.read(path, file.as_fd()),
                    Err(e) => self.search.skip_file(e),
                }
            }
            FileKind::File if is_here => {}
            // Links, and files that a read could affect.
            FileKind::File => self.search.skip_file(Skip::OtherMount),
            FileKind::Other => self.search.skip_file(Skip::Special),
        }
    }
}
