//! The launcher's side of starting a call's child. A child is started for its call and not kept in
//! stock: one that was started earlier could not inherit what the call is given.

use crate::call::Unprepared;
use crate::launcher::child::{Birth, run};
use crate::launcher::host::machine::Machine;
use crate::launcher::protocol::Ask;
use crate::launcher::sys;
use crate::launcher::tool::OpenTool;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// A child, and the launcher's ends of its pipes and its control channel.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pidfd: OwnedFd,
    pub(crate) control: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Child {
    /// Starts the child of `call`, a call of `tool`, with its pipes, its control channel and its
    /// namespaces. If given, its first process starts in `group` and has the uid `slot`.
    pub(crate) fn start(
        machine: &Machine,
        tool: &OpenTool,
        call: &Ask,
        group: Option<OwnedFd>,
        slot: Option<u32>,
    ) -> Result<Self, Unprepared> {
        let refuse = |e: Errno| not_started(&e.into());
        let (stdout, stdout_child) = pipe_with(PipeFlags::CLOEXEC).map_err(refuse)?;
        let (stderr, stderr_child) = pipe_with(PipeFlags::CLOEXEC).map_err(refuse)?;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (control, control_child) = pair.map_err(refuse)?;
        // Only these ends are nonblocking: the child may wait on its own.
        for end in [&stdout, &stderr, &control] {
            rustix::io::ioctl_fionbio(end, true).map_err(refuse)?;
        }
        let namespaces = tool.namespaces(machine);
        let pidfd = machine.as_victim(|| match group {
            Some(group) => sys::clone_into(&machine.one, namespaces, group.as_fd()),
            None => sys::clone_call(&machine.one, namespaces),
        });
        let Some(pidfd) = pidfd.map_err(|e| not_started(&e))? else {
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

/// Processes, descriptors and memory come back when other calls end; another error is of this host.
fn not_started(error: &io::Error) -> Unprepared {
    let reason = format!("the child was not started: {error}");
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC) => {
            Unprepared::at_capacity(reason)
        }
        _ => reason.into(),
    }
}
