//! A folder of code, as it was when its manifest was loaded: what a tool's program reads as code or
//! executes, such as the modules of an interpreter.

use crate::config::trusted;
use crate::types::limits::{CODE_BYTES_MAX, CODE_ENTRIES_MAX};
use crate::types::{Digest, text};
use rustix::fs::{AtFlags, Stat, lstat, statat};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A folder of `code`. Front and launcher each read it when they load the manifest.
#[derive(Clone, Debug)]
pub struct CodeTree {
    path: PathBuf,
    entries: Vec<TreeEntry>,
    digest: Option<Digest>,
    obstacle: Option<String>,
}

/// The folder itself, with an empty name, or something below it.
#[derive(Clone, Debug)]
struct TreeEntry {
    name: PathBuf,
    mark: FileMark,
}

/// Changes whenever the file, the names in the folder, or its mode or owner change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileMark {
    dev: u64,
    ino: u64,
    size: i64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl FileMark {
    fn of(stat: &Stat) -> Self {
        let nanoseconds = |n| i64::try_from(n).unwrap_or_default();
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: stat.st_size,
            changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
            modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        }
    }
}

impl CodeTree {
    /// Reads the folder at `path`, which has no links. One that cannot be read whole, or that
    /// others can change, has no digest and says why: its tool is not started.
    ///
    /// `programs` are the real paths of the programs that the manifest names: a link in the folder
    /// may lead to one of them.
    pub(super) fn load(path: &Path, programs: &[PathBuf]) -> Self {
        let mut walk = TreeWalk { root: path, programs, entries: Vec::new(), bytes: 0 };
        let read = trusted::check_above(path).and_then(|()| walk.read());
        let entries = walk.entries;
        let (digest, obstacle) = match read {
            Ok(digest) => (Some(digest), None),
            Err(why) => (None, Some(format!("code folder `{}`: {why}", path.display()))),
        };
        Self { path: path.to_owned(), entries, digest, obstacle }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 over everything in it: `"par/folder/1\0"`, then for each entry below the folder, by
    /// the bytes of its path, one byte for its type (`d` folder, `f` file, `x` executable file, `l`
    /// link), the length of the path in eight bytes, the path, and 32 bytes: SHA-256 of a file's
    /// bytes or of a link's target, zeros for a folder. `None` if it could not be read.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Number of files, folders and links in it, the folder included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Why its tool is not started.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// Adds an obstacle to a folder that has none.
    pub(super) fn refuse(&mut self, why: &str) {
        self.obstacle.get_or_insert_with(|| format!("code folder `{}`: {why}", self.path.display()));
    }

    /// Whether `folder`, an open descriptor of this folder, holds what was read: the same files
    /// with the same sizes and times of change. Costs one `fstatat` for each entry.
    ///
    /// # Errors
    ///
    /// The first entry that is not as it was.
    pub fn compare(&self, folder: impl AsFd) -> Result<(), String> {
        let at = folder.as_fd();
        for TreeEntry { name, mark } in &self.entries {
            let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
            match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileMark::of(&stat) == *mark => {}
                Err(e @ (Errno::ACCESS | Errno::PERM)) => {
                    return Err(format!("{}: {e}", self.shown(name)));
                }
                Ok(_) | Err(_) => {
                    let mend = "`par reload` loads and records what is there now";
                    return Err(format!("{} changed since it was loaded: {mend}", self.shown(name)));
                }
            }
        }
        Ok(())
    }

    fn shown(&self, name: &Path) -> String {
        let path = if name == Path::new(".") { self.path.clone() } else { self.path.join(name) };
        text::visible_line(&format!("code of the tool: `{}`", path.display()))
    }
}

struct TreeWalk<'a> {
    root: &'a Path,
    programs: &'a [PathBuf],
    entries: Vec<TreeEntry>,
    bytes: u64,
}

