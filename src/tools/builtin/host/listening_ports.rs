//! Ports that wait for peers.

use super::socket_table::{SocketLine, sockets};
use super::view::HostView;
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Ports that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 100;

/// Each listening address and port once, sorted by port.
pub(super) fn listening_ports(view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let (all, is_cut) = sockets(view);
    let mut found: BTreeMap<_, Vec<&SocketLine>> = BTreeMap::new();
    for socket in all.iter().filter(|socket| socket.state == "listening" && socket.local_port != 0) {
        let key = (socket.local_port, socket.protocol, socket.local, socket.uid);
        found.entry(key).or_default().push(socket);
    }
    let mut list = Fitting::new(
        integer(arguments, "limit", LIMIT_DEFAULT),
        output_bytes_max.saturating_sub(FRAME_BYTES),
    );
    for ((port, protocol, address, uid), group) in &found {
        let mut one = Map::new();
        one.insert("port".to_owned(), json!(port));
        one.insert("protocol".to_owned(), json!(protocol.trim_end_matches('6')));
        one.insert("address".to_owned(), json!(address.to_string()));
        let reach = match address {
            address if address.is_unspecified() => "every_address",
            address if address.is_loopback() => "this_host",
            _ => "one_address",
        };
        one.insert("reachable_at".to_owned(), json!(reach));
        view.put_user(&mut one, *uid);
        one.insert("sockets".to_owned(), json!(group.len()));
        if *protocol == "tcp" || *protocol == "tcp6" {
            let waiting = group.iter().map(|socket| socket.receive_queue).sum::<u64>();
            one.insert("connections_waiting".to_owned(), json!(waiting));
        }
        list.push(Value::Object(one));
    }
    let (ports, truncated) = list.finish();
    Ok(json!({ "ports_found": found.len(), "ports": ports, "truncated": truncated || is_cut }))
}
