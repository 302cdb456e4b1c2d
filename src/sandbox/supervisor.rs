//! The process above front and launcher: single-threaded, with neither a network socket nor a
//! database.
//!
//! It forks both before any runtime starts, gives the front a new launcher on request, and ends
//! everything when the front ends. Nothing outlives it: every process below has a parent-death
//! signal.

use super::client::LinkSeed;
use super::source::{LauncherOrigin, connect_to, pair};
use crate::config::KEY_VARIABLES;
use crate::launcher::protocol::{Arrival, Assembler, PACKET_BYTES_MAX, Received, Reply, receive};
use crate::launcher::sys::{self, SingleThread};
use crate::launcher::{Spec, StartError, run};
use crate::types::limits::LAUNCHERS_MAX;
use nix::sys::signal::{SigSet, Signal as Signo};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{
    Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, setsid, waitid,
};
use rustix::time::Timespec;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Time from a launcher's fork to its first message, in seconds.
const HELLO_S_MAX: i64 = 20;
/// Exit code of a front that was ended by a signal.
const FAILED: u8 = 1;

/// Forks a launcher under the calling process, which is the front. A launcher that dies is not
/// replaced.
///
/// The caller has one thread: call this before any runtime starts. Returns once the launcher has
/// tested itself.
pub fn start(spec: &Spec) -> Result<LinkSeed, StartError> {
    let (socket, _first_stage) = fork_launcher(spec, &one_thread()?)?;
    wait_for_hello(socket, LauncherOrigin::Forked)
}

/// Connects to a socket at which a service manager starts a separate launcher for every connection.
/// A launcher that dies is replaced by another connection.
///
/// Blocks until the launcher has tested itself.
pub fn dial(path: &Path) -> Result<LinkSeed, StartError> {
    wait_for_hello(connect_to(path)?, LauncherOrigin::Socket(path.to_owned()))
}

/// Runs `front` in a new process, next to a launcher, and returns its exit code.
///
/// The caller has one thread. `SIGTERM`, `SIGINT` and `SIGHUP` are forwarded to the front, whose
/// end ends everything. The front may request another launcher, to replace a dead one or to reload.
pub fn serve(spec: &Spec, front: impl FnOnce(LinkSeed) -> u8) -> Result<u8, StartError> {
    let one = one_thread()?;
    let (socket, first_stage) = fork_launcher(spec, &one)?;
    let (control, control_front) = pair()?;
    let seed = wait_for_hello(socket, LauncherOrigin::Supervisor(control_front))?;
    let parent = rustix::process::getpid();
    // Before the fork, so that no signal is lost between it and the loop.
    let before = SigSet::thread_get_mask().map_err(|e| StartError::new("signal mask", e))?;
    let signals = block_signals()?;
    match sys::fork(&one).map_err(|e| StartError::new("fork", e))? {
        // The front will start more threads, so its proof is dropped.
        sys::Fork::Child(_) => {
            drop((control, first_stage, signals));
            let _ = before.thread_set_mask();
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            if rustix::process::getppid() != Some(parent) {
                sys::exit_now(FAILED);
            }
            // A separate session: an interrupt at the terminal arrives once, through the
            // supervisor.
            let _ = setsid();
            // A panic ends this process here: further unwinding would run the supervisor's own code
            // twice.
            let code = catch_unwind(AssertUnwindSafe(|| front(seed))).unwrap_or(FAILED);
            std::io::Write::flush(&mut std::io::stdout()).ok();
            sys::exit_now(code)
        }
        sys::Fork::Parent(front) => {
            // The copies that count are those in the front.
            drop(seed);
            // Overwrites what only the front needs. Launchers that are forked later read the rest.
            let named = spec.key_variables.iter().map(String::as_str);
            let keys: Vec<&str> = KEY_VARIABLES.into_iter().chain(named).collect();
            sys::overwrite_environment(&one, |name| keys.iter().any(|key| key.as_bytes() == name));
            Supervisor { spec, one, front, control: Some(control), launchers: vec![first_stage] }
                .watch(&signals)
        }
    }
}

struct Supervisor<'a> {
    spec: &'a Spec,
    one: SingleThread,
    front: OwnedFd,
    control: Option<OwnedFd>,
    /// First stages: killing one ends its launcher and every tool of that launcher.
    launchers: Vec<OwnedFd>,
}

