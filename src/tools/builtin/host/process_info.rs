//! One process.

use super::arguments::arguments as command_line;
use super::process::{ProcessStat, ProcessStatus, uptime_ticks};
use super::view::HostView;
use crate::tools::builtin::answer::{Answer, put_text};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

/// Size of the command line that is read, in bytes.
const COMMAND_LINE_BYTES_MAX: usize = 64 << 10;
/// Size of the other files that are read, in bytes.
const FILE_BYTES_MAX: usize = 4 << 10;
/// Sizes in `status`.
const SIZES: [(&str, &str); 5] = [
    ("memory_bytes", "VmRSS"),
    ("memory_peak_bytes", "VmHWM"),
    ("own_memory_bytes", "RssAnon"),
    ("swap_bytes", "VmSwap"),
    ("address_space_bytes", "VmSize"),
];
/// Counters in `status`.
const COUNTERS: [(&str, &str); 2] =
    [("waits", "voluntary_ctxt_switches"), ("preemptions", "nonvoluntary_ctxt_switches")];

/// The process `pid`. Its arguments only if the call asks for them: a rule decides on that.
pub(super) fn process_info(view: &HostView<'_>, call: &Value) -> Answer {
    let pid = call.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let stat = ProcessStat::read(view, pid).map_err(|e| refused(pid, e))?;
    let mut one = stat.members(uptime_ticks(view));
    // With the pid, it says which process this is: a pid is used again.
    one.insert("started_ticks".to_owned(), json!(stat.started_ticks));
    if let Ok(status) = ProcessStatus::read(view, pid) {
        if let Some(uid) = status.uid() {
            view.put_user(&mut one, uid);
        }
        let sizes = SIZES.into_iter().filter_map(|(name, line)| Some((name, status.bytes(line)?)));
        let counts = COUNTERS.into_iter().filter_map(|(name, line)| Some((name, status.number(line)?)));
        one.extend(sizes.chain(counts).map(|(name, value)| (name.to_owned(), json!(value))));
    }
    if let Ok(group) = view.proc.of_process(pid, "cgroup", FILE_BYTES_MAX) {
        put_group(&mut one, &group);
    }
    let score = view.proc.of_process(pid, "oom_score", FILE_BYTES_MAX).ok();
    let score = score.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse::<u64>().ok());
    one.extend(score.map(|score| ("oom_score".to_owned(), json!(score))));
    let wants = call.get("arguments").and_then(Value::as_bool).unwrap_or(false);
    if wants {
        put_arguments(view, pid, &mut one);
    } else {
        view.note("arguments");
    }
    for what in ["environment", "open_files", "bytes_read_and_written"] {
        view.note(what);
    }
    // The pid may have passed to another process while its files were read.
    match ProcessStat::read(view, pid) {
        Ok(now) if now.started_ticks == stat.started_ticks => Ok(Value::Object(one)),
        Ok(_) => Err(refused(pid, Errno::SRCH)),
        Err(e) => Err(refused(pid, e)),
    }
}

fn refused(pid: u32, error: Errno) -> String {
    match error {
        Errno::NOENT | Errno::SRCH => format!("no process {pid} is visible"),
        error => format!("the process {pid} cannot be read: {error}"),
    }
}

fn put_arguments(view: &HostView<'_>, pid: u32, one: &mut Map<String, Value>) {
    match view.proc.of_process(pid, "cmdline", COMMAND_LINE_BYTES_MAX) {
        Ok(line) => {
            let (list, truncated) = command_line(&line);
            one.insert("arguments".to_owned(), json!(list));
            one.insert("truncated".to_owned(), json!(truncated || line.len() == COMMAND_LINE_BYTES_MAX));
        }
        Err(_) => view.note("arguments"),
    }
}

/// The group of the unified hierarchy (cgroups(7)), whose last part is the unit that systemd gave
/// it.
fn put_group(one: &mut Map<String, Value>, text: &[u8]) {
    let group = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::"));
    let Some(group) = group else { return };
    put_text(one, ["control_group", "control_group_base64"], group);
    let units = group.rsplit(|byte| *byte == b'/');
    let unit = units.into_iter().find(|part| part.ends_with(b".service") || part.ends_with(b".scope"));
    if let Some(unit) = unit {
        put_text(one, ["unit", "unit_base64"], unit);
    }
}
