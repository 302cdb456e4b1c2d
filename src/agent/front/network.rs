//! Look-ups of names, and connections that are opened and closed again. No byte of a call goes over
//! a connection.

use super::answer::FrontAnswer;
use crate::call::Connection;
use crate::egress::{self, Checked, ConnectError, Connected};
use crate::gate::{Connecting, Order};
use crate::types::{HostPort, clock, limits};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a probe waits for a connection if the call does not say, in milliseconds.
const TIMEOUT_MS: u64 = 3_000;

/// The addresses of the name that the call is about.
pub(super) async fn look_up(order: &Order) -> FrontAnswer {
    let Some((to, _)) = sink(order) else { return no_sink() };
    let (began, named) = (clock::mono_us(), &order.manifest().reach.named);
    let found = egress::resolve(to, named, Duration::from_millis(limits::CONNECT_MS_MAX)).await;
    let lookup_ms = ms_since(began);
    let checked = match found {
        Ok(checked) => checked,
        Err(ConnectError::Forbidden(why)) => return forbidden(to, &ConnectError::Forbidden(why), Vec::new()),
        Err(error) => {
            let outcome = if error == ConnectError::Timeout { "timed_out" } else { "no_address" };
            let answer = json!({ "outcome": outcome, "lookup_ms": lookup_ms, "ipv4": [], "ipv6": [],
                                 "truncated": false, "not_seen": NO_REASON });
            return Ok(answer).into();
        }
    };
    let of = |is_v4: bool| {
        let those = checked.addresses().iter().map(SocketAddr::ip).filter(|ip| ip.is_ipv4() == is_v4);
        those.map(|ip| ip.to_string()).collect::<Vec<_>>()
    };
    let answer = json!({
        "outcome": "found",
        "lookup_ms": lookup_ms,
        "ipv4": of(true),
        "ipv6": of(false),
        "truncated": checked.left_out() > 0,
        "not_seen": ["record_types_other_than_A_and_AAAA", "time_to_live"],
    });
    Ok(answer).into()
}

/// What a look-up without an address leaves open: the system's resolver does not say.
const NO_REASON: [&str; 1] = ["whether_the_name_exists"];

/// Opens a connection to the host that the call is about, and closes it.
pub(super) async fn probe(order: &Order, arguments: &Value) -> FrontAnswer {
    let Some((to, connecting)) = sink(order) else { return no_sink() };
    let wait_ms = arguments.get("timeout_ms").and_then(Value::as_u64).unwrap_or(TIMEOUT_MS);
    let until = Instant::now() + Duration::from_millis(wait_ms);
    let began = clock::mono_us();
    let found = egress::resolve(to, &order.manifest().reach.named, left(until)).await;
    let lookup_ms = ms_since(began);
    let checked = match found {
        Ok(checked) => checked,
        Err(ConnectError::Forbidden(why)) => {
            let refused = ConnectError::Forbidden(why).to_string();
            let asked = Connection { refused: Some(refused), ..connection(to) };
            return forbidden(to, &ConnectError::Forbidden(why), vec![asked]);
        }
        Err(error) => {
            let outcome = if error == ConnectError::Timeout { "timed_out" } else { "no_address" };
            let asked = Connection { refused: Some(error.to_string()), ..connection(to) };
            let answer =
                json!({ "outcome": outcome, "lookup_ms": lookup_ms, "tried": [], "truncated": false });
            return FrontAnswer { connections: vec![asked], ..Ok(answer).into() };
        }
    };
    let (outcome, tried) = try_each(to, connecting, &checked, until).await;
    let truncated = tried.len() < checked.addresses().len() + checked.left_out() && outcome != "open";
    let shown: Vec<Value> = tried.iter().map(TriedAddress::json).collect();
    let answer =
        json!({ "outcome": outcome, "lookup_ms": lookup_ms, "tried": shown, "truncated": truncated });
    FrontAnswer { connections: tried.iter().map(|one| one.connection(to)).collect(), ..Ok(answer).into() }
}

/// One attempt at one address.
struct TriedAddress {
    address: SocketAddr,
    outcome: &'static str,
    connect_ms: u64,
    refused: Option<String>,
}

impl TriedAddress {
    fn json(&self) -> Value {
        let Self { address, outcome, connect_ms, .. } = self;
        json!({ "address": address.ip().to_string(), "outcome": outcome, "connect_ms": connect_ms })
    }

    fn connection(&self, to: &HostPort) -> Connection {
        Connection { address: Some(self.address), refused: self.refused.clone(), ..connection(to) }
    }
}

/// Tries the addresses one after the other until one answers; the outcome is that of the last one.
async fn try_each(
    to: &HostPort,
    connecting: &Connecting,
    checked: &Checked,
    until: Instant,
) -> (&'static str, Vec<TriedAddress>) {
    let (mut tried, count) = (Vec::new(), checked.addresses().len());
    for (one, address) in checked.each().zip(checked.addresses()) {
        // Recorded before the attempt: whatever its outcome, others may have observed it.
        if let Err(error) = connecting.record(to, *address).await {
            let refused = Some(error.to_string());
            tried.push(TriedAddress { address: *address, outcome: "not_recorded", connect_ms: 0, refused });
            break;
        }
        let began = clock::mono_us();
        // Each address has an equal part of the time that is left.
        let rest = u32::try_from(count.saturating_sub(tried.len())).unwrap_or(u32::MAX).max(1);
        let ended = one.connect(left(until) / rest).await;
        let connect_ms = ms_since(began);
        let (outcome, refused) = match ended {
            Ok(Connected { stream, .. }) => {
                drop(stream);
                ("open", None)
            }
            Err(error) => (outcome(&error), Some(error.to_string())),
        };
        tried.push(TriedAddress { address: *address, outcome, connect_ms, refused });
        if outcome == "open" {
            break;
        }
    }
    (tried.last().map_or("no_address", |one| one.outcome), tried)
}

fn outcome(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::Closed(_) => "refused",
        ConnectError::Timeout => "timed_out",
        ConnectError::Connect(_) | ConnectError::Resolve(_) | ConnectError::Forbidden(_) => "unreachable",
    }
}

/// The one host that the call was permitted for.
fn sink(order: &Order) -> Option<(&HostPort, &Connecting)> {
    let connecting = order.connecting()?;
    connecting.hosts().first().map(|to| (to, connecting))
}

fn no_sink() -> FrontAnswer {
    Err("the permit names no host".to_owned()).into()
}

/// The rule about addresses refuses what the name leads to.
fn forbidden(to: &HostPort, why: &ConnectError, connections: Vec<Connection>) -> FrontAnswer {
    let refused = Some(format!("`{to}`: {why}"));
    FrontAnswer { connections, refused, ..Err(String::new()).into() }
}

fn connection(to: &HostPort) -> Connection {
    Connection { to: to.as_str().to_owned(), ..Connection::default() }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn ms_since(began_us: u64) -> u64 {
    clock::mono_us().saturating_sub(began_us) / 1_000
}
