//! Runs one tool that asks systemd.

use super::asked::UnitsAsked;
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
    asked: UnitsAsked<'_>,
    output_bytes_max: usize,
    host: &str,
) -> Told {
    let name = asked.arguments.get("service").and_then(Value::as_str).unwrap_or_default();
    let mut systemd = Systemd::new(BusClient::open(stream).map_err(said)?);
    let mut answer = match which {
        Builtin::ServiceRestart => return service_restart(&mut systemd, name),
        Builtin::ServiceStatus => service_status(&mut systemd, name),
        Builtin::ServiceList => service_list(&mut systemd, asked, output_bytes_max),
        Builtin::FailedUnits => failed_units(&mut systemd, asked, output_bytes_max),
        Builtin::TimerList => timer_list(&mut systemd, asked, output_bytes_max),
        _ => Err("this tool does not ask systemd".to_owned()),
    }?;
    if let Some(members) = answer.as_object_mut() {
        members.entry("not_seen").or_insert_with(|| json!([]));
        if which.lists_units() && !asked.left_out.is_empty() {
            // Not how many of them this list would have had: that would say how they are.
            members.insert("excluded".to_owned(), json!(asked.left_out.len()));
        }
    }
    Ok((stamped(answer, host), true))
}
