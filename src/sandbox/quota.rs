//! What a call adds to the folders that it may change, looked at by its init again and again while it runs.
//!
//! The init counts blocks and files below each folder, by names that no link leads out of, with the rights of its tool
//! and no more. A file system that hangs hangs the init, and so this call alone. What is written between two looks
//! is not seen before the second: each file of it has the bound of one file. Where folders move about under a look, the
//! call is stopped for it (`init.rs`).
//!
//! Files that have no name any more are not found by walking. For them the free space of the file system is looked at:
//! a call does not take more of that than its bound or a sixteenth, whichever is more, whoever else writes there.

use crate::tools::Limits;
use crate::types::clock::mono_us;
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RawDir, ResolveFlags, StatVfs, accessat, fstatvfs, openat2, statat,
};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// Between two looks, in microseconds; where a look takes long, thrice as long as it took.
const LOOK_US: u64 = 10_000;
/// Walks of one look, where folders were gone under each.
const WALKS_MAX: usize = 16;
/// Of the free space, what a call may take that is not found by walking.
const SPACE_PART: u64 = 16;
/// A block of `st_blocks`, in bytes (stat(3type)).
const BLOCK_BYTES: u64 = 512;
/// One read of a folder, in bytes.
const READ_BYTES: usize = 32 << 10;

/// The bounds of one call, and how it was before.
#[derive(Debug)]
pub(super) struct Quota<'a> {
    folders: &'a [OwnedFd],
    most: Used,
    /// The least that each folder's file system may have left.
    least_free: Vec<Used>,
    next_us: u64,
}

/// What one look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Within,
    /// More than it may, or not to be counted at all.
    Over,
    /// Folders went while they were counted: they may be gone, or elsewhere below.
    Moving,
}

/// Bytes and files: those that are there, or those that could be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    bytes: u64,
    files: u64,
}

impl Used {
    fn is_over(self, most: Self) -> bool {
        self.bytes > most.bytes || self.files > most.files
    }
}

impl<'a> Quota<'a> {
    /// Counts what is there before the call changes anything. A folder that cannot be counted is a refusal.
    pub(super) fn begin(folders: &'a [OwnedFd], limits: &Limits) -> Result<Self, String> {
        let added = Used { bytes: limits.written_bytes_max, files: limits.written_files_max };
        let any = Used { bytes: u64::MAX, files: u64::MAX };
        let before = count(folders, any).map_err(|reason| format!("quota: {reason}"))?;
        let before = before.ok_or("quota: its folders do not keep still")?;
        let free = |folder| fstatvfs(folder).map(|space| least_free(&space, added));
        let least_free = folders.iter().map(free).collect::<Result<_, _>>();
        Ok(Self {
            folders,
            most: Used {
                bytes: before.bytes.saturating_add(added.bytes),
                files: before.files.saturating_add(added.files),
            },
            least_free: least_free.map_err(|e| format!("quota: {e}"))?,
            next_us: mono_us().saturating_add(LOOK_US),
        })
    }

    /// When the next look is due, by [`mono_us`].
    pub(super) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// A look, if it is time for one.
    pub(super) fn look_by_now(&mut self) -> Look {
        let from = mono_us();
        if from < self.next_us {
            return Look::Within;
        }
        let look = self.look();
        let now = mono_us();
        self.next_us = now.saturating_add(LOOK_US.max(3 * now.saturating_sub(from)));
        look
    }

    /// Looks now.
    pub(super) fn look(&self) -> Look {
        let is_full = self
            .folders
            .iter()
            .zip(&self.least_free)
            .any(|(folder, least)| fstatvfs(folder).is_ok_and(|space| least.is_over(free(&space))));
        match count(self.folders, self.most) {
            _ if is_full => Look::Over,
            Ok(Some(used)) if !used.is_over(self.most) => Look::Within,
            Ok(None) => Look::Moving,
            Ok(Some(_)) | Err(_) => Look::Over,
        }
    }
}

fn free(space: &StatVfs) -> Used {
    Used { bytes: space.f_bfree.saturating_mul(space.f_frsize), files: space.f_ffree }
}

fn least_free(space: &StatVfs, added: Used) -> Used {
    let free = free(space);
    let least = |free: u64, added: u64| free.saturating_sub(added.max(free / SPACE_PART));
    Used { bytes: least(free.bytes, added.bytes), files: least(free.files, added.files) }
}

/// What lies below the folders, or so much of it that it is over `most`; `None` where folders move under each walk.
fn count(folders: &[OwnedFd], most: Used) -> Result<Option<Used>, String> {
    for _ in 0..WALKS_MAX {
        let mut walk = Walk { most, used: Used::default(), has_moved: false };
        folders.iter().try_for_each(|folder| walk.below(folder))?;
        if !walk.has_moved || walk.used.is_over(most) {
            return Ok(Some(walk.used));
        }
    }
    Ok(None)
}

struct Walk {
    most: Used,
    used: Used,
    /// Whether a folder was gone when it was to be looked into: it may be elsewhere below.
    has_moved: bool,
}

impl Walk {
    fn below(&mut self, root: &OwnedFd) -> Result<(), String> {
        let mut folders = vec![CString::from(c".")];
        while let Some(path) = folders.pop() {
            match self.open(root, &path)? {
                Some(folder) => self.read(&folder, &path, &mut folders)?,
                None => continue,
            }
            if self.used.is_over(self.most) {
                break;
            }
        }
        Ok(())
    }

