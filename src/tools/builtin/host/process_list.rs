//! The processes that use most of something. Names and states only: command lines hold secrets.

use super::process::{ProcessStat, ProcessStatus, TICKS_PER_S, uptime_ticks};
use super::view::HostView;
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::types::clock::mono_us;
use rustix::io::Errno;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Processes that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 15;
/// Processes that are read.
const PROCESSES_MAX: usize = 20_000;
/// Time between the two samples of the processor time, in nanoseconds.
const SAMPLE_NS: i64 = 500_000_000;

/// What the list is sorted by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SortedBy {
    Cpu,
    Memory,
    Io,
}

impl SortedBy {
    fn of(arguments: &Value) -> Self {
        match arguments.get("sort").and_then(Value::as_str) {
            Some("memory") => Self::Memory,
            Some("io") => Self::Io,
            _ => Self::Cpu,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// All processes that are visible, counted by state; the first of them listed.
pub(super) fn process_list(view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let by = SortedBy::of(arguments);
    let (before, unreadable) = all(view)?;
    let mut sampled_ms = 0;
    let mut now = before.clone();
    if by == SortedBy::Cpu {
        let began = mono_us();
        // An interrupted sleep only makes the sample shorter.
        let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: SAMPLE_NS });
        now = all(view)?.0;
        sampled_ms = (mono_us().saturating_sub(began) / 1_000).max(1);
    }
    note_hidden(view, &now, unreadable, by);
    let used = |stat: &ProcessStat| used_ticks(before.get(&stat.pid), stat);
    let mut order: Vec<&ProcessStat> = now.values().collect();
    order.sort_by_key(|stat| {
        std::cmp::Reverse(match by {
            SortedBy::Cpu => (used(stat), stat.ticks),
            SortedBy::Memory => (stat.pages, 0),
            SortedBy::Io => (u64::from(stat.state == "waiting_for_disk"), stat.io_wait_ticks),
        })
    });
    let uptime = uptime_ticks(view);
    let mut list = Fitting::new(
        integer(arguments, "limit", LIMIT_DEFAULT),
        output_bytes_max.saturating_sub(FRAME_BYTES),
    );
    for stat in order {
        if list.is_full() {
            break;
        }
        let mut one = stat.members(uptime);
        let percent = (used(stat).saturating_mul(100_000) / TICKS_PER_S).checked_div(sampled_ms);
        one.extend(percent.map(|percent| ("cpu_percent_of_one_core".to_owned(), json!(percent))));
        put_status(view, stat, &mut one);
        list.push(Value::Object(one));
    }
    let (processes, _) = list.finish();
    Ok(json!({
        "sorted_by": by.as_str(),
        "sampled_ms": sampled_ms,
        "processes_seen": now.len(),
        "threads_seen": now.values().map(|stat| stat.threads).sum::<u64>(),
        "processes_unreadable": unreadable,
        "states": states(&now),
        "truncated": processes.len() < now.len(),
        "processes": processes,
    }))
}

/// Every process that is listed, and how many of them could not be read.
fn all(view: &HostView<'_>) -> Result<(BTreeMap<u32, ProcessStat>, u64), String> {
    let pids = view.proc.processes().map_err(|e| format!("the processes cannot be listed: {e}"))?;
    let mut unreadable = 0;
    let mut found = BTreeMap::new();
    for pid in pids.into_iter().take(PROCESSES_MAX) {
        match ProcessStat::read(view, pid) {
            Ok(stat) => {
                found.insert(pid, stat);
            }
            // It ended in between.
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(_) => unreadable += 1,
        }
    }
    Ok((found, unreadable))
}

/// Ticks used between two readings. A process that started in between used all that it has; one
/// with the same pid that started later is another.
fn used_ticks(before: Option<&ProcessStat>, now: &ProcessStat) -> u64 {
    let earlier = before.filter(|before| before.started_ticks == now.started_ticks);
    now.ticks.saturating_sub(earlier.map_or(0, |before| before.ticks))
}

/// Owner and sizes, which are in another file.
fn put_status(view: &HostView<'_>, stat: &ProcessStat, one: &mut Map<String, Value>) {
    let Ok(status) = ProcessStatus::read(view, stat.pid) else { return };
    if let Some(uid) = status.uid() {
        view.put_user(one, uid);
    }
    let sizes = [("memory_bytes", "VmRSS"), ("swap_bytes", "VmSwap")];
    for (name, value) in sizes.into_iter().filter_map(|(name, line)| Some((name, status.bytes(line)?))) {
        one.insert(name.to_owned(), json!(value));
    }
    if stat.io_wait_ticks > 0 {
        let waited = stat.io_wait_ticks.saturating_mul(1_000) / TICKS_PER_S;
        one.insert("io_wait_ms".to_owned(), json!(waited));
    }
}

fn states(all: &BTreeMap<u32, ProcessStat>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for stat in all.values() {
        *counts.entry(stat.state).or_default() += 1;
    }
    counts
}

fn note_hidden(view: &HostView<'_>, all: &BTreeMap<u32, ProcessStat>, unreadable: u64, by: SortedBy) {
    // The kernel shows the bytes that a process reads and writes only to its owner, and not from
    // inside a sandbox.
    view.note("bytes_read_and_written_by_process");
    view.note("arguments");
    if unreadable > 0 || !all.contains_key(&1) {
        view.note("processes_of_other_users");
    }
    if all.len() >= PROCESSES_MAX {
        view.note("further_processes");
    }
    if by == SortedBy::Io && view.figures("sys/kernel/task_delayacct").trim() != "1" {
        view.note("time_waited_for_disks");
    }
}
