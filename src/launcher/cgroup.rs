//! Groups of processes (cgroups(7), version 2): one for each call, where this process's own group is its to divide.
//!
//! ```text
//! the group it starts in, which is delegated
//! ├── par-above            the processes above the launcher, where one of them has to leave the way
//! └── par-launcher-<pid>   held by a lock for as long as that launcher lives
//!     ├── main             the launcher itself: a group with controllers has no processes of its own
//!     └── 0, 1, …          one call each
//! ```
//!
//! A group adds up what the processes of a call use, and kills them all at once. What is there is an extra: each call has
//! its other bounds anyway. A group that nothing happened to is used again by a call with the same bounds; one that
//! was killed is removed, since Linux 6.18 kills whoever starts in it, and so is one that ran out of memory.

use crate::launcher::confine::protection::Protection;
use crate::launcher::sys;
use crate::launcher::view::mounts::unescape;
use nix::sched::CloneFlags;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, mkdirat, openat, unlinkat,
};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getppid, pidfd_send_signal, waitid};
use rustix::time::Timespec;
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

const LAUNCHER: &str = "par-launcher-";
const ABOVE: &str = "par-above";
const MAIN: &str = "main";
/// Names that are tried for a launcher's group: those of dead ones were removed before.
const NAMES_MAX: u32 = 16;
/// Groups that wait to be used again.
const FREE_MAX: usize = 64;
/// From a kill to the end, and for one canary, in seconds.
const WAIT_S_MAX: i64 = 5;
/// Memory of a call beside its tool's: its init, the kernel's own for its processes.
const OWN_BYTES: u64 = 16 << 20;
/// What a canary of memory takes.
const CANARY_BYTES: usize = 8 << 20;
/// The launcher's share of the processor beside calls, of which each has 100.
const MAIN_WEIGHT: &str = "1000";
/// One file of the kernel's here, in bytes: numbers and words, and the processes of a group that has few.
const FILE_BYTES_MAX: usize = 4 << 10;

/// What it means that there are none.
pub(crate) const NO_GROUPS: &str =
    "what the processes of a call use is bounded for each of them, and not added up";

/// What a group of a call bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of all its processes together.
    pub(crate) memory_bytes_max: u64,
    pub(crate) processes_max: u64,
}

/// What was found to be there. Each is a layer of every call, and each that is not says what that means.
#[derive(Clone, Debug, Default)]
struct Controllers {
    memory: bool,
    pids: bool,
    cpu: bool,
    /// Why none was handed down, where some are there.
    refused: Option<String>,
}

/// The launcher's groups.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The folder of this launcher's own; its lock says that somebody uses it.
    own: OwnedFd,
    controllers: Controllers,
    /// The next group's name.
    next: u32,
    used: BTreeMap<u64, Group>,
    free: Vec<Group>,
    /// Killed, and not gone yet.
    leaving: Vec<u32>,
    /// Why there are none for calls. The launcher's own is held all the same, or the next start would clear it away.
    refused: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    name: u32,
    bounds: Bounds,
}

impl Groups {
    /// Makes a group below the one that this process is in, and enters it: before there are namespaces, so that it
    /// becomes the root of the cgroup namespace. Groups of launchers that are dead are removed. A reason is a
    /// machine, or a place on it, where groups are not this process's to make.
    pub(crate) fn begin() -> Result<Self, String> {
        let base = base()?;
        clear_leftovers(base.fd.as_fd());
        let own = make_own(base.fd.as_fd())?;
        // Left for the next start to remove, where it cannot be entered.
        write(own.as_fd(), "cgroup.procs", "0").map_err(|e| format!("its own group: {e}"))?;
        let mut groups = Self {
            own,
            controllers: Controllers::default(),
            next: 0,
            used: BTreeMap::new(),
            free: Vec::new(),
            leaving: Vec::new(),
            refused: None,
        };
        groups.controllers = base.hand_down();
        Ok(groups)
    }

    /// Leaves the launcher's own group for one in it, so that it can be divided. Once, behind the cgroup namespace.
    pub(crate) fn settle(&mut self) {
        self.refused = self.move_in().err();
    }