impl Supervisor<'_> {
    fn watch(mut self, signals: &SignalFd) -> Result<u8, StartError> {
        let code = loop {
            self.turn(signals);
            let ended =
                waitid(WaitId::PidFd(self.front.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            if let Ok(Some(status)) = ended {
                break status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED);
            }
        };
        for launcher in &self.launchers {
            let _ = pidfd_send_signal(launcher, Signal::KILL);
            let _ = waitid(WaitId::PidFd(launcher.as_fd()), WaitIdOptions::EXITED);
        }
        Ok(code)
    }

    fn turn(&mut self, signals: &SignalFd) {
        let mut fds = vec![PollFd::new(&self.front, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        fds.extend(self.control.iter().map(|control| PollFd::new(control, PollFlags::IN)));
        fds.extend(self.launchers.iter().map(|launcher| PollFd::new(launcher, PollFlags::IN)));
        // An interrupted wait is a round with nothing ready.
        let _ = poll(&mut fds, None);
        let asked = self.control.is_some() && fds.get(2).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        if let Ok(Some(info)) = signals.read_signal()
            && let Some(signal) = forwarded(info.ssi_signo)
        {
            let _ = pidfd_send_signal(&self.front, signal);
        }
        self.reap_launchers();
        if asked {
            self.answer();
        }
    }

    fn reap_launchers(&mut self) {
        self.launchers.retain(|launcher| {
            let ended =
                waitid(WaitId::PidFd(launcher.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            !matches!(ended, Ok(Some(_)))
        });
    }

    /// One byte requests a launcher; the answer is its socket, or one byte without a socket. There
    /// are at most [`LAUNCHERS_MAX`] at once, however often a front asks.
    fn answer(&mut self) {
        let Some(control) = &self.control else { return };
        match receive(control, 16) {
            Received::Packet(_) => {}
            Received::Nothing => return,
            Received::End => {
                self.control = None;
                return;
            }
        }
        if self.launchers.len() >= LAUNCHERS_MAX {
            return send_socket(control, None);
        }
        match fork_launcher(self.spec, &self.one) {
            Ok((socket, first_stage)) => {
                send_socket(control, Some(&socket));
                self.launchers.push(first_stage);
            }
            Err(_) => send_socket(control, None),
        }
    }
}

fn one_thread() -> Result<SingleThread, StartError> {
    SingleThread::counted().map_err(|e| StartError::new("fork", e))
}

/// Forks a launcher; this process keeps the front's end of its socket and the first stage's pidfd.
fn fork_launcher(spec: &Spec, one: &SingleThread) -> Result<(OwnedFd, OwnedFd), StartError> {
    let (front, launcher) = pair()?;
    let parent = rustix::process::getpid();
    match sys::fork(one).map_err(|e| StartError::new("fork", e))? {
        sys::Fork::Parent(first_stage) => Ok((front, first_stage)),
        sys::Fork::Child(own) => {
            drop(front);
            // Launcher and tools must not inherit the signals that a supervisor blocks.
            let _ = SigSet::all().thread_unblock();
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            if rustix::process::getppid() != Some(parent) {
                sys::exit_now(FAILED);
            }
            sys::exit_now(run(spec, launcher, own))
        }
    }
}

/// Waits for the launcher's first message.
fn wait_for_hello(socket: OwnedFd, origin: LauncherOrigin) -> Result<LinkSeed, StartError> {
    let mut assembler = Assembler::default();
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::IN)];
        let timeout = Timespec { tv_sec: HELLO_S_MAX, tv_nsec: 0 };
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Err(StartError::new("hello", format!("no message came within {HELLO_S_MAX} s"))),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(StartError::new("hello", e)),
        }
        let Received::Packet(packet) = receive(&socket, PACKET_BYTES_MAX) else {
            return Err(StartError::new("hello", "it ended before its first message"));
        };
        match assembler.take(&packet).map_err(|e| StartError::new("hello", e))? {
            Arrival::Message(0, Reply::Hello(Ok(report))) => return Ok(LinkSeed { socket, origin, report }),
            Arrival::Message(0, Reply::Hello(Err(reason))) => return Err(StartError::from_reason(reason)),
            Arrival::Piece => {}
            Arrival::Message(..) | Arrival::Output(..) => {
                return Err(StartError::new("hello", "its first message was not a hello"));
            }
        }
    }
}

fn block_signals() -> Result<SignalFd, StartError> {
    let mut set = SigSet::empty();
    [Signo::SIGTERM, Signo::SIGINT, Signo::SIGHUP].into_iter().for_each(|signal| set.add(signal));
    set.thread_block().map_err(|e| StartError::new("signal mask", e))?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|e| StartError::new("signalfd", e))
}

/// SIGHUP is forwarded too: the front reloads.
fn forwarded(signo: u32) -> Option<Signal> {
    let all = [Signal::TERM, Signal::INT, Signal::HUP];
    all.into_iter().find(|signal| u32::try_from(signal.as_raw()).is_ok_and(|raw| raw == signo))
}

fn send_socket(control: &OwnedFd, socket: Option<&OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    // A front that does not read its answer is about to end, which ends everything.
    let _ =
        sendmsg(control, &[IoSlice::new(b"l")], &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
