//! Runs one report.

use super::view::HostView;
use super::{
    connections, disk_io, disk_usage, health_check, interfaces, listening_ports, memory_usage, process_info,
    process_list,
};
use crate::tools::builtin::answer::{Answer, stamped};
use crate::tools::manifest::words::Builtin;
use serde_json::Value;

/// The report of the tool `which`, with its time, the host's name and what was not seen. It fits
/// `output_bytes_max`.
pub fn report(which: Builtin, view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let answer = match which {
        Builtin::HealthCheck => health_check::health_check(view),
        Builtin::MemoryUsage => memory_usage::memory_usage(view),
        Builtin::DiskUsage => disk_usage::disk_usage(view, arguments, output_bytes_max),
        Builtin::DiskIo => disk_io::disk_io(view, arguments, output_bytes_max),
        Builtin::ProcessList => process_list::process_list(view, arguments, output_bytes_max),
        Builtin::ProcessInfo => process_info::process_info(view, arguments),
        Builtin::ListeningPorts => listening_ports::listening_ports(view, arguments, output_bytes_max),
        Builtin::Connections => connections::connections(view, arguments, output_bytes_max),
        Builtin::Interfaces => interfaces::interfaces(view, arguments, output_bytes_max),
        _ => Err("this tool does not report on the host".to_owned()),
    };
    let mut answer = stamped(answer?, &view.host.hostname);
    if let Some(members) = answer.as_object_mut() {
        members.insert("not_seen".to_owned(), view.not_seen());
    }
    Ok(answer)
}