    fn move_in(&mut self) -> Result<(), String> {
        let at = |e: Errno| format!("the launcher's group: {e}");
        let kill = openat(&self.own, "cgroup.kill", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        kill.map_err(|e| format!("cgroup.kill: {e}"))?;
        make(self.own.as_fd(), MAIN).map_err(at)?;
        write(self.own.as_fd(), &format!("{MAIN}/cgroup.procs"), "0").map_err(at)?;
        let Controllers { memory, pids, cpu, refused: _ } = &mut self.controllers;
        for (there, name) in [(memory, "memory"), (pids, "pids"), (cpu, "cpu")] {
            *there = *there && hand_down(self.own.as_fd(), name);
        }
        if self.controllers.cpu {
            write(self.own.as_fd(), &format!("{MAIN}/cpu.weight"), MAIN_WEIGHT).map_err(at)?;
        }
        Ok(())
    }

    /// The layers that a call has by its group.
    pub(crate) fn layers(&self) -> Vec<String> {
        let Controllers { memory, pids, cpu, .. } = self.controllers;
        if self.refused.is_some() {
            return Vec::new();
        }
        let all =
            [(true, "cgroup kill"), (memory, "cgroup memory"), (pids, "cgroup pids"), (cpu, "cgroup cpu")];
        all.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.to_owned()).collect()
    }

    /// What is not there, and what that means.
    pub(crate) fn missing(&self) -> Vec<String> {
        if let Some(reason) = &self.refused {
            return vec![format!("{reason}: {NO_GROUPS}")];
        }
        let Controllers { memory, pids, cpu, .. } = self.controllers;
        let all = [
            (
                memory,
                "memory: the memory of a call is bounded for each of its processes, not for all together",
            ),
            (pids, "pids: processes are bounded by rlimits alone"),
            (cpu, "cpu: calls and launcher share the processor as it comes"),
        ];
        let lacking = all.into_iter().filter(|(there, _)| !there).map(|(_, what)| what.to_owned());
        self.controllers.refused.iter().cloned().chain(lacking).collect()
    }

    /// What a group keeps a call from.
    pub(crate) fn protections(&self) -> Vec<Protection> {
        let Controllers { memory, pids, .. } = self.controllers;
        let all = [(true, Protection::Death), (memory || pids, Protection::Resources)];
        let held = all.into_iter().filter(|(there, _)| *there && self.refused.is_none());
        held.map(|(_, protection)| protection).collect()
    }

    /// The group of the call `id`, to start its child in; `None` where there are none for calls.
    pub(crate) fn for_call(&mut self, id: u64, bounds: Bounds) -> Result<Option<OwnedFd>, String> {
        if self.refused.is_some() { Ok(None) } else { self.open(id, bounds).map(Some) }
    }

    fn open(&mut self, id: u64, bounds: Bounds) -> Result<OwnedFd, String> {
        self.remove_leaving();
        let group = match self.free.iter().position(|group| group.bounds == bounds) {
            Some(at) => self.free.swap_remove(at),
            None => self.make(bounds).map_err(|e| format!("cgroup: {e}"))?,
        };
        // From here on it is closed with its call, whether there is one or not.
        self.used.insert(id, group);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(&self.own, group.name.to_string(), flags, Mode::empty());
        fd.map_err(|e| format!("cgroup: {e}"))
    }

    /// What a spare had is its call's from now on.
    pub(crate) fn hand_over(&mut self, spare: u64, call: u64) {
        if let Some(group) = self.used.remove(&spare) {
            self.used.insert(call, group);
        }
    }

    /// Whether the call ran out of its group's memory.
    pub(crate) fn ran_out(&self, id: u64) -> bool {
        self.used.get(&id).is_some_and(|group| self.kills(*group))
    }

