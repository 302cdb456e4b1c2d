//! The group in which launchers' groups are made: found, divided, and cleared of what dead
//! launchers left.

use super::files::{hand_down, make, names, read, take, wait_until_empty, write};
use crate::launcher::view::mounts::unescape;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

const LAUNCHER: &str = "par-launcher-";

const ABOVE: &str = "par-above";

/// Names that are tried for a launcher's group: those of dead launchers were removed before.
const NAMES_MAX: u32 = 16;

/// The controllers that are available. Each is a layer of every call; the report says what a
/// missing one means.
#[derive(Clone, Debug, Default)]
pub(super) struct Controllers {
    pub(super) memory: bool,
    pub(super) pids: bool,
    pub(super) cpu: bool,
    /// Why none was enabled although some are available.
    pub(super) refused: Option<String>,
}

/// The group in which launchers' groups are made.
pub(super) struct Base {
    pub(super) fd: OwnedFd,
}

/// Found through this process's own entry and the mount of the hierarchy, wherever it is mounted.
pub(super) fn base() -> Result<Base, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("`{path}`: {e}"));
    let own = read("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("version 2 is not mounted")?;
    let mut path = read("/proc/self/mountinfo")?
        .lines()
        .find_map(|line| place(line, own))
        .ok_or("its own group is not visible")?;
    if path.file_name().is_some_and(|name| name == ABOVE) {
        path.pop();
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, &path, flags, Mode::empty()).map_err(|e| format!("`{}`: {e}", path.display()))?;
    Ok(Base { fd })
}

/// Where a line of the mount table (proc_pid_mountinfo(5)) shows the group `own`.
fn place(line: &str, own: &str) -> Option<PathBuf> {
    let (front, back) = line.split_once(" - ")?;
    let mut words = front.split(' ').skip(3);
    let (root, point) = (unescape(words.next()?), unescape(words.next()?));
    if back.split(' ').next()? != "cgroup2" || own.contains("/..") {
        return None;
    }
    Some(Path::new(&point).join(Path::new(own).strip_prefix(&root).ok()?))
}

impl Base {
    /// Enables the available controllers for the groups below, as far as this process may.
    pub(super) fn hand_down(&self) -> Controllers {
        let fd = self.fd.as_fd();
        let there = read(fd, "cgroup.controllers").unwrap_or_default();
        let wanted = ["memory", "pids", "cpu"].map(|name| there.split_whitespace().any(|one| one == name));
        if wanted == [false; 3] {
            return Controllers::default();
        }
        if let Err(e) = self.vacate() {
            return Controllers { refused: Some(e), ..Controllers::default() };
        }
        let [memory, pids, cpu] = wanted;
        Controllers {
            memory: memory && hand_down(fd, "memory"),
            pids: pids && hand_down(fd, "pids"),
            cpu: cpu && hand_down(fd, "cpu"),
            refused: None,
        }
    }

    /// A group that divides its resources has no processes of its own, unless it is the root group,
    /// which has no `cgroup.type`. The process above this one moves into a sibling group; any other
    /// process is unknown, and an error.
    fn vacate(&self) -> Result<(), String> {
        let fd = self.fd.as_fd();
        let at = |e: Errno| format!("cannot enable controllers: {e}");
        if read(fd, "cgroup.type").is_err() {
            return Ok(());
        }
        let above = getppid().map_or(0, Pid::as_raw_pid).to_string();
        let inside = read(fd, "cgroup.procs").map_err(at)?;
        if inside.is_empty() {
            return Ok(());
        }
        if inside.lines().any(|pid| pid != above) {
            return Err("cannot enable controllers: other processes are in the group that the launcher was \
                        started in"
                .to_owned());
        }
        make(fd, ABOVE).or_else(|e| if e == Errno::EXIST { Ok(()) } else { Err(at(e)) })?;
        write(fd, &format!("{ABOVE}/cgroup.procs"), &above).map_err(at)
    }
}

/// A launcher's own group, locked.
pub(super) fn make_own(base: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    let pid = rustix::process::getpid().as_raw_pid();
    for at in 0..NAMES_MAX {
        let name = if at == 0 { format!("{LAUNCHER}{pid}") } else { format!("{LAUNCHER}{pid}-{at}") };
        match make(base, &name) {
            Ok(()) => {}
            Err(Errno::EXIST) => continue,
            Err(e) => return Err(format!("it may not divide its group: {e}")),
        }
        // A group that another launcher took for a leftover meanwhile is gone, or about to go.
        if let Ok(own) = take(base, &name) {
            return Ok(own);
        }
    }
    Err("every name for the launcher's group is taken".to_owned())
}

/// Removes the groups of launchers that are gone, with what is left in them.
pub(super) fn clear_leftovers(base: BorrowedFd<'_>) {
    for name in names(base) {
        if !name.starts_with(LAUNCHER) {
            continue;
        }
        let Ok(left) = take(base, &name) else { continue };
        // What cannot be killed or removed belongs to another user, or is left for the next start.
        if write(left.as_fd(), "cgroup.kill", "1").is_ok() {
            wait_until_empty(left.as_fd());
        }
        for inner in names(left.as_fd()) {
            let _ = unlinkat(&left, inner, AtFlags::REMOVEDIR);
        }
        let _ = unlinkat(base, &name, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use super::place;
    use std::path::PathBuf;

    #[test]
    fn groups_are_found_where_their_hierarchy_is_mounted() {
        let unified = "39 31 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let part = "39 31 0:36 /a /mnt/c\\040d rw shared:3 - cgroup2 cgroup2 rw,nsdelegate";
        for (line, own, expect) in [
            (unified, "/", Some("/sys/fs/cgroup/unified")),
            (unified, "/a/b.service", Some("/sys/fs/cgroup/unified/a/b.service")),
            (unified, "/../b", None),
            (part, "/a/b", Some("/mnt/c d/b")),
            (part, "/ab", None),
            ("35 31 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", "/", None),
        ] {
            assert_eq!(place(line, own), expect.map(PathBuf::from), "{line} {own}");
        }
    }
}
