//! The kernel's lists of sockets (`/proc/net/tcp` and its like), without netlink.
//!
//! They show address, state and owner; which process holds a socket is in no file that a tool may
//! read.

use super::view::HostView;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Size of one list that is read, in bytes: about 100,000 sockets.
const TABLE_BYTES_MAX: usize = 16 << 20;

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketLine {
    pub(super) protocol: &'static str,
    pub(super) local: IpAddr,
    pub(super) local_port: u16,
    pub(super) remote: IpAddr,
    pub(super) remote_port: u16,
    pub(super) state: &'static str,
    /// Bytes that the peer has not acknowledged; for a listener, the most connections that may
    /// wait.
    pub(super) send_queue: u64,
    /// Bytes that the program has not read; for a listener, the connections that wait.
    pub(super) receive_queue: u64,
    pub(super) uid: u32,
}

/// Every socket of the lists, and whether a list was longer than what is read.
pub(super) fn sockets(view: &HostView<'_>) -> (Vec<SocketLine>, bool) {
    let mut all = Vec::new();
    let mut is_cut = false;
    for protocol in ["tcp", "tcp6", "udp", "udp6"] {
        let text = view.text(&format!("1/net/{protocol}"), TABLE_BYTES_MAX);
        is_cut |= text.len() >= TABLE_BYTES_MAX;
        all.extend(text.lines().skip(1).filter_map(|line| parse(protocol, line)));
    }
    view.note("processes");
    view.note("unix_sockets");
    (all, is_cut)
}

fn parse(protocol: &'static str, line: &str) -> Option<SocketLine> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
    let [_, local, remote, state, queues, _, _, uid] = words.as_slice().try_into().ok()?;
    let ((local, local_port), (remote, remote_port)) = (endpoint(local)?, endpoint(remote)?);
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (send, receive) = queues.split_once(':')?;
    Some(SocketLine {
        protocol,
        local,
        local_port,
        remote,
        remote_port,
        state: if protocol.starts_with("tcp") { tcp_state(hex(state)?) } else { udp_state(hex(state)?) },
        send_queue: hex(send)?,
        receive_queue: hex(receive)?,
        uid: uid.parse().ok()?,
    })
}

/// An address, in words of 32 bits in the machine's order, and a port.
fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

/// The kernel's `tcp_states.h`.
fn tcp_state(number: u64) -> &'static str {
    match number {
        1 => "established",
        2 => "syn_sent",
        3 | 12 => "syn_received",
        4 => "fin_wait_1",
        5 => "fin_wait_2",
        6 => "time_wait",
        7 => "closed",
        8 => "close_wait",
        9 => "last_ack",
        10 => "listening",
        11 => "closing",
        _ => "other",
    }
}

/// A UDP socket that is not connected receives from everywhere.
fn udp_state(number: u64) -> &'static str {
    if number == 1 { "established" } else { "listening" }
}

#[cfg(test)]
mod tests {
    use super::{endpoint, parse};

    #[test]
    fn lines_are_read() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000080:00000002 00:00000000 00000000  1000        0 4242 1";
        let socket = parse("tcp", line).expect("a socket");
        assert_eq!((socket.local.to_string().as_str(), socket.local_port), ("127.0.0.1", 8080));
        let figures = (socket.state, socket.uid, socket.receive_queue, socket.send_queue);
        assert_eq!(figures, ("listening", 1000, 2, 128));
        let line = "  1: B80D0120000000000000000001000000:01BB 0000000000000000FFFF00000100007F:C001 01 0:0 0:0 0 0 0 1";
        let socket = parse("tcp6", line).expect("a socket");
        assert_eq!((socket.local.to_string().as_str(), socket.local_port), ("2001:db8::1", 443));
        // An IPv4 address in IPv6 form is shown as what it is.
        assert_eq!((socket.remote.to_string().as_str(), socket.remote_port), ("127.0.0.1", 49_153));
        for line in
            ["", "0: x", "0: 0100007F:1F90 00000000 0A 0:0 0:0 0 1 0", "0: 01:1 02:1 0A 0:0 0:0 0 1 0"]
        {
            assert_eq!(parse("tcp", line), None, "{line}");
        }
        assert_eq!(endpoint("0100007é:1F90"), None);
    }
}
