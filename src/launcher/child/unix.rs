//! The named unix sockets of a call: found in its prepare, connected to at its go, as the tool's
//! own user. Connecting in prepare could start a socket-activated service for a call that is then
//! denied.
//!
//! A program makes no socket and connects none: it gets the connected descriptor, on which its
//! filter allows reading and writing. Neither can name an address, and neither can send or receive
//! a descriptor: a read drops everything that a peer sends other than bytes.

use crate::launcher::view::host_tree::HostTree;
use crate::tools::Connect;
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with, sockopt,
};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A socket of the host, opened with `O_PATH`. It has not been connected to yet.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) fd: OwnedFd,
    name: String,
}

/// Finds each socket on the host as it is now, following no link: a service that was restarted has
/// a new socket.
pub(crate) fn find(tree: &HostTree, wanted: &[Connect]) -> Result<Vec<UnixSocket>, String> {
    wanted.iter().map(|one| find_one(tree, one)).collect()
}

fn find_one(tree: &HostTree, wanted: &Connect) -> Result<UnixSocket, String> {
    let Connect::Unix(path) = wanted;
    let refuse = |e: &dyn std::fmt::Display| format!("`{wanted}`: {e}");
    let fd = tree.find_plain(path).map_err(|e| absent(e, path).unwrap_or_else(|| refuse(&e)))?;
    let stat = fstat(&fd).map_err(|e| refuse(&e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(refuse(&"not a socket"));
    }
    Ok(UnixSocket { fd, name: wanted.to_string() })
}

/// The bus of systemd and of other services of a host.
const BUS: &str = "/run/dbus/system_bus_socket";

/// Says that a socket is not there, and what makes one; `None` for another error.
fn absent(error: Errno, path: &Path) -> Option<String> {
    if error != Errno::NOENT {
        return None;
    }
    let what = if path == Path::new(BUS) {
        "no system bus (D-Bus) runs on this host: start `dbus.service`, or disable the tool, as in a container"
    } else {
        "start the service that makes it, or disable the tool"
    };
    Some(format!("the socket {} is not there: {what}", path.display()))
}

/// Connects to each. The base filter allows it, and no ruleset that covers paths of sockets is in
/// force yet.
pub(crate) fn connect(places: &[UnixSocket], proc: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, String> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    // By the number of the descriptor, relative to `/proc`: what was found is what is connected to.
    rustix::process::fchdir(proc).map_err(|e| format!("`/proc`: {e}"))?;
    let connected =
        places.iter().map(|place| connect_one(place).map_err(|e| format!("`{}`: {e}", place.name)));
    let connected = connected.collect();
    rustix::process::chdir("/").map_err(|e| format!("`/`: {e}"))?;
    connected
}

fn connect_one(place: &UnixSocket) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    connect_to(&socket, &SocketAddrUnix::new(format!("self/fd/{}", place.fd.as_raw_fd()))?)?;
    Ok(socket)
}

/// Makes each read and write of a builtin fail after `most`: it has no other way to stop waiting.
pub(crate) fn bound_waits(socket: &OwnedFd, most: Duration) -> Result<(), String> {
    for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(socket, timeout, Some(most)).map_err(|e| format!("the socket: {e}"))?;
    }
    Ok(())
}
