//! What a call adds to the folders that it may change, counted by its init at intervals while it
//! runs.
//!
//! The init counts blocks and files below each folder, by descriptors and one name a step, with the
//! rights of its tool and no more. A folder that it may not read counts as one entry, and so does
//! one that lies too deep. A file system that hangs hangs the init, and so this call alone; and no
//! process of the call can stop its init. What is written between two checks is not seen before the
//! second; the limit on a single file bounds each such file. If folders move during a check, the
//! call is stopped for it (`init.rs`).
//!
//! Walking does not find files that have no name any more or lie in an unreadable folder. For them
//! the free space of the file system is checked: a call may take no more of it than its limit or
//! one sixteenth, whichever is more, regardless of other writers.

use crate::tools::Limits;
use crate::types::clock::mono_us;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatVfs, fstat, fstatvfs, openat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

/// Time between two checks, in microseconds; after a slow check, three times its duration.
const CHECK_INTERVAL_US: u64 = 10_000;
/// Walks per check, if folders disappear during each.
const WALKS_MAX: usize = 16;
/// The share of the free space that a call may take beyond what walking finds: one in this many
/// parts.
const SPACE_PART: u64 = 16;
/// A block of `st_blocks`, in bytes (stat(3type)).
const BLOCK_BYTES: u64 = 512;
/// Levels of folders that a walk keeps open above the current one; further up it goes by `..`.
const OPEN_LEVELS: usize = 32;
/// Maximum depth of a walk, in folders. Opening a folder takes the kernel longer the deeper it is,
/// since Landlock checks each folder above it: without a limit, a walk takes time in the square of
/// the depth.
const LEVELS_MAX: usize = 256;
/// Bytes per read of a folder.
const READ_BYTES: usize = 32 << 10;

/// The limits of one call, and the state before it.
#[derive(Debug)]
pub(crate) struct Quota<'a> {
    folders: &'a [OwnedFd],
    most: Used,
    /// The minimum that each folder's file system must have left.
    least_free: Vec<Used>,
    next_us: u64,
    /// Number of folders that the last check could not read.
    unread: u64,
    /// Number of folders that lay too deep before the call.
    deep: u64,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaState {
    Within,
    /// More than it may, or impossible to count.
    Over,
    /// Folders disappeared while they were counted: they may be gone, or elsewhere below.
    Moving,
}

/// Bytes and files: those that exist, or those that may.
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

/// What a walk found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FolderUsage {
    used: Used,
    /// Folders that the tool may not read: each is one entry, whatever it contains.
    unread: u64,
    /// Folders that lie too deep: each is one entry, whatever it contains. A call that makes more
    /// of them is over its limit.
    deep: u64,
}

impl<'a> Quota<'a> {
    /// Counts what exists before the call changes anything. A folder that cannot be counted is a
    /// refusal.
    pub(crate) fn begin(folders: &'a [OwnedFd], limits: &Limits) -> Result<Self, String> {
        let added = Used { bytes: limits.written_bytes_max, files: limits.written_files_max };
        let any = Used { bytes: u64::MAX, files: u64::MAX };
        let before = count(folders, any).map_err(|reason| format!("quota: {reason}"))?;
        let before = before.ok_or("quota: its folders keep changing")?;
        let free = |folder| fstatvfs(folder).map(|space| least_free(&space, added));
        let least_free = folders.iter().map(free).collect::<Result<_, _>>();
        Ok(Self {
            folders,
            most: Used {
                bytes: before.used.bytes.saturating_add(added.bytes),
                files: before.used.files.saturating_add(added.files),
            },
            least_free: least_free.map_err(|e| format!("quota: {e}"))?,
            next_us: mono_us().saturating_add(CHECK_INTERVAL_US),
            unread: before.unread,
            deep: before.deep,
        })
    }

    /// Folders below that the last check could not read, and so counted as one entry each.
    pub(crate) fn unread(&self) -> u64 {
        self.unread
    }

    /// When the next check is due, by [`mono_us`].
    pub(crate) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Checks, if a check is due.
    pub(crate) fn check_if_due(&mut self) -> QuotaState {
        let from = mono_us();
        if from < self.next_us {
            return QuotaState::Within;
        }
        let state = self.check();
        let now = mono_us();
        self.next_us = now.saturating_add(CHECK_INTERVAL_US.max(3 * now.saturating_sub(from)));
        state
    }

