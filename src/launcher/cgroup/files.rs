//! The kernel's files in a group's folder.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags, flock, mkdirat, openat};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Time to wait after a kill, and for one canary, in seconds.
const WAIT_S_MAX: i64 = 5;

/// Bytes read of one such file: numbers and names, and the processes of a group that has few.
const FILE_BYTES_MAX: usize = 4 << 10;

pub(super) fn wait(fd: &OwnedFd, flags: PollFlags) -> bool {
    let mut fds = [PollFd::new(fd, flags)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: WAIT_S_MAX, tv_nsec: 0 })), Ok(1))
}

/// Enables the controller for the groups below; returns whether that worked.
pub(super) fn hand_down(group: BorrowedFd<'_>, controller: &str) -> bool {
    write(group, "cgroup.subtree_control", &format!("+{controller}")).is_ok()
}

pub(super) fn make(at: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    mkdirat(at, name, Mode::RWXU)
}

/// Opens and locks a launcher's group.
pub(super) fn take(base: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = openat(base, name, flags, Mode::empty())?;
    flock(&own, FlockOperation::NonBlockingLockExclusive)?;
    // Fails if the group was removed meanwhile.
    read(own.as_fd(), "cgroup.procs").map(|_| own)
}

pub(super) fn wait_until_empty(group: BorrowedFd<'_>) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(events) = openat(group, "cgroup.events", flags, Mode::empty()) else { return };
    let is_empty = || {
        let mut bytes = [0_u8; 256];
        let read = rustix::io::pread(&events, &mut bytes, 0).unwrap_or(0);
        bytes.get(..read).unwrap_or_default().starts_with(b"populated 0")
    };
    // The kernel signals a change; one check may be too early, and each wait has its timeout.
    while !is_empty() && wait(&events, PollFlags::PRI) {}
}

/// The names of the groups in a group.
pub(super) fn names(group: BorrowedFd<'_>) -> Vec<String> {
    let Ok(folder) = Dir::read_from(group) else { return Vec::new() };
    let entries = folder.flatten().filter(|entry| entry.file_type() == FileType::Directory);
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    names.filter(|name| name != "." && name != "..").collect()
}

pub(super) fn read(group: BorrowedFd<'_>, file: &str) -> Result<String, Errno> {
    let fd = openat(group, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0_u8; FILE_BYTES_MAX];
    let read = rustix::io::read(&fd, &mut bytes)?;
    Ok(String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned())
}

pub(super) fn write(group: BorrowedFd<'_>, file: &str, value: &str) -> Result<(), Errno> {
    let fd = openat(group, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&fd, value.as_bytes()).map(drop)
}
