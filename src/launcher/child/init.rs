//! A program under its init: the child stays as the first process of its PID namespace, reaps, and
//! reports how the program ended. When it ends, the kernel ends everything else in the namespace.

use crate::call::End;
use crate::launcher::child::inherit::{self, ProgramInputs};
use crate::launcher::child::netns;
use crate::launcher::child::quota::{Quota, QuotaState};
use crate::launcher::child::start::{Inherited, Start, send, send_or_exit};
use crate::launcher::confine::forks::{self, ForkAction, Forks};
use crate::launcher::confine::layers;
use crate::launcher::confine::seccomp::compile::load;
use crate::launcher::protocol::{ChildMessage, send_with};
use crate::launcher::sys;
use crate::launcher::tool::{CHANGED, OpenProgram};
use crate::tools::{Modes, Program};
use crate::types::clock::mono_us;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::FdFlags;
use rustix::process::{Resource, WaitOptions, WaitStatus, wait};
use rustix::time::Timespec;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

const ENVIRONMENT: [&std::ffi::CStr; 2] = [c"PATH=/usr/bin", c"LANG=C.UTF-8"];

/// Starts the program and stays until it has ended. Confined by everything except the last filter,
/// which only the program gets: the init still has to report the program's end.
pub(crate) fn run(
    start: &Start<'_>,
    program: &Program,
    open: &OpenProgram,
    canonical: Option<&str>,
    inherited: Inherited<'_>,
    mut layers: Vec<String>,
) -> Result<std::convert::Infallible, String> {
    let tool = start.tool;
    if !tool.is_unchanged() {
        return Err(CHANGED.to_owned());
    }
    tool.check_trees()?;
    let given = ProgramInputs::gather(start, canonical, inherited.connected)?;
    let exec = given.above(&open.fd)?;
    let script = tool.script.as_ref().map(|fd| script_of(start, fd, &given)).transpose()?;
    let locks = inherited.locks.iter().map(|fd| given.above(fd)).collect::<Result<Vec<_>, _>>()?;
    let name = script_name(program, script.as_ref())?;
    let words = program.words(name, &tool.manifest.resource, start.arguments, canonical)?;
    let words = arguments(words)?;
    let proxy = netns::ENVIRONMENT.into_iter().filter(|_| tool.manifest.is_proxied());
    let environment = ENVIRONMENT.into_iter().chain(proxy).map(CString::from).chain(inherited.content);
    let environment: Vec<CString> = environment.chain(given.words.iter().cloned()).collect();
    let children = watch_children()?;
    let limits = &tool.manifest.limits;
    let mut quota = (!locks.is_empty()).then(|| Quota::begin(&locks, limits)).transpose()?;

    layers.extend(["seccomp", "init"].map(str::to_owned));
    layers.extend((tool.manifest.modes == Modes::Ignore).then(|| "modes ignored".to_owned()));
    layers.extend(quota.iter().map(|_| "quota".to_owned()));
    let confined = ChildMessage::Confined(layers);
    // Not for the program: a process that has a lock's descriptor can release the lock.
    locks.iter().try_for_each(|lock| lend(start, lock))?;
    let control = given.above(start.control)?;
    let memory = limits.memory_bytes_max;
    let mut before = || {
        SigSet::all().thread_unblock().map_err(|e| format!("signal mask: {e}"))?;
        forks::lower_priority(start.machine.program_nice)?;
        layers::limit(Resource::As, memory)?;
        // The script is opened by its number.
        if let Some(fd) = &script {
            rustix::io::fcntl_setfd(fd, FdFlags::empty()).map_err(|e| format!("descriptor: {e}"))?;
        }
        given.hand_over()?;
        load(&tool.filter)?;
        // The last message before the program runs: what it does at once may end this process.
        send(&control, &confined)
    };
    let pid =
        sys::spawn(&start.machine.one, rustix::fd::AsFd::as_fd(&exec), &words, &environment, &mut before)?;
    // The pipes belong to the program: they reach their end when it and everything it started have
    // ended.
    let mut keep =
        vec![start.control.as_raw_fd(), children.as_raw_fd(), start.machine.supplies.loadavg.as_raw_fd()];
    keep.extend(locks.iter().map(OwnedFd::as_raw_fd));
    sys::close_all_but(&keep).map_err(|e| format!("close_range: {e}"))?;
    let forks = start.machine.counts_forks.then(|| Forks::begin(&start.machine.supplies.loadavg));
    let mut end = wait_for(start, &children, pid.as_raw(), quota.as_mut(), forks);
    if let Some(quota) = &mut quota {
        end_others();
        if quota.check() != QuotaState::Within {
            end = End::Quota { unread_folders: quota.unread() };
        }
    }
    send_or_exit(start, &ChildMessage::Ended(end));
    // Exits instead of returning: owners of descriptors that were closed above are still alive in
    // the callers.
    sys::exit_now(0)
}

