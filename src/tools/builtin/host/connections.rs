//! Connections with peers.

use super::socket_table::{SocketLine, sockets};
use super::view::HostView;
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Connections that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 50;
/// Peers, and local ports, that are counted in the answer.
const COUNTED_MAX: usize = 20;

/// TCP connections and connected UDP sockets: counted by state, peer and local port, and listed.
/// The arguments `port` and `state` select.
pub(super) fn connections(view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let (mut all, is_cut) = sockets(view);
    let port = arguments.get("port").and_then(Value::as_u64);
    let state = arguments.get("state").and_then(Value::as_str);
    all.retain(|socket| {
        socket.state != "listening"
            && socket.remote_port != 0
            && state.is_none_or(|state| socket.state == state)
            && port.is_none_or(|port| [socket.local_port, socket.remote_port].map(u64::from).contains(&port))
    });
    let (mut states, mut peers, mut ports) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for socket in &all {
        *states.entry(socket.state).or_insert(0_u64) += 1;
        *peers.entry(socket.remote).or_insert(0_u64) += 1;
        *ports.entry(socket.local_port).or_insert(0_u64) += 1;
    }
    all.sort_by_key(|one| (one.local_port, one.remote, one.remote_port));
    let room = output_bytes_max.saturating_sub(3 * FRAME_BYTES);
    let mut list = Fitting::new(integer(arguments, "limit", LIMIT_DEFAULT), room);
    all.iter().for_each(|socket| list.push(listed(view, socket)));
    let (connections, truncated) = list.finish();
    let peer = |(address, count): (IpAddr, u64)| json!({ "address": address.to_string(), "count": count });
    let local = |(port, count): (u16, u64)| json!({ "port": port, "count": count });
    Ok(json!({
        "connections_found": all.len(),
        "states": states,
        "top_peers": top(peers, peer),
        "top_local_ports": top(ports, local),
        "connections": connections,
        "truncated": truncated || is_cut,
    }))
}

fn listed(view: &HostView<'_>, socket: &SocketLine) -> Value {
    let mut one = Map::new();
    one.insert("protocol".to_owned(), json!(socket.protocol.trim_end_matches('6')));
    one.insert("local_address".to_owned(), json!(socket.local.to_string()));
    one.insert("local_port".to_owned(), json!(socket.local_port));
    one.insert("peer_address".to_owned(), json!(socket.remote.to_string()));
    one.insert("peer_port".to_owned(), json!(socket.remote_port));
    one.insert("state".to_owned(), json!(socket.state));
    one.insert("send_queue_bytes".to_owned(), json!(socket.send_queue));
    one.insert("receive_queue_bytes".to_owned(), json!(socket.receive_queue));
    view.put_user(&mut one, socket.uid);
    Value::Object(one)
}

/// The most frequent ones.
fn top<K: Ord + Copy>(counts: BTreeMap<K, u64>, shown: impl Fn((K, u64)) -> Value) -> Vec<Value> {
    let mut counts: Vec<(K, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    counts.into_iter().take(COUNTED_MAX).map(shown).collect()
}
