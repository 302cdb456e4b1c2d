//! Runs one tool that asks systemd.

use super::failed_units::failed_units;
use super::service_list::service_list;
use super::service_restart::service_restart;
use super::service_status::service_status;
use super::timer_list::timer_list;
use super::unit::said;
use crate::tools::builtin::answer::stamped;
use crate::tools::builtin::bus::{BusClient, Systemd};
use crate::tools::manifest::words::Builtin;
use serde_json::{Value, json};
use std::io::{Read, Write};

/// A result, and whether the call did what it was for. An error has no result but its reason.
pub type Told = Result<(Value, bool), String>;

/// Runs `which` over `stream`, a connection to the system bus. The result fits `output_bytes_max`.
pub fn ask_systemd(
    which: Builtin,
    stream: impl Read + Write,
    arguments: &Value,
    output_bytes_max: usize,
    host: &str,
) -> Told {
    let name = arguments.get("service").and_then(Value::as_str).unwrap_or_default();
    let mut systemd = Systemd::new(BusClient::open(stream).map_err(said)?);
    let mut answer = match which {
        Builtin::ServiceRestart => return service_restart(&mut systemd, name),
        Builtin::ServiceStatus => service_status(&mut systemd, name),
        Builtin::ServiceList => service_list(&mut systemd, arguments, output_bytes_max),
        Builtin::FailedUnits => failed_units(&mut systemd, arguments, output_bytes_max),
        Builtin::TimerList => timer_list(&mut systemd, arguments, output_bytes_max),
        _ => Err("this tool does not ask systemd".to_owned()),
    }?;
    if let Some(members) = answer.as_object_mut() {
        members.entry("not_seen").or_insert_with(|| json!([]));
    }
    Ok((stamped(answer, host), true))
}