/// Opens the script for this call alone, under a number that nothing else gets.
fn script_of(start: &Start<'_>, memory: &OwnedFd, given: &ProgramInputs) -> Result<OwnedFd, String> {
    given.above(&inherit::own(start.machine, memory).map_err(|e| format!("script: {e}"))?)
}

/// Sends the launcher a copy of a lock's descriptor.
fn lend(start: &Start<'_>, lock: &OwnedFd) -> Result<(), String> {
    let word = serde_json::to_vec(&ChildMessage::Holds).map_err(|e| e.to_string())?;
    match send_with(start.control, &word, Some(lock.as_fd())) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the launcher did not take a lock".to_owned()),
        Err(e) => Err(format!("the launcher did not take a lock: {e}")),
    }
}

/// Blocks `SIGCHLD`, and reads it through a descriptor.
fn watch_children() -> Result<SignalFd, String> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None).map_err(|e| format!("signal mask: {e}"))?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|e| format!("signalfd: {e}"))
}

/// Kills and reaps every other process of the namespace, so that nothing more is added.
fn end_others() {
    signal_others(Signal::SIGKILL);
    while let Ok(Some(_)) = wait(WaitOptions::empty()) {}
}

fn signal_others(signal: Signal) {
    // INVARIANT: this is the first process of the namespace, which `child` has verified: all others
    // are this call's. ESRCH: no other process is left.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), signal);
}

/// Whether the call added more than it may, if a check is due. If its folders keep changing under
/// the check, the call is stopped and checked again, so that none of its processes runs meanwhile;
/// what cannot be counted then counts as too much.
fn is_over(quota: &mut Quota<'_>) -> bool {
    match quota.check_if_due() {
        QuotaState::Within => false,
        QuotaState::Over => true,
        QuotaState::Moving => {
            signal_others(Signal::SIGSTOP);
            let state = quota.check();
            signal_others(Signal::SIGCONT);
            state != QuotaState::Within
        }
    }
}

/// Reaps whatever ends, until the program ends or the call has added too much; pauses a call that
/// starts too many processes. Ends the namespace when the launcher is gone.
fn wait_for(
    start: &Start<'_>,
    children: &SignalFd,
    program: i32,
    mut quota: Option<&mut Quota<'_>>,
    mut forks: Option<Forks<'_>>,
) -> End {
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == program {
                return end_of(status);
            }
        }
        let mut fds = [PollFd::new(start.control, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        let next_us = quota.as_ref().map(|quota| quota.next_us()).into_iter();
        let next_us = next_us.chain(forks.as_ref().map(Forks::next_us)).min();
        let timeout = next_us.map(until);
        let _ = poll(&mut fds, timeout.as_ref());
        let [control, _] = &fds;
        if !control.revents().is_empty() {
            // The lifeline: after go the launcher sends nothing more, so this means that it is
            // gone.
            sys::exit_now(0);
        }
        let _ = children.read_signal();
        if let Some(over) = quota.as_deref_mut().and_then(|quota| is_over(quota).then_some(quota)) {
            return End::Quota { unread_folders: over.unread() };
        }
        match forks.as_mut().map_or(ForkAction::Keep, Forks::action) {
            ForkAction::Keep => {}
            ForkAction::Stop => signal_others(Signal::SIGSTOP),
            ForkAction::Resume => signal_others(Signal::SIGCONT),
        }
    }
}

/// The time from now until `at_us`.
fn until(at_us: u64) -> Timespec {
    let us = at_us.saturating_sub(mono_us());
    let seconds = i64::try_from(us / 1_000_000).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::try_from(us % 1_000_000 * 1_000).unwrap_or(0) }
}

fn end_of(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exit { code },
        (None, Some(signal)) => End::Signal { signal },
        (None, None) => End::Killed,
    }
}

/// The name by which an interpreter opens its script, on the descriptor that it inherits.
///
/// This needs no file: Landlock does not cover memory files, and `/proc/self` in the call's own
/// `/proc` leads each reader to its own descriptors. On standard input any program that the script
/// starts could read on in it; as the argument of `-c` it could not be longer than 128 KiB.
fn script_name(program: &Program, script: Option<&OwnedFd>) -> Result<Option<String>, String> {
    match (&program.script, script) {
        (None, _) => Ok(None),
        (Some(_), Some(fd)) => Ok(Some(format!("/proc/self/fd/{}", fd.as_raw_fd()))),
        (Some(_), None) => Err("the script was not opened".to_owned()),
    }
}

/// The argument array, for `exec`.
fn arguments(words: Vec<String>) -> Result<Vec<CString>, String> {
    words
        .into_iter()
        .map(|word| CString::new(word).map_err(|_| "an argument holds a NUL byte".to_owned()))
        .collect()
}
