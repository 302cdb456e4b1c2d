//! Where launchers come from: forked before there is a runtime, or requested within one.

use crate::launcher::{StartError, sys};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with, socketpair,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The origin of a launcher and of its successors.
#[derive(Debug)]
pub(super) enum LauncherOrigin {
    /// Forked by this process, which cannot fork any more, so it has no successor.
    Forked,
    /// The channel to the supervisor, which forks another.
    Supervisor(OwnedFd),
    /// A socket at which every connection is another launcher.
    Socket(PathBuf),
}

/// [`LauncherOrigin`] within a runtime.
#[derive(Debug)]
pub(super) enum LauncherSource {
    Forked,
    Supervisor(AsyncFd<OwnedFd>),
    Socket(PathBuf),
}

async fn ask_supervisor(control: &AsyncFd<OwnedFd>) -> io::Result<OwnedFd> {
    control.async_io(Interest::WRITABLE, |fd| Ok(send(fd, b"l", rustix::net::SendFlags::NOSIGNAL)?)).await?;
    control.async_io(Interest::READABLE, receive_socket).await
}

fn receive_socket(control: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8; 1];
    let received =
        recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let sockets = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let socket = sockets.flatten().next();
    socket
        .filter(|_| received.bytes > 0)
        .ok_or_else(|| io::Error::other("the supervisor started no launcher"))
}

pub(super) fn nonblocking(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    sys::register(socket)
}

impl LauncherSource {
    /// Must be called within a runtime with its I/O driver enabled.
    pub(super) fn new(origin: LauncherOrigin) -> Result<Self, StartError> {
        Ok(match origin {
            LauncherOrigin::Forked => Self::Forked,
            LauncherOrigin::Socket(path) => Self::Socket(path),
            LauncherOrigin::Supervisor(control) => {
                Self::Supervisor(nonblocking(control).map_err(|e| StartError::new("control", e))?)
            }
        })
    }

    /// Starts another launcher and returns its socket.
    pub(super) async fn another(&self) -> Result<OwnedFd, StartError> {
        match self {
            Self::Forked => Err(StartError::new("renew", "no supervisor")),
            Self::Supervisor(control) => {
                ask_supervisor(control).await.map_err(|e| StartError::new("renew", e))
            }
            Self::Socket(path) => {
                let path = path.clone();
                let dialled = tokio::task::spawn_blocking(move || connect_to(&path)).await;
                dialled.map_err(|e| StartError::new("renew", e))?
            }
        }
    }
}

pub(super) fn connect_to(path: &Path) -> Result<OwnedFd, StartError> {
    let at = |e| StartError::new(&path.display().to_string(), e);
    let address = SocketAddrUnix::new(path).map_err(at)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(at)?;
    connect(&socket, &address).map_err(at)?;
    Ok(socket)
}

pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), StartError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|e| StartError::new("socket", e))
}
