//! The launcher's side of a child: its start, and spares, which are there before their call.
//!
//! Most of what a call costs before its path is looked up is the same for all calls of a tool: the fork and its pages,
//! the namespaces, the identity, the closing of descriptors, the limits, the tool's own rights. So while there is no
//! call the launcher starts a child for the tool that was called last. It takes all these steps, and then waits for its
//! call: it has read nothing yet that a model wrote, and is confined like every child that resolves a path.

use crate::launcher::child::{Birth, run};
use crate::launcher::host::machine::Machine;
use crate::launcher::protocol::{self, Ask, CHILD_MESSAGE_BYTES_MAX};
use crate::launcher::spec::SPARES_MAX;
use crate::launcher::sys;
use crate::launcher::tool::OpenTool;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// From here on numbers are spares', below they are calls'.
pub(crate) const SPARE_IDS: u64 = 1 << 63;

/// A child, and the launcher's ends of its pipes and its control channel.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pidfd: OwnedFd,
    pub(crate) control: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Child {
    /// Starts a child of `tool`'s: its pipes, its control channel, its namespaces. Without a call it waits for one.
    pub(crate) fn start(
        machine: &Machine,
        tool: &OpenTool,
        call: Option<&Ask>,
        group: Option<OwnedFd>,
        slot: Option<u32>,
    ) -> Result<Self, String> {
        let refuse = |e: Errno| format!("the child was not started: {e}");
        let (stdout, stdout_child) = pipe_with(PipeFlags::CLOEXEC).map_err(refuse)?;
        let (stderr, stderr_child) = pipe_with(PipeFlags::CLOEXEC).map_err(refuse)?;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (control, control_child) = pair.map_err(refuse)?;
        // Only these ends: the child's may wait.
        for end in [&stdout, &stderr, &control] {
            rustix::io::ioctl_fionbio(end, true).map_err(refuse)?;
        }
        let namespaces = tool.namespaces(machine);
        let pidfd = machine.as_victim(|| match group {
            Some(group) => sys::clone_into(&machine.one, namespaces, group.as_fd()),
            None => sys::clone_call(&machine.one, namespaces),
        });
        let Some(pidfd) = pidfd.map_err(|e| format!("the child was not started: {e}"))? else {
            run(&Birth {
                machine,
                tool,
                identity: machine.identity.map(|(uid, gid)| (slot.unwrap_or(uid), gid)),
                call,
                stdout: stdout_child,
                stderr: stderr_child,
                control: control_child,
            })
        };
        Ok(Self { pidfd, control, stdout, stderr })
    }
}

/// A child that has no call yet.
#[derive(Debug)]
pub(crate) struct Spare {
    /// Under which it has what calls have: no call's number.
    pub(crate) id: u64,
    tool: String,
    pub(crate) child: Child,
}

/// The spares, the one that was started last behind.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    waiting: VecDeque<Spare>,
    /// Those that are to end: their control channel is closed.
    leaving: Vec<(u64, OwnedFd)>,
    /// The tool that was called last. Once for each call: spares that die at once are not made again and again.
    wanted: Option<String>,
    started: u64,
}

impl Spares {
    /// The spare of this call's tool, which has been told the call. None where there is none, it has ended, or one
    /// packet does not hold the call.
    pub(crate) fn take(&mut self, call: &Ask) -> Option<Spare> {
        self.wanted = Some(call.tool.clone());
        let at = self.waiting.iter().position(|spare| spare.tool == call.tool)?;
        let packet =
            serde_json::to_vec(call).ok().filter(|packet| packet.len() <= CHILD_MESSAGE_BYTES_MAX)?;
        let spare = self.waiting.remove(at)?;
        if protocol::send_with(&spare.child.control, &packet, None) == Ok(true) {
            return Some(spare);
        }
        self.leave(spare);
        None
    }

    /// The tool of which there is to be a spare, and the number that it is to have. Once.
    pub(crate) fn due(&mut self) -> Option<(String, u64)> {
        let tool = self.wanted.take()?;
        let is_there = self.waiting.iter().any(|spare| spare.tool == tool);
        self.started += 1;
        (!is_there).then_some((tool, SPARE_IDS + self.started))
    }

    /// Takes in a spare. Where there are too many, the one that was started first goes.
    pub(crate) fn add(&mut self, id: u64, tool: String, child: Child) {
        self.waiting.push_back(Spare { id, tool, child });
        if self.waiting.len() > SPARES_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.leave(oldest);
        }
    }

    /// Its channel ends, and so it does.
    fn leave(&mut self, spare: Spare) {
        self.leaving.push((spare.id, spare.child.pidfd));
    }

    /// What becomes readable when a spare has ended.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        let waiting = self.waiting.iter().map(|spare| (spare.id, spare.child.pidfd.as_fd()));
        waiting.chain(self.leaving.iter().map(|(id, pidfd)| (*id, pidfd.as_fd())))
    }

    /// Forgets a spare, if it has ended. Whether it has.
    pub(crate) fn reap(&mut self, id: u64) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let has_ended = |pidfd: &OwnedFd| !matches!(waitid(WaitId::PidFd(pidfd.as_fd()), options), Ok(None));
        let before = self.waiting.len() + self.leaving.len();
        self.waiting.retain(|spare| spare.id != id || !has_ended(&spare.child.pidfd));
        self.leaving.retain(|(at, pidfd)| *at != id || !has_ended(pidfd));
        self.waiting.len() + self.leaving.len() < before
    }
}
