//! The network of a call that makes its own connections: a separate namespace that contains nothing
//! but one listener on its loopback. The front holds that listener, as a proxy; the call's child
//! does not. So the front receives one descriptor, while the child is still the launcher's own
//! code, and from a running tool only bytes.

use crate::launcher::sys;
use crate::launcher::tool::PROXY_PORT;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// Connections that the front has not accepted yet.
const BACKLOG: i32 = 64;

/// The environment that points programs to the proxy.
pub(crate) const ENVIRONMENT: [&std::ffi::CStr; 6] = [
    c"HTTPS_PROXY=http://127.0.0.1:3128",
    c"https_proxy=http://127.0.0.1:3128",
    c"HTTP_PROXY=http://127.0.0.1:3128",
    c"http_proxy=http://127.0.0.1:3128",
    c"ALL_PROXY=http://127.0.0.1:3128",
    c"all_proxy=http://127.0.0.1:3128",
];

/// Raises the loopback of this process's network namespace and listens on it. For a child that has
/// a namespace of its own and still has rights over it.
pub(crate) fn open() -> Result<OwnedFd, String> {
    let refuse = |e: &dyn std::fmt::Display| format!("the call's own network: {e}");
    sys::raise_loopback().map_err(|e| refuse(&e))?;
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let listener = listener.map_err(|e| refuse(&e))?;
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT)).map_err(|e| refuse(&e))?;
    listen(&listener, BACKLOG).map_err(|e| refuse(&e))?;
    Ok(listener)
}
