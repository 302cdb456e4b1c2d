//! The first stage: enters the namespaces, forks the launcher proper, and only waits for it.
//!
//! It is forked by a supervisor, or a service manager starts it for one connection of the front ([`attend`]).

use super::child::trust;
use super::host::ground::Ground;
use super::host::machine::Machine;
use super::journal::Journal;
use super::protocol::{self, Reply};
use super::secrets::Vault;
use super::serve::EventLoop;
use super::spec::{Spec, StartError};
use super::sys::{self, SingleThread};
use super::uids::Slots;
use super::view::namespaces::{self, FirstStage};
use crate::tools::{Builtin, Catalog, Manifest, Runner};
use crate::types::limits::LAUNCHER_LEAVE_MS_MAX;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{SocketType, sockopt};
use rustix::process::{
    Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, setsid, waitid,
};
use rustix::time::Timespec;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;

/// The first stage: enters the namespaces, forks the launcher proper, and only waits for it. Called in
/// a fresh process that is this stage alone; the result is its exit code.
pub(crate) fn run(spec: &Spec, front: OwnedFd, one: SingleThread) -> u8 {
    match start(spec, &front, &one) {
        Ok(()) => 0,
        Err(reason) => {
            // The front may be gone already; then nobody asks.
            send_blocking(&front, &Reply::Hello(Err(reason))).ok();
            1
        }
    }
}

/// Serves the connection that a service manager accepted as descriptor `fd`, in this process, until the
/// front is gone. The result is the exit code.
///
/// The caller has one thread, which is counted, and never uses the descriptor itself. A peer that does not run as
/// `front_uid` is refused: the socket's mode lets nobody else connect, and this holds where it was set
/// wrong.
pub fn attend(spec: &Spec, fd: RawFd, front_uid: u32) -> Result<u8, StartError> {
    let refuse = |e: &dyn std::fmt::Display| StartError::new("connection", e);
    // 0 to 2 are the standard streams, which the first stage closes and takes.
    if fd <= 2 {
        return Err(refuse(&format!("descriptor {fd} is a standard stream")));
    }
    let socket = sys::adopt(fd).map_err(|e| refuse(&e))?;
    let kind = sockopt::socket_type(&socket).map_err(|e| refuse(&e))?;
    if kind != SocketType::SEQPACKET {
        return Err(refuse(&"the socket is not of type SOCK_SEQPACKET"));
    }
    let peer = sockopt::socket_peercred(&socket).map_err(|e| refuse(&e))?.uid.as_raw();
    if peer != front_uid {
        return Err(refuse(&format!("the peer runs as uid {peer}, not as {front_uid}")));
    }
    let one = SingleThread::counted().map_err(|e| refuse(&e))?;
    Ok(run(spec, socket, one))
}

fn start(spec: &Spec, front: &OwnedFd, one: &SingleThread) -> Result<(), String> {
    // Its own session: an interrupt at the terminal is for the front.
    let _ = setsid();
    sys::close_all_but(&[2, front.as_raw_fd()]).map_err(|e| format!("close_range: {e}"))?;
    take_null()?;
    rustix::process::chdir("/").map_err(|e| format!("`/`: {e}"))?;
    // Before the namespaces: in a user namespace of the launcher's own, files of root's belong to nobody.
    let catalog = Catalog::load(&spec.tools_dir, &spec.places).map_err(|e| e.to_string())?;
    let vault = Vault::open(spec, &catalog, one)?;
    let journal = spec.journal.as_deref().map(Journal::begin).transpose()?;
    let connects = |manifest: &Arc<Manifest>| manifest.runner == Runner::Builtin(Builtin::HttpGet);
    let tls = catalog.manifests().any(connects).then(|| trust(spec.ca_file.as_deref())).transpose()?;
    // All that was to be read of it is read. What is forked from here on, builtins among it, has no copy of a key there.
    sys::overwrite_environment(one, |_| true);
    let ground = Ground::enter(spec.user, spec.landlock_abi_max, tls)?;
    let slots = spec.slot_uids.filter(|_| ground.changes_uids()).map(Slots::new).transpose()?;
    let (first, second) = namespaces::stages()?;
    match sys::fork(one).map_err(|e| format!("fork: {e}"))? {
        sys::Fork::Parent(child) => {
            // No other copy of a socket: it would hide the launcher's ends from the others. This one goes with this
            // process, which ends when the launcher does.
            let keep =
                [2, child.as_raw_fd(), first.0.as_raw_fd(), ground.proc.as_raw_fd(), front.as_raw_fd()];
            sys::close_all_but(&keep).map_err(|e| format!("close_range: {e}"))?;
            guard(&child, front, first, &ground.proc);
            sys::exit_now(0)
        }
        sys::Fork::Child(own) => {
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| format!("death signal: {e}"))?;
            drop(first);
            let (machine, groups) =
                Machine::settle(ground, catalog.manifests().map(Arc::as_ref), second, own)?;
            // Other credentials clear it.
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| format!("death signal: {e}"))?;
            machine.demand(spec.minimum)?;
            EventLoop::open(catalog, machine, groups, front, journal, vault, slots)?.serve()
        }
    }
}

/// Attends to the second stage until it ends, and ends it where the front is gone and it stays: a launcher that hangs
/// does not see that, and what it started would go on past every deadline.
fn guard(child: &OwnedFd, front: &OwnedFd, first: FirstStage, proc: &OwnedFd) {
    let mut first = Some(first);
    loop {
        // The end of a socket is told unasked.
        let mut fds = vec![PollFd::new(child, PollFlags::IN), PollFd::new(front, PollFlags::empty())];
        fds.extend(first.iter().map(|first| PollFd::new(&first.0, PollFlags::IN)));
        // An interrupted wait is a turn with nothing ready.
        let _ = poll(&mut fds, None);
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let [has_ended, is_left, is_asked] = [0, 1, 2].map(is_ready);
        drop(fds);
        if has_ended {
            break;
        }
        if let Some(first) = first.take_if(|_| is_asked) {
            first.attend(proc);
        }
        if is_left {
            let time = Timespec { tv_sec: LAUNCHER_LEAVE_MS_MAX / 1_000, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(child, PollFlags::IN)], Some(&time));
            // One that has ended meanwhile is not hit: the number is its own until it is reaped below.
            let _ = pidfd_send_signal(child, Signal::KILL);
            break;
        }
    }
    let _ = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
}

/// Descriptors 0 and 1 are free here: they become the null device, which children inherit as their
/// standard input.
fn take_null() -> Result<(), String> {
    for flags in [OFlags::RDONLY, OFlags::WRONLY] {
        let null = openat(CWD, "/dev/null", flags, Mode::empty()).map_err(|e| format!("`/dev/null`: {e}"))?;
        // Kept for the life of the process under the lowest free number.
        std::mem::forget(null);
    }
    Ok(())
}

fn send_blocking(front: &OwnedFd, reply: &Reply) -> Result<(), String> {
    for packet in protocol::packets(0, reply)? {
        protocol::send_packet(front, &packet).map_err(|e| e.to_string())?;
    }
    Ok(())
}
