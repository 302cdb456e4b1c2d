//! Memory and swap, and how much work waits for them.

use super::health_check::{meminfo_bytes, percent};
use super::pressure::pressure;
use super::view::HostView;
use crate::tools::builtin::answer::Answer;
use serde_json::{Map, Value, json};

/// Members of the answer, each with its line in `/proc/meminfo` (proc_meminfo(5)).
const PARTS: [(&str, &str); 12] = [
    ("total_bytes", "MemTotal"),
    ("free_bytes", "MemFree"),
    ("available_bytes", "MemAvailable"),
    ("buffers_bytes", "Buffers"),
    ("page_cache_bytes", "Cached"),
    ("shared_bytes", "Shmem"),
    ("programs_bytes", "AnonPages"),
    ("kernel_reclaimable_bytes", "SReclaimable"),
    ("kernel_unreclaimable_bytes", "SUnreclaim"),
    ("page_tables_bytes", "PageTables"),
    ("not_yet_written_bytes", "Dirty"),
    ("huge_pages_bytes", "Hugetlb"),
];
/// Counters in `/proc/vmstat`.
const COUNTERS: [(&str, &str); 3] =
    [("oom_kills", "oom_kill"), ("pages_swapped_in", "pswpin"), ("pages_swapped_out", "pswpout")];

/// Reads both tables and the pressure. A line that this kernel does not have is left out.
pub(super) fn memory_usage(view: &HostView<'_>) -> Answer {
    let meminfo = view.figures("meminfo");
    let has = |key: &str| meminfo.lines().any(|line| line.starts_with(&format!("{key}:")));
    let part =
        |(name, key): (&str, &str)| has(key).then(|| (name.to_owned(), json!(meminfo_bytes(&meminfo, key))));
    let mut memory: Map<String, Value> = PARTS.into_iter().filter_map(part).collect();
    let total = meminfo_bytes(&meminfo, "MemTotal");
    let available = meminfo_bytes(&meminfo, "MemAvailable");
    memory.insert("available_percent".to_owned(), json!(percent(available, total)));
    let (swap, swap_free) = (meminfo_bytes(&meminfo, "SwapTotal"), meminfo_bytes(&meminfo, "SwapFree"));
    let used = swap.saturating_sub(swap_free);
    let vmstat = view.figures("vmstat");
    let counter = |(name, key): (&str, &str)| {
        let value = vmstat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        Some((name.to_owned(), json!(value.parse::<u64>().ok()?)))
    };
    Ok(json!({
        "memory": memory,
        "swap": { "total_bytes": swap, "used_bytes": used, "used_percent": percent(used, swap) },
        "since_start": COUNTERS.into_iter().filter_map(counter).collect::<Map<String, Value>>(),
        "pressure": pressure(&view.figures("pressure/memory")),
    }))
}
