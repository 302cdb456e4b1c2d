//! Network interfaces: addresses, traffic and errors.

use super::view::HostView;
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Interfaces that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 50;
/// Size of one table that is read, in bytes.
const TABLE_BYTES_MAX: usize = 1 << 20;
/// Addresses of one interface that are listed.
const ADDRESSES_MAX: usize = 20;

/// A line of the table of IPv4 routes.
struct RouteLine<'a> {
    interface: &'a str,
    network: u32,
    mask: u32,
    gateway: u32,
}

/// Each interface with its addresses and counters since it was made. The kernel's tables do not say
/// which interface has an IPv4 address: one is listed with the interface whose directly connected
/// network contains it, and otherwise in `other_addresses`.
pub(super) fn interfaces(view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let read = |name: &str| view.text(name, TABLE_BYTES_MAX);
    let (dev, route, trie, six) =
        (read("1/net/dev"), read("1/net/route"), read("1/net/fib_trie"), read("1/net/if_inet6"));
    let routes: Vec<RouteLine<'_>> = route.lines().skip(1).filter_map(route_line).collect();
    let mut other = local_addresses(&trie);
    let mut list = Fitting::new(
        integer(arguments, "limit", LIMIT_DEFAULT),
        output_bytes_max.saturating_sub(FRAME_BYTES),
    );
    let mut count = 0_u64;
    for (name, counters) in dev.lines().filter_map(device_line) {
        count += 1;
        let is_here = |address: &Ipv4Addr| interface_of(*address, &routes) == Some(name);
        let mut addresses: Vec<String> =
            other.iter().filter(|a| is_here(a)).map(ToString::to_string).collect();
        other.retain(|address| !is_here(address));
        addresses.extend(six.lines().filter_map(|line| six_line(line, name)));
        addresses.truncate(ADDRESSES_MAX);
        let [received, packets_in, errors_in, dropped_in, sent, packets_out, errors_out, dropped_out] =
            counters;
        list.push(json!({
            "name": name,
            "addresses": addresses,
            "default_route": routes.iter().any(|r| r.interface == name && r.mask == 0 && r.gateway != 0),
            "received_bytes": received, "received_packets": packets_in,
            "receive_errors": errors_in, "received_dropped": dropped_in,
            "sent_bytes": sent, "sent_packets": packets_out,
            "send_errors": errors_out, "sent_dropped": dropped_out,
        }));
    }
    // Speed and whether a cable is plugged in are in `/sys`.
    view.note("link_state");
    let gateways = routes.iter().filter(|line| line.mask == 0 && line.gateway != 0);
    let gateways = gateways.map(|line| Ipv4Addr::from(line.gateway).to_string()).take(ADDRESSES_MAX);
    let (listed, truncated) = list.finish();
    Ok(json!({
        "interfaces_found": count,
        "interfaces": listed,
        "truncated": truncated,
        "default_gateways": gateways.collect::<Vec<_>>(),
        "other_addresses": other.iter().take(ADDRESSES_MAX).map(ToString::to_string).collect::<Vec<_>>(),
    }))
}

/// A line of `/proc/net/dev` (proc_pid_net(5)): bytes, packets, errors and drops in both
/// directions.
fn device_line(line: &str) -> Option<(&str, [u64; 8])> {
    let (name, rest) = line.rsplit_once(':')?;
    let all: Vec<u64> = rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |index: usize| all.get(index).copied();
    Some((name.trim(), [at(0)?, at(1)?, at(2)?, at(3)?, at(8)?, at(9)?, at(10)?, at(11)?]))
}

fn route_line(line: &str) -> Option<RouteLine<'_>> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let address = |index: usize| {
        let bytes = u32::from_str_radix(words.get(index)?, 16).ok()?.to_ne_bytes();
        Some(u32::from_be_bytes(bytes))
    };
    Some(RouteLine {
        interface: words.first()?,
        network: address(1)?,
        gateway: address(2)?,
        mask: address(7)?,
    })
}

/// The interface with the narrowest connected network that contains `address`.
fn interface_of<'a>(address: Ipv4Addr, routes: &[RouteLine<'a>]) -> Option<&'a str> {
    if address.is_loopback() {
        return Some("lo");
    }
    let address = u32::from(address);
    let connected = routes.iter().filter(|line| line.gateway == 0 && line.mask != 0);
    let holds = connected.filter(|line| address & line.mask == line.network);
    holds.max_by_key(|line| line.mask).map(|line| line.interface)
}

/// Addresses of this host in the kernel's tree of IPv4 routes: `|-- 192.0.2.7`, and below it
/// `/32 host LOCAL`.
fn local_addresses(trie: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if let Some(address) = last.filter(|_| line == "/32 host LOCAL") {
            found.push(address);
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The address in a line of `/proc/net/if_inet6`, if it is of this interface.
fn six_line(line: &str, name: &str) -> Option<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [address, .., interface] = words.as_slice() else { return None };
    let number = u128::from_str_radix(address, 16).ok()?;
    (*interface == name && address.len() == 32).then(|| Ipv6Addr::from(number).to_string())
}