    /// The call is over. What is left of it is killed; a group that nothing happened to waits for the next call.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(group) = self.used.remove(&id) else { return };
        let is_empty = self.count(group.name, "cgroup.events", "populated") == Some(0);
        if is_empty && !self.kills(group) && self.free.len() < FREE_MAX {
            self.free.push(group);
            return;
        }
        if !is_empty && let Err(e) = write(self.own.as_fd(), &format!("{}/cgroup.kill", group.name), "1") {
            eprintln!("par launcher: a group cannot be killed: {e}");
        }
        self.leaving.push(group.name);
        self.remove_leaving();
    }

    fn make(&mut self, bounds: Bounds) -> Result<Group, Errno> {
        let name = self.next;
        self.next += 1;
        make(self.own.as_fd(), &name.to_string())?;
        let group = Group { name, bounds };
        let set = |file: &str, value: &str| write(self.own.as_fd(), &format!("{name}/{file}"), value);
        if self.controllers.memory {
            set("memory.max", &bounds.memory_bytes_max.saturating_add(OWN_BYTES).to_string())?;
            set("memory.oom.group", "1")?;
            match set("memory.swap.max", "0") {
                // A kernel without swap, or that does not count it.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
        }
        if self.controllers.pids {
            set("pids.max", &bounds.processes_max.to_string())?;
        }
        Ok(group)
    }

    fn kills(&self, group: Group) -> bool {
        self.controllers.memory && self.count(group.name, "memory.events", "oom_kill") != Some(0)
    }

    /// The number behind `word` in a group's file.
    fn count(&self, group: u32, file: &str, word: &str) -> Option<u64> {
        let text = read(self.own.as_fd(), &format!("{group}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line?.trim().parse().ok()
    }

    fn remove_leaving(&mut self) {
        let own = self.own.as_fd();
        // One with a process that is still dying is busy: it is tried again with the next call.
        self.leaving.retain(|name| unlinkat(own, name.to_string(), AtFlags::REMOVEDIR).is_err());
    }

    /// Tries what is there, by canaries, in the process that is to start calls. What does not hold is not counted;
    /// where nobody can be started in a group, or killed by one, there are none for calls.
    pub(crate) fn prove(&mut self) {
        if self.refused.is_none() {
            self.refused = self.try_all().err();
        }
    }

    fn try_all(&mut self) -> Result<(), String> {
        let ample = Bounds { memory_bytes_max: 1 << 30, processes_max: 64 };
        if !self.ends_all(ample)? {
            return Err("cgroup.kill: a process outlived its group".to_owned());
        }
        let one = Bounds { processes_max: 1, ..ample };
        self.controllers.pids &= self.starts_another(ample) && !self.starts_another(one);
        self.controllers.memory &= self.counts_memory(ample);
        Ok(())
    }

    /// Two that go on for ever end with their group.
    fn ends_all(&mut self, bounds: Bounds) -> Result<bool, String> {
        let group = self.open(CANARY, bounds)?;
        let children = [start(&group, forever)?, start(&group, forever)?];
        self.close(CANARY);
        Ok(children.iter().all(|child| end(child).is_some()))
    }

    /// Whether one in such a group may start another.
    fn starts_another(&mut self, bounds: Bounds) -> bool {
        let act = || match sys::clone_call(CloneFlags::empty()) {
            Ok(None) => 0,
            // Nobody else would reap it: the launcher is its PID namespace's first process.
            Ok(Some(child)) => u8::from(end(&child).is_some()),
            Err(_) => 0,
        };
        let child = self.open(CANARY, bounds).and_then(|group| start(&group, act));
        let code = child.ok().and_then(|child| end(&child));
        self.close(CANARY);
        code == Some(1)
    }

    /// Whether what is taken in a group is seen in it, and its bound is as it was set. It is not run out of: the
    /// kernel would write a page to its log at each start.
    fn counts_memory(&mut self, bounds: Bounds) -> bool {
        let Ok((told, tell)) = pipe_with(PipeFlags::CLOEXEC) else { return false };
        let act = || {
            let taken = vec![1_u8; CANARY_BYTES];
            // Not reckoned out: the pages are there.
            let _told = rustix::io::write(&tell, std::hint::black_box(&taken).get(..1).unwrap_or_default());
            forever()
        };
        let Ok(child) = self.open(CANARY, bounds).and_then(|group| start(&group, act)) else {
            self.close(CANARY);
            return false;
        };
        let took = wait(&told, PollFlags::IN);
        let number = |file: &str| -> Option<u64> {
            let name = self.used.get(&CANARY)?.name;
            read(self.own.as_fd(), &format!("{name}/{file}")).ok()?.trim().parse().ok()
        };
        let counted = number("memory.current").is_some_and(|bytes| bytes >= CANARY_BYTES as u64);
        let bound = number("memory.max").is_some_and(|bytes| bytes >= bounds.memory_bytes_max);
        self.close(CANARY);
        let ended = end(&child).is_some();
        took && counted && bound && ended
    }
}

/// The call number of canaries, before there are calls.
const CANARY: u64 = u64::MAX;

/// Starts a canary in `group`.
fn start(group: &OwnedFd, act: impl FnOnce() -> u8) -> Result<OwnedFd, String> {
    match sys::clone_into(CloneFlags::empty(), group.as_fd()) {
        Ok(Some(child)) => Ok(child),
        Ok(None) => sys::exit_now(act()),
        Err(e) => Err(format!("starting in a group: {e}")),
    }
}

fn forever() -> u8 {
    loop {
        let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 60, tv_nsec: 0 });
    }
}

/// The exit code of a canary, or that of no exit, once it has ended; `None` where it does not in time.
fn end(child: &OwnedFd) -> Option<u8> {
    if !wait(child, PollFlags::IN) {
        let _ = pidfd_send_signal(child, Signal::KILL);
        return None;
    }
    let end = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).ok()??;
    Some(end.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn wait(fd: &OwnedFd, flags: PollFlags) -> bool {
    let mut fds = [PollFd::new(fd, flags)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: WAIT_S_MAX, tv_nsec: 0 })), Ok(1))
}

/// The group that launchers' groups are made in.
struct Base {
    fd: OwnedFd,
}

