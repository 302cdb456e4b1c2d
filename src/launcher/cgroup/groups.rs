//! The launcher's own group, and the groups of its calls.

use super::base::{Controllers, base, clear_leftovers, make_own};
use super::files::{hand_down, make, read, wait, write};
use crate::launcher::confine::protection::Protection;
use crate::launcher::sys::{self, SingleThread};
use nix::sched::CloneFlags;
use rustix::event::PollFlags;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::time::Timespec;
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};

const MAIN: &str = "main";

/// Idle groups that are kept for the next calls.
const FREE_MAX: usize = 64;

/// Memory of a call in addition to its tool's: its init, and what the kernel uses for its
/// processes. In bytes.
const OWN_BYTES: u64 = 16 << 20;
/// What the memory canary allocates, in bytes.
const CANARY_BYTES: usize = 8 << 20;
/// The launcher's cpu weight relative to calls, each of which has 100.
const MAIN_WEIGHT: &str = "1000";

/// The consequence of having no groups.
pub(crate) const NO_GROUPS: &str =
    "what the processes of a call use is bounded for each of them, and not added up";

/// The bounds of a call's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    /// For all its processes together.
    pub(crate) memory_bytes_max: u64,
    pub(crate) processes_max: u64,
}

/// The launcher's groups.
#[derive(Debug)]
pub(crate) struct CallGroups {
    /// The folder of this launcher's group; its lock says that the group is in use.
    own: OwnedFd,
    controllers: Controllers,
    /// The next group's name.
    next: u32,
    used: BTreeMap<u64, Group>,
    free: Vec<Group>,
    /// Killed, but not removed yet.
    leaving: Vec<u32>,
    /// Why calls have no groups. The launcher's own group is held all the same, or the next start
    /// would clear it away.
    refused: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    name: u32,
    bounds: GroupLimits,
}

impl CallGroups {
    /// Makes a group below the one that this process is in, and enters it. This comes before the
    /// namespaces, so that the group becomes the root of the cgroup namespace. Groups of dead
    /// launchers are removed.
    ///
    /// An error is the reason why this process cannot make groups on this machine, or where it
    /// runs.
    pub(crate) fn begin() -> Result<Self, String> {
        let base = base()?;
        clear_leftovers(base.fd.as_fd());
        let own = make_own(base.fd.as_fd())?;
        // If it cannot be entered, it is left for the next start to remove.
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

    /// Moves this process from the launcher's own group into a group below it, so that the
    /// launcher's group can be divided. Called once, after the cgroup namespace was entered.
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

    /// The layers that a group adds to a call.
    pub(crate) fn layers(&self) -> Vec<String> {
        let Controllers { memory, pids, cpu, .. } = self.controllers;
        if self.refused.is_some() {
            return Vec::new();
        }
        let all =
            [(true, "cgroup kill"), (memory, "cgroup memory"), (pids, "cgroup pids"), (cpu, "cgroup cpu")];
        all.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.to_owned()).collect()
    }

    /// What is missing, and what that means.
    pub(crate) fn missing(&self) -> Vec<String> {
        if let Some(reason) = &self.refused {
            return vec![format!("{reason}: {NO_GROUPS}")];
        }
        let Controllers { memory, pids, cpu, .. } = self.controllers;
        let all = [
            (memory, "memory: memory is limited for each process of a call, not for the call as a whole"),
            (pids, "pids: the number of processes is limited by rlimits alone"),
            (cpu, "cpu: calls and the launcher compete for the processor with equal priority"),
        ];
        let missing = all.into_iter().filter(|(there, _)| !there).map(|(_, what)| what.to_owned());
        self.controllers.refused.iter().cloned().chain(missing).collect()
    }

    /// The protections that a group provides.
    pub(crate) fn protections(&self) -> Vec<Protection> {
        let Controllers { memory, pids, .. } = self.controllers;
        let all = [(true, Protection::Death), (memory || pids, Protection::Resources)];
        let held = all.into_iter().filter(|(there, _)| *there && self.refused.is_none());
        held.map(|(_, protection)| protection).collect()
    }

    /// The group of the call `id`, in which its child starts; `None` if calls have no groups.
    pub(crate) fn for_call(&mut self, id: u64, bounds: GroupLimits) -> Result<Option<OwnedFd>, String> {
        if self.refused.is_some() { Ok(None) } else { self.open(id, bounds).map(Some) }
    }

    fn open(&mut self, id: u64, bounds: GroupLimits) -> Result<OwnedFd, String> {
        self.remove_leaving();
        let group = match self.free.iter().position(|group| group.bounds == bounds) {
            Some(at) => self.free.swap_remove(at),
            None => self.make(bounds).map_err(|e| format!("cgroup: {e}"))?,
        };
        // From here on it is closed with its call, whether the call starts or not.
        self.used.insert(id, group);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(&self.own, group.name.to_string(), flags, Mode::empty());
        fd.map_err(|e| format!("cgroup: {e}"))
    }

    /// Whether the call ran out of its group's memory.
    pub(crate) fn ran_out(&self, id: u64) -> bool {
        self.used.get(&id).is_some_and(|group| self.kills(*group))
    }