impl TreeWalk<'_> {
    fn read(&mut self) -> io::Result<Digest> {
        let mut listing: Vec<(PathBuf, u8, Digest)> = Vec::new();
        let mut next = vec![PathBuf::new()];
        while let Some(name) = next.pop() {
            if self.entries.len() >= CODE_ENTRIES_MAX {
                return Err(io::Error::other(format!(
                    "holds more than {CODE_ENTRIES_MAX} files and folders"
                )));
            }
            let path = self.root.join(&name);
            // Before it is read: what changes after that is noticed.
            let mark = lstat(&path).map(|stat| FileMark::of(&stat));
            let read = self.entry(&path, &mut next);
            let (kind, digest) = read.map_err(|why| {
                io::Error::other(if name.as_os_str().is_empty() {
                    why.to_string()
                } else {
                    text::visible_line(&format!("`{}`: {why}", name.display()))
                })
            })?;
            self.entries.push(TreeEntry { name: name.clone(), mark: mark? });
            listing.push((name, kind, digest));
        }
        listing.sort_by(|(one, ..), (other, ..)| bytes(one).cmp(bytes(other)));
        let mut hashed = b"par/folder/1\0".to_vec();
        for (name, kind, digest) in listing.iter().filter(|(name, ..)| !name.as_os_str().is_empty()) {
            hashed.push(*kind);
            hashed.extend((bytes(name).len() as u64).to_be_bytes());
            hashed.extend(bytes(name));
            hashed.extend(digest.0);
        }
        Ok(Digest::sha256(&hashed))
    }

    /// Reads the entry at `path`: its type, and the digest of its content. What a folder contains
    /// comes next.
    fn entry(&mut self, path: &Path, next: &mut Vec<PathBuf>) -> io::Result<(u8, Digest)> {
        let meta = std::fs::symlink_metadata(path)?;
        if meta.is_symlink() {
            let end = std::fs::canonicalize(path).map_err(|e| io::Error::other(format!("link: {e}")))?;
            if !end.starts_with(self.root) && !self.programs.contains(&end) {
                let why = "is a link that leads out of the folder, to what the digest does not cover";
                return Err(io::Error::other(why));
            }
            return Ok((b'l', Digest::sha256(bytes(&std::fs::read_link(path)?))));
        }
        if meta.is_dir() {
            trusted::examine(path)?;
            for item in std::fs::read_dir(path)? {
                next.push(
                    item?.path().strip_prefix(self.root).map(Path::to_owned).map_err(io::Error::other)?,
                );
                if self.entries.len().saturating_add(next.len()) > CODE_ENTRIES_MAX {
                    break;
                }
            }
            return Ok((b'd', Digest([0; 32])));
        }
        let (file, mode) = trusted::open_code(path)?;
        let left = CODE_BYTES_MAX.saturating_sub(self.bytes);
        let size = file.metadata()?.len();
        if size > left {
            return Err(io::Error::other(format!("the folder holds more than {CODE_BYTES_MAX} bytes")));
        }
        self.bytes = self.bytes.saturating_add(size);
        let digest = Digest::sha256_read(file, size)?;
        Ok((if mode & 0o111 == 0 { b'f' } else { b'x' }, digest))
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::CodeTree;
    use crate::types::Digest;
    use crate::types::limits::{CODE_BYTES_MAX, CODE_ENTRIES_MAX};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let real = fs::canonicalize(folder.path()).expect("real");
        (folder, real)
    }

    fn mode(path: &std::path::Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
    }

    #[test]
    fn the_digest_is_over_the_sorted_entries() {
        let (_held, root) = folder();
        fs::create_dir(root.join("b")).expect("folder");
        fs::write(root.join("b/x"), "1").expect("written");
        fs::write(root.join("b.x"), "2").expect("written");
        symlink("b/x", root.join("a")).expect("link");
        mode(&root.join("b"), 0o755);
        mode(&root.join("b/x"), 0o700);
        mode(&root.join("b.x"), 0o600);
        let mut listing = b"par/folder/1\0".to_vec();
        for (kind, name, digest) in [
            (b'l', "a", Digest::sha256(b"b/x")),
            (b'd', "b", Digest([0; 32])),
            (b'f', "b.x", Digest::sha256(b"2")),
            (b'x', "b/x", Digest::sha256(b"1")),
        ] {
            listing.push(kind);
            listing.extend((name.len() as u64).to_be_bytes());
            listing.extend(name.as_bytes());
            listing.extend(digest.0);
        }
        let tree = CodeTree::load(&root, &[]);
        assert_eq!((tree.obstacle(), tree.count()), (None, 5));
        assert_eq!(tree.digest(), Some(Digest::sha256(&listing)));
    }

    #[test]
    fn a_folder_beyond_the_bounds_is_refused() {
        let (_held, root) = folder();
        let refused = |expect: &str| {
            let tree = CodeTree::load(&root, &[]);
            assert_eq!(tree.digest(), None);
            assert!(tree.obstacle().is_some_and(|why| why.contains(expect)), "{:?}", tree.obstacle());
        };
        let large = fs::File::create(root.join("large")).expect("file");
        mode(&root.join("large"), 0o600);
        large.set_len(CODE_BYTES_MAX + 1).expect("sparse");
        refused("holds more than 268435456 bytes");
        large.set_len(0).expect("emptied");
        // The folder itself and `large` count too.
        for at in 0..CODE_ENTRIES_MAX - 2 {
            symlink("large", root.join(at.to_string())).expect("link");
        }
        let whole = CodeTree::load(&root, &[]);
        assert_eq!((whole.obstacle(), whole.count()), (None, CODE_ENTRIES_MAX));
        symlink("large", root.join("more")).expect("link");
        refused("holds more than 20000 files and folders");
    }
}
