//! The walk of `largest_paths`: it lists folders, and opens no file.

use super::walk::{is_excluded, open_entry};
use crate::call::{Beneath, FileKind, PathObject};
use crate::launcher::host::entered::Paths;
use crate::launcher::view::files::{kind, open_for_reading};
use crate::tools::Limits;
use crate::tools::builtin::{Answer, LargestPaths, NOT_FOUND, Skip};
use crate::types::clock::mono_us;
use rustix::fs::{AtFlags, RawDir, Stat, fstat, fstatvfs, statat};
use serde_json::Value;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

/// Entries that one walk examines.
const ENTRIES_MAX: usize = 5_000_000;
/// Levels of folders below the first one: each is open while what lies in it is examined.
const DEPTH_MAX: usize = 40;
/// Bytes per read of a folder.
const READ_BYTES: usize = 32 << 10;
/// The unit of `st_blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;

struct LargestWalk<'a> {
    paths: &'a Paths,
    excluded: &'a [&'a Beneath],
    device: u64,
    mount: Option<u64>,
    entries_left: usize,
    found: LargestPaths,
}

/// Adds up what lies below `object`, a folder that is open for reading as `fd`, except what is
/// `excluded`.
pub(crate) fn largest(
    paths: &Paths,
    object: &PathObject,
    fd: &OwnedFd,
    excluded: &[&Beneath],
    arguments: &Value,
    limits: &Limits,
    host: &str,
) -> Answer {
    // Ends early, so that what was found by then is reported.
    let end_us = mono_us().saturating_add(limits.wall_ms_max.saturating_mul(750));
    let stat = fstat(fd).map_err(|_| NOT_FOUND.to_owned())?;
    let found = LargestPaths::new(&object.canonical, arguments, limits.output_bytes_max, end_us);
    let mount = paths.origins.mount(fd.as_fd());
    let mut walk =
        LargestWalk { paths, excluded, device: stat.st_dev, mount, entries_left: ENTRIES_MAX, found };
    let path = object.canonical.trim_end_matches('/').as_bytes();
    walk.folder(fd, &stat, path, 0);
    walk.found.answer(fstatvfs(fd).ok().as_ref(), host)
}

impl LargestWalk<'_> {
    /// What the folder takes with everything in it.
    fn folder(&mut self, folder: &OwnedFd, stat: &Stat, path: &[u8], depth: usize) -> u64 {
        let own = on_disk(stat);
        let mut total = own;
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut items = RawDir::new(folder, &mut buffer);
        while let Some(item) = items.next() {
            let Ok(item) = item else {
                self.found.skip(Skip::Failed);
                break;
            };
            let name = item.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.entries_left == 0 {
                self.found.stop("entries");
            }
            if !self.found.goes_on() {
                break;
            }
            self.entries_left -= 1;
            total = total.saturating_add(self.entry(folder, path, name, depth));
        }
        self.found.folder(path, own, total);
        total
    }

    fn entry(&mut self, folder: &OwnedFd, above: &[u8], name: &CStr, depth: usize) -> u64 {
        let path = || [above, b"/", name.to_bytes()].concat();
        let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(e) => {
                self.found.skip(e);
                return 0;
            }
        };
        if !self.excluded.is_empty() && is_excluded(self.excluded, &stat, &path()) {
            self.found.exclude();
            return 0;
        }
        match kind(&stat) {
            FileKind::Folder => self.enter(folder, &path(), name, depth),
            FileKind::File | FileKind::Other if stat.st_dev == self.device => {
                let linked = (stat.st_nlink > 1).then_some(stat.st_ino);
                self.found.file(path, on_disk(&stat), linked)
            }
            FileKind::File | FileKind::Other => {
                self.found.skip(Skip::OtherMount);
                0
            }
        }
    }

    /// Goes into a folder. It is compared with the exclusions again, by its descriptor: by now
    /// another one may have the name.
    fn enter(&mut self, folder: &OwnedFd, path: &[u8], name: &CStr, depth: usize) -> u64 {
        let (stat, fd) = match open_entry(folder, name) {
            Ok(entry) => entry,
            Err(e) => {
                self.found.skip(e);
                return 0;
            }
        };
        let is_here = self.mount.is_some() && self.paths.origins.mount(fd.as_fd()) == self.mount;
        if is_excluded(self.excluded, &stat, path) {
            self.found.exclude();
        } else if kind(&stat) != FileKind::Folder {
            self.found.skip(Skip::Failed);
        } else if !is_here {
            self.found.skip(Skip::OtherMount);
        } else if depth == DEPTH_MAX {
            self.found.skip(Skip::TooDeep);
        } else {
            match open_for_reading(self.paths.proc.as_fd(), &fd) {
                Ok(inner) => {
                    drop(fd);
                    return self.folder(&inner, &stat, path, depth + 1);
                }
                Err(e) => self.found.skip(e),
            }
        }
        0
    }
}

fn on_disk(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES)
}