    /// Ends the use of the call's group. What is left in it is killed; a group in which nothing was
    /// killed waits for the next call.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(group) = self.used.remove(&id) else { return };
        let is_empty = self.count(group.name, "cgroup.events", "populated") == Some(0);
        if is_empty && !self.kills(group) && self.free.len() < FREE_MAX {
            self.free.push(group);
            return;
        }
        if !is_empty && let Err(e) = write(self.own.as_fd(), &format!("{}/cgroup.kill", group.name), "1") {
            eprintln!("par launcher: cannot kill a group: {e}");
        }
        self.leaving.push(group.name);
        self.remove_leaving();
    }

    fn make(&mut self, bounds: GroupLimits) -> Result<Group, Errno> {
        let name = self.next;
        self.next += 1;
        make(self.own.as_fd(), &name.to_string())?;
        let group = Group { name, bounds };
        let set = |file: &str, value: &str| write(self.own.as_fd(), &format!("{name}/{file}"), value);
        if self.controllers.memory {
            set("memory.max", &bounds.memory_bytes_max.saturating_add(OWN_BYTES).to_string())?;
            set("memory.oom.group", "1")?;
            match set("memory.swap.max", "0") {
                // The kernel has no swap, or does not account for it.
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

    /// The number that follows `word` in a file of a group.
    fn count(&self, group: u32, file: &str, word: &str) -> Option<u64> {
        let text = read(self.own.as_fd(), &format!("{group}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line?.trim().parse().ok()
    }

    fn remove_leaving(&mut self) {
        let own = self.own.as_fd();
        // A group with a process that is still dying is busy: it is tried again with the next call.
        self.leaving.retain(|name| unlinkat(own, name.to_string(), AtFlags::REMOVEDIR).is_err());
    }

    /// Tries the controllers with canaries, in the process that will start calls. A controller that
    /// does not hold is not counted; if no process can be started in a group, or killed with it,
    /// calls have no groups.
    pub(crate) fn prove(&mut self, one: &SingleThread) {
        if self.refused.is_none() {
            self.refused = self.try_all(one).err();
        }
    }

    fn try_all(&mut self, thread: &SingleThread) -> Result<(), String> {
        let ample = GroupLimits { memory_bytes_max: 1 << 30, processes_max: 64 };
        if !self.ends_all(thread, ample)? {
            return Err("cgroup.kill: a process outlived its group".to_owned());
        }
        let one = GroupLimits { processes_max: 1, ..ample };
        self.controllers.pids &= self.starts_another(thread, ample) && !self.starts_another(thread, one);
        self.controllers.memory &= self.counts_memory(thread, ample);
        Ok(())
    }

    /// Whether two processes that never return end with their group.
    fn ends_all(&mut self, one: &SingleThread, bounds: GroupLimits) -> Result<bool, String> {
        let group = self.open(CANARY, bounds)?;
        let children = [start(one, &group, forever)?, start(one, &group, forever)?];
        self.close(CANARY);
        Ok(children.iter().all(|child| end(child).is_some()))
    }

    /// Whether a process in such a group may start another.
    fn starts_another(&mut self, one: &SingleThread, bounds: GroupLimits) -> bool {
        let act = || match sys::clone_call(one, CloneFlags::empty()) {
            Ok(None) => 0,
            // No other process would reap it: the launcher is its PID namespace's first process.
            Ok(Some(child)) => u8::from(end(&child).is_some()),
            Err(_) => 0,
        };
        let child = self.open(CANARY, bounds).and_then(|group| start(one, &group, act));
        let code = child.ok().and_then(|child| end(&child));
        self.close(CANARY);
        code == Some(1)
    }

    /// Whether memory that is allocated in a group is counted there, and the limit is as it was
    /// set. The limit is not exceeded: the kernel would write a page to its log at each start.
    fn counts_memory(&mut self, one: &SingleThread, bounds: GroupLimits) -> bool {
        let Ok((ready, signal)) = pipe_with(PipeFlags::CLOEXEC) else { return false };
        let act = || {
            let taken = vec![1_u8; CANARY_BYTES];
            // `black_box` keeps the pages from being optimized away.
            let _written =
                rustix::io::write(&signal, std::hint::black_box(&taken).get(..1).unwrap_or_default());
            forever()
        };
        let Ok(child) = self.open(CANARY, bounds).and_then(|group| start(one, &group, act)) else {
            self.close(CANARY);
            return false;
        };
        let took = wait(&ready, PollFlags::IN);
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

/// The call id of canaries, used before there are calls.
const CANARY: u64 = u64::MAX;

/// Starts a canary in `group`.
fn start(one: &SingleThread, group: &OwnedFd, act: impl FnOnce() -> u8) -> Result<OwnedFd, String> {
    match sys::clone_into(one, CloneFlags::empty(), group.as_fd()) {
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

/// The exit code of a canary once it has ended, or 255 if it did not exit; `None` if it does not
/// end in time.
fn end(child: &OwnedFd) -> Option<u8> {
    if !wait(child, PollFlags::IN) {
        let _ = pidfd_send_signal(child, Signal::KILL);
        return None;
    }
    let end = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).ok()??;
    Some(end.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