    /// Checks now.
    pub(crate) fn check(&mut self) -> QuotaState {
        let is_full = self
            .folders
            .iter()
            .zip(&self.least_free)
            .any(|(folder, least)| fstatvfs(folder).is_ok_and(|space| least.is_over(free(&space))));
        match count(self.folders, self.most) {
            Ok(None) if !is_full => QuotaState::Moving,
            Ok(Some(found)) => {
                self.unread = found.unread;
                let is_over = is_full || found.used.is_over(self.most) || found.deep > self.deep;
                if is_over { QuotaState::Over } else { QuotaState::Within }
            }
            Ok(None) | Err(_) => QuotaState::Over,
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

/// Counts what lies below the folders, stopping once it is over `most`; `None` if folders move
/// during each walk.
fn count(folders: &[OwnedFd], most: Used) -> Result<Option<FolderUsage>, String> {
    for _ in 0..WALKS_MAX {
        let mut walk = QuotaWalk { most, found: FolderUsage::default(), has_moved: false };
        folders.iter().try_for_each(|folder| walk.below(folder))?;
        if !walk.has_moved || walk.found.used.is_over(most) {
            return Ok(Some(walk.found));
        }
    }
    Ok(None)
}

struct QuotaWalk {
    most: Used,
    found: FolderUsage,
    /// Whether a folder was gone when it was to be opened: it may be elsewhere below.
    has_moved: bool,
}

/// A folder on the path from the root of a walk to the current folder.
struct WalkLevel {
    /// `None` while the walk is more than [`OPEN_LEVELS`] below it.
    fd: Option<OwnedFd>,
    /// Device and inode.
    id: (u64, u64),
    /// The folders in it that are still to be counted.
    inner: Vec<CString>,
}

impl QuotaWalk {
    /// Counts depth first, by one name a step: no path is ever longer than one name, however deep
    /// the folders are.
    fn below(&mut self, root: &OwnedFd) -> Result<(), String> {
        let mut levels = Vec::new();
        levels.extend(self.enter(root, c".")?);
        while let Some(level) = levels.last_mut() {
            if self.found.used.is_over(self.most) {
                break;
            }
            let Some(name) = level.inner.pop() else {
                if !self.leave(&mut levels)? {
                    break;
                }
                continue;
            };
            let Some(at) = &level.fd else { break };
            let Some(mut next) = self.enter(at, &name)? else { continue };
            if levels.len() >= LEVELS_MAX {
                let deep = u64::try_from(next.inner.len()).unwrap_or(u64::MAX);
                self.found.deep = self.found.deep.saturating_add(deep);
                next.inner.clear();
            }
            levels.push(next);
            if let Some(far) = levels.len().checked_sub(OPEN_LEVELS + 1).and_then(|at| levels.get_mut(at)) {
                far.fd = None;
            }
        }
        Ok(())
    }

    /// Goes one level up. False if folders moved, so that the level above is not found again.
    fn leave(&mut self, levels: &mut Vec<WalkLevel>) -> Result<bool, String> {
        let left = levels.pop().and_then(|level| level.fd);
        let (Some(above), Some(left)) = (levels.last_mut(), left) else { return Ok(true) };
        if above.fd.is_some() {
            return Ok(true);
        }
        let Some(fd) = open(&left, c"..").map_err(|e| unreadable(&e))?.filter(|fd| id(fd) == Ok(above.id))
        else {
            self.has_moved = true;
            return Ok(false);
        };
        above.fd = Some(fd);
        Ok(true)
    }

    /// Counts the entries of a folder. `None` if it is not a folder any more, or may not be read.
    fn enter(&mut self, at: &OwnedFd, name: &CStr) -> Result<Option<WalkLevel>, String> {
        let fd = match open(at, name) {
            Ok(Some(fd)) => fd,
            Ok(None) => {
                self.has_moved = true;
                return Ok(None);
            }
            // It is one entry, counted with the folder that contains it. No tool makes such a
            // folder (`confine/seccomp`).
            Err(Errno::ACCESS | Errno::PERM) => {
                self.found.unread = self.found.unread.saturating_add(1);
                return Ok(None);
            }
            Err(e) => return Err(unreadable(&e)),
        };
        let id = id(&fd).map_err(|e| unreadable(&e))?;
        let inner = self.read(&fd).map_err(|e| unreadable(&e))?;
        Ok(Some(WalkLevel { fd: Some(fd), id, inner }))
    }

    /// Counts the entries of a folder, and returns the names of the folders among them.
    fn read(&mut self, folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
        let mut inner = Vec::new();
        let mut buffer = Vec::with_capacity(READ_BYTES);
        let mut names = RawDir::new(folder, buffer.spare_capacity_mut());
        while let Some(name) = names.next().filter(|_| !self.found.used.is_over(self.most)) {
            let name = match name {
                Ok(name) => name.file_name().to_owned(),
                // The folder itself disappeared.
                Err(Errno::NOENT) => break,
                Err(e) => return Err(e),
            };
            if [c".", c".."].contains(&name.as_c_str()) {
                continue;
            }
            let used = &mut self.found.used;
            used.files = used.files.saturating_add(1);
            let stat = match statat(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // It disappeared before it was examined.
                Err(Errno::NOENT) => {
                    used.files = used.files.saturating_sub(1);
                    continue;
                }
                // A folder whose names may be read but not looked up: no process with these rights
                // adds anything in it.
                Err(Errno::ACCESS | Errno::PERM) => continue,
                Err(e) => return Err(e),
            };
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            used.bytes = used.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
            if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory {
                inner.push(name);
            }
        }
        Ok(inner)
    }
}

/// `None` if it is not a folder any more.
fn open(at: &OwnedFd, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(at, name, flags, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(e) => Err(e),
    }
}

fn id(folder: &OwnedFd) -> Result<(u64, u64), Errno> {
    fstat(folder).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Omits the name, which another party may have chosen.
fn unreadable(cause: &Errno) -> String {
    format!("cannot read a folder below those that the call may change: {cause}")
}

#[cfg(test)]
mod tests {
    use super::{Quota, QuotaState, Used, count};
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
        let used = count(&open(dir.path()), ANY).expect("counted").expect("still").used;
        assert_eq!(used.files, 5);
        assert!((300_000..600_000).contains(&used.bytes), "{used:?}");
    }

    #[test]
    fn removing_a_tree_is_not_over_the_limit() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = open(dir.path());
        let limits = Limits { written_bytes_max: 1 << 30, written_files_max: 1 << 20, ..LIMITS };
        for at in 0..400 {
            std::fs::create_dir_all(dir.path().join(format!("a/{at}/inner"))).expect("made");
        }
        let mut quota = Quota::begin(&folders, &limits).expect("counted");
        std::thread::scope(|scope| {
            let removing = scope.spawn(|| std::fs::remove_dir_all(dir.path().join("a")).expect("removed"));
            while !removing.is_finished() {
                assert_ne!(quota.check(), QuotaState::Over, "removing counted as adding");
            }
        });
        assert_eq!(quota.check(), QuotaState::Within);
    }

    #[test]
    fn a_call_that_added_too_much_is_over_the_limit() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("before"), vec![1; 1 << 20]).expect("written");
        let folders = open(dir.path());
        let limits = |bytes, files| Limits { written_bytes_max: bytes, written_files_max: files, ..LIMITS };
        let quota = |bytes, files| Quota::begin(&folders, &limits(bytes, files)).expect("counted");
        let (mut bytes, mut files, mut neither) = (quota(1 << 20, 9), quota(1 << 30, 2), quota(1 << 30, 9));
        let is_within = |quota: &mut Quota<'_>| quota.check() == QuotaState::Within;
        assert!(is_within(&mut bytes) && is_within(&mut files));
        std::fs::write(dir.path().join("one"), vec![1; 1 << 19]).expect("written");
        assert!(is_within(&mut bytes) && is_within(&mut files));
        std::fs::write(dir.path().join("two"), vec![1; 1 << 20]).expect("written");
        assert!(!is_within(&mut bytes) && is_within(&mut files));
        // Overwriting is not adding.
        std::fs::write(dir.path().join("before"), b"").expect("written");
        std::fs::remove_file(dir.path().join("one")).expect("removed");
        assert!(is_within(&mut bytes));
        for name in ["three", "four"] {
            std::fs::write(dir.path().join(name), b"").expect("written");
        }
        assert!(!is_within(&mut files) && is_within(&mut neither));
    }

