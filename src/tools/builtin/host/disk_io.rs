//! What the disks do now.

use super::pressure::pressure;
use super::view::HostView;
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::types::clock::mono_us;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Devices that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 20;
/// Time between the two samples, in nanoseconds.
const SAMPLE_NS: i64 = 500_000_000;
/// The unit of sizes in the kernel's table, in bytes, whatever the device's own.
const SECTOR_BYTES: u64 = 512;

/// Counters of one device (the kernel's `iostats.rst`), each only growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DiskCounters {
    reads: u64,
    sectors_read: u64,
    reading_ms: u64,
    writes: u64,
    sectors_written: u64,
    writing_ms: u64,
    in_flight: u64,
    busy_ms: u64,
}

/// Rates over half a second of each device that was ever used, the busiest first. Partitions are
/// part of their disk.
pub(super) fn disk_io(view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let (before, began) = (devices(&view.figures("diskstats")), mono_us());
    // An interrupted sleep only makes the sample shorter.
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: SAMPLE_NS });
    let (after, ended) = (devices(&view.figures("diskstats")), mono_us());
    let sampled_ms = (ended.saturating_sub(began) / 1_000).max(1);
    let mut found: Vec<(u64, Value)> = after
        .iter()
        .map(|(name, now)| rates(name, before.get(name).unwrap_or(now), now, sampled_ms))
        .collect();
    found.sort_by(|(a, _), (b, _)| b.cmp(a));
    let limit = integer(arguments, "limit", LIMIT_DEFAULT);
    let mut list = Fitting::new(limit, output_bytes_max.saturating_sub(FRAME_BYTES));
    found.into_iter().for_each(|(_, one)| list.push(one));
    let (devices, truncated) = list.finish();
    Ok(json!({
        "sampled_ms": sampled_ms,
        "devices": devices,
        "truncated": truncated,
        "pressure": pressure(&view.figures("pressure/io")),
    }))
}

fn rates(name: &str, before: &DiskCounters, now: &DiskCounters, sampled_ms: u64) -> (u64, Value) {
    let grown = |part: fn(&DiskCounters) -> u64| part(now).saturating_sub(part(before));
    let a_second = |amount: u64| amount.saturating_mul(1_000) / sampled_ms;
    let (reads, writes) = (grown(|d| d.reads), grown(|d| d.writes));
    let waited = |ms: u64, many: u64| ms.checked_div(many).unwrap_or(0);
    let busy = grown(|d| d.busy_ms).saturating_mul(100) / sampled_ms;
    let one = json!({
        "device": name,
        "busy_percent": busy.min(100),
        "reads_per_s": a_second(reads),
        "read_bytes_per_s": a_second(grown(|d| d.sectors_read).saturating_mul(SECTOR_BYTES)),
        "read_wait_ms": waited(grown(|d| d.reading_ms), reads),
        "writes_per_s": a_second(writes),
        "written_bytes_per_s": a_second(grown(|d| d.sectors_written).saturating_mul(SECTOR_BYTES)),
        "write_wait_ms": waited(grown(|d| d.writing_ms), writes),
        "in_flight": now.in_flight,
    });
    (busy.saturating_mul(1_000_000).saturating_add(reads.saturating_add(writes)), one)
}

/// The counters of each whole device that was ever used.
fn devices(table: &str) -> BTreeMap<String, DiskCounters> {
    let all: BTreeMap<String, DiskCounters> = table.lines().filter_map(device).collect();
    let names: Vec<String> = all.keys().cloned().collect();
    let is_part = |name: &str| {
        let digits = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        let of = |whole: &String| {
            let rest = name.strip_prefix(whole.as_str()).unwrap_or_default();
            // `sda1`, `nvme0n1p1`, `mmcblk0p1`.
            let ends_in_digit = whole.ends_with(|c: char| c.is_ascii_digit());
            if ends_in_digit { rest.strip_prefix('p').is_some_and(digits) } else { digits(rest) }
        };
        names.iter().any(of)
    };
    all.into_iter()
        .filter(|(name, counters)| !is_part(name) && *counters != DiskCounters::default())
        .collect()
}

fn device(line: &str) -> Option<(String, DiskCounters)> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?.to_owned();
    let figures: Vec<u64> = words.map_while(|word| word.parse().ok()).take(10).collect();
    let [reads, _, sectors_read, reading_ms, writes, _, sectors_written, writing_ms, in_flight, busy_ms] =
        figures.as_slice().try_into().ok()?;
    let counters = DiskCounters {
        reads,
        sectors_read,
        reading_ms,
        writes,
        sectors_written,
        writing_ms,
        in_flight,
        busy_ms,
    };
    Some((name, counters))
}

#[cfg(test)]
mod tests {
    use super::{devices, rates};

    #[test]
    fn partitions_and_unused_devices_are_left_out() {
        let table = "   8       0 sda 10 0 80 5 20 0 160 7 1 9 12 0 0 0 0\n   8       1 sda1 10 0 80 5 20 0 160 7 0 9 12\n\
                     259 0 nvme0n1 1 0 8 1 0 0 0 0 0 1 1\n259 1 nvme0n1p1 1 0 8 1 0 0 0 0 0 1 1\n\
                     7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n254 16 vdb 3 0 8 1 0 0 0 0 0 1 1\n7 1 short 1 2\nnonsense";
        let found = devices(table);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["nvme0n1", "sda", "vdb"]);
        let one = rates("sda", &super::DiskCounters::default(), &found["sda"], 500).1;
        assert_eq!(
            (&one["reads_per_s"], &one["written_bytes_per_s"]),
            (&serde_json::json!(20), &serde_json::json!(163_840))
        );
    }
}
