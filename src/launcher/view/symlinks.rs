//! From a path as written to what it names: the links along it, and its end.

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

/// Links along one path, as in path_resolution(7).
const LINKS_MAX: usize = 40;

/// A path that was followed. Everything on it was opened only with `O_PATH`.
#[derive(Debug)]
pub(crate) struct Trail {
    /// Each link: its path, which is free of links itself, and its target.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// The end, free of links.
    pub(crate) end: PathBuf,
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
}

/// Follows the absolute `path`, link by link.
pub(crate) fn follow(path: &Path) -> Result<Trail, Errno> {
    let top = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut links = Vec::new();
    let mut way: Vec<(OsString, OwnedFd)> = Vec::new();
    let mut rest: VecDeque<OsString> = steps(path);
    while let Some(step) = rest.pop_front() {
        if step == ".." {
            way.pop();
            continue;
        }
        let here = way.last().map_or(&top, |(_, fd)| fd);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(here, step.as_os_str(), flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&fd)?.st_mode) != FileType::Symlink {
            way.push((step, fd));
            continue;
        }
        if links.len() == LINKS_MAX {
            return Err(Errno::LOOP);
        }
        let says = OsString::from_vec(readlinkat(&fd, "", Vec::new())?.into_bytes());
        links.push((named(&way).join(&step), PathBuf::from(&says)));
        if says.as_bytes().first() == Some(&b'/') {
            way.clear();
        }
        for step in steps(Path::new(&says)).into_iter().rev() {
            rest.push_front(step);
        }
    }
    let end = named(&way);
    let fd = way.pop().map_or(top, |(_, fd)| fd);
    Ok(Trail { links, end, stat: fstat(&fd)?, fd })
}

fn named(way: &[(OsString, OwnedFd)]) -> PathBuf {
    std::iter::once(OsStr::new("/")).chain(way.iter().map(|(name, _)| name.as_os_str())).collect()
}

fn steps(path: &Path) -> VecDeque<OsString> {
    let step = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::follow;
    use rustix::io::Errno;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    #[test]
    fn links_are_reported_with_their_paths() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().canonicalize().expect("real");
        std::fs::create_dir_all(top.join("a/b")).expect("made");
        std::fs::write(top.join("a/b/f"), "x").expect("written");
        symlink(top.join("a"), top.join("all")).expect("linked");
        symlink("../b/f", top.join("a/b/up")).expect("linked");
        symlink("loop", top.join("loop")).expect("linked");
        let check = |path: &str, end: &str, links: &[(&str, PathBuf)]| {
            let trail = follow(&top.join(path)).expect(path);
            assert_eq!(trail.end, top.join(end), "{path}");
            let expect: Vec<_> = links.iter().map(|(at, says)| (top.join(at), says.clone())).collect();
            assert_eq!(trail.links, expect, "{path}");
        };
        check("a/b/f", "a/b/f", &[]);
        check("all/b", "a/b", &[("all", top.join("a"))]);
        check("all/b/up", "a/b/f", &[("all", top.join("a")), ("a/b/up", "../b/f".into())]);
        check("a/../a/./b", "a/b", &[]);
        let fails = |path: &str, expect: Errno| {
            assert_eq!(follow(&top.join(path)).expect_err(path), expect, "{path}");
        };
        fails("loop", Errno::LOOP);
        fails("nope/x", Errno::NOENT);
        fails("a/b/f/x", Errno::NOTDIR);
    }
}