    /// `None` where it is no folder any more, or one that the tool cannot reach into either.
    fn open(&mut self, root: &OwnedFd, path: &CString) -> Result<Option<OwnedFd>, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(root, path.as_c_str(), flags, Mode::empty(), resolve) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN | Errno::XDEV) => {
                self.has_moved = true;
                Ok(None)
            }
            Err(Errno::ACCESS)
                if accessat(root, path.as_c_str(), Access::EXEC_OK, AtFlags::EACCESS).is_err() =>
            {
                Ok(None)
            }
            Err(e) => Err(format!("`{}` cannot be looked into: {e}", path.to_string_lossy())),
        }
    }

    fn read(&mut self, folder: &OwnedFd, path: &CString, folders: &mut Vec<CString>) -> Result<(), String> {
        let mut buffer = Vec::with_capacity(READ_BYTES);
        let mut names = RawDir::new(folder, buffer.spare_capacity_mut());
        while let Some(name) = names.next() {
            let at = |e: Errno| format!("`{}` cannot be looked into: {e}", path.to_string_lossy());
            let name = match name {
                Ok(name) => name.file_name().to_owned(),
                // The folder itself went.
                Err(Errno::NOENT) => break,
                Err(e) => return Err(at(e)),
            };
            if [c".", c".."].contains(&name.as_c_str()) {
                continue;
            }
            let stat = match statat(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // It went while it was looked for.
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(at(e)),
            };
            self.used.files += 1;
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.used.bytes = self.used.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
            if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory {
                let inner = [path.as_bytes(), b"/", name.as_bytes()].concat();
                folders.extend(CString::new(inner));
            }
            if self.used.is_over(self.most) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Look, Quota, Used, count};
    use crate::tools::Limits;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    const LIMITS: Limits = Limits {
        wall_ms_max: 1,
        output_bytes_max: 1,
        memory_bytes_max: 1,
        processes_max: 1,
        file_bytes_max: 1,
        network_bytes_max: 0,
        written_bytes_max: 0,
        written_files_max: 0,
    };
    const ANY: Used = Used { bytes: u64::MAX, files: u64::MAX };

    fn open(folder: &Path) -> [OwnedFd; 1] {
        [std::fs::File::open(folder).expect("a folder").into()]
    }

    #[test]
    fn what_is_below_is_counted_by_its_blocks_and_no_link_is_followed() {
        let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("big"), vec![1; 1 << 20]).expect("written");
        std::fs::create_dir_all(dir.path().join("a/b")).expect("made");
        std::fs::write(dir.path().join("a/b/f"), vec![1; 300_000]).expect("written");
        std::os::unix::fs::symlink(outside.path(), dir.path().join("away")).expect("linked");
        let sparse = std::fs::File::create(dir.path().join("sparse")).expect("made");
        sparse.set_len(1 << 40).expect("set");
        let used = count(&open(dir.path()), ANY).expect("counted").expect("still");
        assert_eq!(used.files, 5);
        assert!((300_000..600_000).contains(&used.bytes), "{used:?}");
    }

    #[test]
    fn who_removes_a_tree_is_not_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = open(dir.path());
        let limits = Limits { written_bytes_max: 1 << 30, written_files_max: 1 << 20, ..LIMITS };
        for at in 0..400 {
            std::fs::create_dir_all(dir.path().join(format!("a/{at}/inner"))).expect("made");
        }
        let quota = Quota::begin(&folders, &limits).expect("counted");
        std::thread::scope(|scope| {
            let removing = scope.spawn(|| std::fs::remove_dir_all(dir.path().join("a")).expect("removed"));
            while !removing.is_finished() {
                assert_ne!(quota.look(), Look::Over, "removing is no adding");
            }
        });
        assert_eq!(quota.look(), Look::Within);
    }

    #[test]
    fn a_call_is_over_where_it_added_more_than_it_may() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("before"), vec![1; 1 << 20]).expect("written");
        let folders = open(dir.path());
        let limits = |bytes, files| Limits { written_bytes_max: bytes, written_files_max: files, ..LIMITS };
        let quota = |bytes, files| Quota::begin(&folders, &limits(bytes, files)).expect("counted");
        let (bytes, files, neither) = (quota(1 << 20, 9), quota(1 << 30, 2), quota(1 << 30, 9));
        let is_within = |quota: &Quota<'_>| quota.look() == Look::Within;
        assert!(is_within(&bytes) && is_within(&files));
        std::fs::write(dir.path().join("one"), vec![1; 1 << 19]).expect("written");
        assert!(is_within(&bytes) && is_within(&files));
        std::fs::write(dir.path().join("two"), vec![1; 1 << 20]).expect("written");
        assert!(!is_within(&bytes) && is_within(&files));
        // Written over is not added.
        std::fs::write(dir.path().join("before"), b"").expect("written");
        std::fs::remove_file(dir.path().join("one")).expect("removed");
        assert!(is_within(&bytes));
        for name in ["three", "four"] {
            std::fs::write(dir.path().join(name), b"").expect("written");
        }
        assert!(!is_within(&files) && is_within(&neither));
    }
}