    #[test]
    fn names_deeper_than_any_path_are_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = open(dir.path());
        let name = "d".repeat(200);
        let mut at: OwnedFd = folders[0].try_clone().expect("a copy");
        for _ in 0..60 {
            rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).expect("made");
            at = rustix::fs::openat(&at, &name, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
                .expect("open");
            rustix::fs::mkdirat(&at, "sibling", rustix::fs::Mode::RWXU).expect("made");
        }
        let found = count(&folders, ANY).expect("counted").expect("still");
        assert_eq!((found.used.files, found.unread), (120, 0));
    }

    #[test]
    fn new_folders_too_deep_to_count_are_over_the_limit_and_existing_ones_are_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = open(dir.path());
        let limits = Limits { written_bytes_max: 1 << 30, written_files_max: 1 << 20, ..LIMITS };
        let deepen = |below: &str| {
            let path = [below].into_iter().chain(std::iter::repeat_n("d", 300)).collect::<Vec<_>>().join("/");
            std::fs::create_dir_all(dir.path().join(path)).expect("made");
        };
        deepen("one");
        let mut quota = Quota::begin(&folders, &limits).expect("counted");
        assert_eq!(quota.check(), QuotaState::Within);
        deepen("two");
        assert_eq!(quota.check(), QuotaState::Over);
        std::fs::remove_dir_all(dir.path().join("one")).expect("removed");
        assert_eq!(quota.check(), QuotaState::Within);
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_one_entry() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let folders = open(dir.path());
        for (name, mode) in [("unread", 0o300), ("closed", 0o000), ("listed", 0o600)] {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).expect("made");
            std::fs::write(folder.join("inner"), b"x").expect("written");
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("set");
        }
        let found = count(&folders, ANY).expect("counted").expect("still");
        // Root reads them all.
        let expect = if rustix::process::geteuid().is_root() { (6, 0) } else { (4, 2) };
        assert_eq!((found.used.files, found.unread), expect);
        assert!(Quota::begin(&folders, &LIMITS).is_ok());
        for name in ["unread", "closed", "listed"] {
            let open = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(dir.path().join(name), open).expect("set");
        }
    }
}