/// By this process's own entry and the mount of the hierarchy, wherever that is.
fn base() -> Result<Base, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("`{path}`: {e}"));
    let own = read("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("version 2 is not mounted")?;
    let mut path = read("/proc/self/mountinfo")?
        .lines()
        .find_map(|line| place(line, own))
        .ok_or("its own group is not in sight")?;
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
    /// Makes the controllers that are here known below, as far as they are wanted and it is for this process to do.
    fn hand_down(&self) -> Controllers {
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

    /// A group that divides what it has has no processes of its own, unless it is the one above all, which has no
    /// type. The process above this one goes into a group beside; of others, nobody knows what they are.
    fn vacate(&self) -> Result<(), String> {
        let fd = self.fd.as_fd();
        let at = |e: Errno| format!("controllers are not handed down: {e}");
        if read(fd, "cgroup.type").is_err() {
            return Ok(());
        }
        let above = getppid().map_or(0, Pid::as_raw_pid).to_string();
        let inside = read(fd, "cgroup.procs").map_err(at)?;
        if inside.is_empty() {
            return Ok(());
        }
        if inside.lines().any(|pid| pid != above) {
            return Err("controllers are not handed down: other processes are in the group that this was \
                        started in"
                .to_owned());
        }
        make(fd, ABOVE).or_else(|e| if e == Errno::EXIST { Ok(()) } else { Err(at(e)) })?;
        write(fd, &format!("{ABOVE}/cgroup.procs"), &above).map_err(at)
    }
}

/// Whether the controller can be used below.
fn hand_down(group: BorrowedFd<'_>, controller: &str) -> bool {
    write(group, "cgroup.subtree_control", &format!("+{controller}")).is_ok()
}

/// A launcher's own group, locked.
fn make_own(base: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    let pid = rustix::process::getpid().as_raw_pid();
    for at in 0..NAMES_MAX {
        let name = if at == 0 { format!("{LAUNCHER}{pid}") } else { format!("{LAUNCHER}{pid}-{at}") };
        match make(base, &name) {
            Ok(()) => {}
            Err(Errno::EXIST) => continue,
            Err(e) => return Err(format!("its group is not its own to divide: {e}")),
        }
        // One that was taken for a dead launcher's in between is gone, or about to go.
        if let Ok(own) = take(base, &name) {
            return Ok(own);
        }
    }
    Err("no name for the launcher's group is free".to_owned())
}

fn make(at: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    mkdirat(at, name, Mode::RWXU)
}

/// Opens and locks a launcher's group.
fn take(base: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = openat(base, name, flags, Mode::empty())?;
    flock(&own, FlockOperation::NonBlockingLockExclusive)?;
    // Whether it is still there.
    read(own.as_fd(), "cgroup.procs").map(|_| own)
}

/// Removes the groups of launchers that nobody holds any more, with what is left in them.
fn clear_leftovers(base: BorrowedFd<'_>) {
    for name in names(base) {
        if !name.starts_with(LAUNCHER) {
            continue;
        }
        let Ok(left) = take(base, &name) else { continue };
        // What cannot be killed or removed is somebody else's, or for the next start.
        if write(left.as_fd(), "cgroup.kill", "1").is_ok() {
            wait_until_empty(left.as_fd());
        }
        for inner in names(left.as_fd()) {
            let _ = unlinkat(&left, inner, AtFlags::REMOVEDIR);
        }
        let _ = unlinkat(base, &name, AtFlags::REMOVEDIR);
    }
}

fn wait_until_empty(group: BorrowedFd<'_>) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(events) = openat(group, "cgroup.events", flags, Mode::empty()) else { return };
    let is_empty = || {
        let mut bytes = [0_u8; 256];
        let read = rustix::io::pread(&events, &mut bytes, 0).unwrap_or(0);
        bytes.get(..read).unwrap_or_default().starts_with(b"populated 0")
    };
    // The kernel tells of a change; one look may be too early, and each wait has its end.
    while !is_empty() && wait(&events, PollFlags::PRI) {}
}

/// The groups in a group.
fn names(group: BorrowedFd<'_>) -> Vec<String> {
    let Ok(folder) = Dir::read_from(group) else { return Vec::new() };
    let entries = folder.flatten().filter(|entry| entry.file_type() == FileType::Directory);
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    names.filter(|name| name != "." && name != "..").collect()
}

fn read(group: BorrowedFd<'_>, file: &str) -> Result<String, Errno> {
    let fd = openat(group, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0_u8; FILE_BYTES_MAX];
    let read = rustix::io::read(&fd, &mut bytes)?;
    Ok(String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned())
}

fn write(group: BorrowedFd<'_>, file: &str, value: &str) -> Result<(), Errno> {
    let fd = openat(group, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&fd, value.as_bytes()).map(drop)
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
