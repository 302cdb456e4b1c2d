//! The first stage: enters the namespaces, forks the launcher proper, and from then on only waits
//! for it. The launcher proper is the first process of its PID namespace, so its death ends every
//! tool.
//!
//! A supervisor forks it, or a service manager starts it for one connection of the front
//! ([`attend`]).

use super::host::ground::Ground;
use super::host::machine::Machine;
use super::host::trust::TlsTrust;
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

/// Runs the first stage: enters the namespaces, forks the launcher proper, and waits for it. Called
/// in a fresh process that does nothing else; the result is its exit code.
pub(crate) fn run(spec: &Spec, front: OwnedFd, one: SingleThread) -> u8 {
    match start(spec, &front, &one) {
        Ok(()) => 0,
        Err(reason) => {
            // The front may be gone already; then the answer goes unread.
            send_blocking(&front, &Reply::Hello(Err(reason))).ok();
            1
        }
    }
}

/// Serves the connection that a service manager accepted as descriptor `fd`, in this process, until
/// the front is gone. Returns the exit code.
///
/// The caller has a single thread, which is verified by counting, and must not use the descriptor
/// itself. A peer that does not run as `front_uid` is refused: the socket's mode already keeps
/// other users out, and this check holds even if the mode is set wrong.
///
/// # Errors
///
/// The descriptor is unusable, the peer has the wrong uid, or this process has several threads.
pub fn attend(spec: &Spec, fd: RawFd, front_uid: u32) -> Result<u8, StartError> {
    let refuse = |e: &dyn std::fmt::Display| StartError::new("connection", e);
    // Descriptors 0 to 2 are the standard streams, which the first stage closes and replaces.
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
    // A session of its own: an interrupt at the terminal is for the front.
    let _ = setsid();
    sys::close_all_but(&[2, front.as_raw_fd()]).map_err(|e| format!("close_range: {e}"))?;
    take_null()?;
    rustix::process::chdir("/").map_err(|e| format!("`/`: {e}"))?;
    // Before the namespaces: in the launcher's own user namespace, root's files appear to belong to
    // `nobody`.
    let catalog = Catalog::load(&spec.tools_dir, &spec.places).map_err(|e| e.to_string())?;
    let vault = Vault::open(spec, &catalog, one)?;
    let journal = spec.journal.as_deref().map(Journal::begin).transpose()?;
    let tls = catalog.manifests().any(trusts).then(|| TlsTrust::read(spec.ca_file.as_deref())).transpose()?;
    // The environment has been read completely. What is forked from here on, builtins included, has
    // no copy of a key there.
    sys::overwrite_environment(one, |_| true);
    let ground = Ground::enter(spec.user, spec.landlock_abi_max, tls)?;
    let slots = spec.slot_uids.filter(|_| ground.changes_uids()).map(Slots::new).transpose()?;
    let (first, second) = namespaces::stages()?;
    match sys::fork(one).map_err(|e| format!("fork: {e}"))? {
        sys::Fork::Parent(child) => {
            // No other copy of a socket may stay: it would hide the launcher's ends from its peers.
            // This one closes with this process, which ends when the launcher does.
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
            // A change of credentials clears the death signal, so it is set again.
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| format!("death signal: {e}"))?;
            machine.require_level(spec.minimum)?;
            EventLoop::open(catalog, machine, groups, front, journal, vault, slots)?.serve()
        }
    }
}

/// Whether a tool needs to know which certificates this host trusts.
fn trusts(manifest: &Arc<Manifest>) -> bool {
    let Runner::Builtin(which) = manifest.runner else { return false };
    which.sink().is_some() || which == Builtin::CertificateFile
}

/// Waits for the second stage to end. If the front is gone and the second stage stays, kills it: a
/// launcher that hangs does not notice that the front is gone, and what it started would run past
/// every deadline. A supervisor cannot do this: under a service manager none exists, and the front
/// may not signal other processes.
fn guard(child: &OwnedFd, front: &OwnedFd, first: FirstStage, proc: &OwnedFd) {
    let mut first = Some(first);
    loop {
        // `poll` reports the end of a socket without being asked for it.
        let mut fds = vec![PollFd::new(child, PollFlags::IN), PollFd::new(front, PollFlags::empty())];
        fds.extend(first.iter().map(|first| PollFd::new(&first.0, PollFlags::IN)));
        // An interrupted wait counts as a round with nothing ready.
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
            // If it has ended meanwhile, the signal hits no other process: the pid stays reserved
            // until it is reaped below.
            let _ = pidfd_send_signal(child, Signal::KILL);
            break;
        }
    }
    let _ = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED);
}

/// Descriptors 0 and 1 are free here and become the null device, which children inherit as their
/// standard input.
fn take_null() -> Result<(), String> {
    for flags in [OFlags::RDONLY, OFlags::WRONLY] {
        let null = openat(CWD, "/dev/null", flags, Mode::empty()).map_err(|e| format!("`/dev/null`: {e}"))?;
        // Kept open for the life of the process, under the lowest free number.
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
