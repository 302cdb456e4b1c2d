//! The host's figures with a verdict.
//!
//! Integers and text only: a load average is the kernel's own `0.25`.

use super::pressure::{hundredths, minute, pressure};
use super::view::{Disk, HostView};
use crate::tools::builtin::answer::Answer;
use crate::tools::builtin::certificate::DAYS_LEFT_FEW;
use rustix::fs::fstatvfs;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use serde_json::{Map, Value, json};

/// Load average over one minute per processor, in hundredths.
const LOAD_PER_CPU_X100_WARN: u64 = 150;
const LOAD_PER_CPU_X100_CRITICAL: u64 = 400;
/// Available memory, in percent.
const MEMORY_AVAILABLE_PERCENT_WARN: u64 = 10;
const MEMORY_AVAILABLE_PERCENT_CRITICAL: u64 = 4;
/// Swap in use, in percent; full swap alone does no harm.
const SWAP_USED_PERCENT_WARN: u64 = 80;
/// Blocks or inodes in use, in percent.
const DISK_USED_PERCENT_WARN: u64 = 85;
const DISK_USED_PERCENT_CRITICAL: u64 = 95;
/// Share of the last minute in which tasks stalled, in hundredths of a percent. A task that waits
/// for a processor is common; one that waits for memory is not.
const PRESSURES: [StallLimit; 3] = [
    StallLimit { name: "cpu", who: "some", warn: 5_000, critical: 9_000 },
    StallLimit { name: "io", who: "full", warn: 2_000, critical: 6_000 },
    StallLimit { name: "memory", who: "full", warn: 500, critical: 2_000 },
];
/// Time between the two samples of the processors, in nanoseconds.
const CPU_SAMPLE_NS: i64 = 50_000_000;

/// The limits of one file of `/proc/pressure`.
struct StallLimit {
    name: &'static str,
    who: &'static str,
    warn: u64,
    critical: u64,
}

/// The severity of a figure; the worst of all is the verdict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Ok,
    Warning,
    Critical,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// High values are bad.
    fn above(value: u64, warn: u64, critical: u64) -> Self {
        match value {
            _ if value >= critical => Self::Critical,
            _ if value >= warn => Self::Warning,
            _ => Self::Ok,
        }
    }
}

struct HealthCheck {
    name: &'static str,
    /// The file system, if it is about one.
    mount: Option<String>,
    /// The file, if it is about one.
    path: Option<String>,
    status: Status,
    detail: String,
}

/// Reads every figure and judges it. An unreadable figure is left out and counts as a warning, but
/// for the pressures, which not every kernel has.
pub(super) fn health_check(view: &HostView<'_>) -> Answer {
    let mut checks = Vec::new();
    let before = view.figures("stat");
    // An interrupted sleep only makes the sample shorter.
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: CPU_SAMPLE_NS });
    let cpu = cpu(&before, &view.figures("stat"));
    let count = cpu.get("count").and_then(Value::as_u64).unwrap_or(1);
    let load = load(&view.figures("loadavg"), count, &mut checks);
    let meminfo = view.figures("meminfo");
    let memory = memory(&meminfo, &mut checks);
    let swap = swap(&meminfo, &mut checks);
    let pressures: Map<String, Value> =
        PRESSURES.iter().filter_map(|limit| stalls(view, limit, &mut checks)).collect();
    let (judged, left): (Vec<&Disk>, Vec<&Disk>) = view.host.disks.iter().partition(|disk| is_judged(disk));
    let disks: Vec<Value> = judged.into_iter().map(|at| disk(at, &mut checks)).collect();
    if !left.is_empty() {
        view.note("file_systems_of_the_running_system");
    }
    let uptime = view.figures("uptime");
    checks.extend(facts(view));
    checks.extend(certificates(view));

    let worst = checks.iter().map(|check| check.status).max().unwrap_or(Status::Warning);
    Ok(json!({
        "verdict": worst.as_str(),
        "checks": checks.into_iter().map(HealthCheck::listed).collect::<Vec<_>>(),
        "load": load,
        "cpu": cpu,
        "memory": memory,
        "swap": swap,
        "pressure": pressures,
        "disks": disks,
        "uptime_s": uptime.split('.').next().and_then(|s| s.parse::<u64>().ok()).unwrap_or(0),
        "kernel": view.host.kernel,
        "hostname": view.host.hostname,
    }))
}

impl HealthCheck {
    fn listed(self) -> Value {
        let mut one = json!({ "name": self.name, "status": self.status.as_str(), "detail": self.detail });
        if let Some(members) = one.as_object_mut() {
            members.extend(self.mount.map(|mount| ("mount".to_owned(), json!(mount))));
            members.extend(self.path.map(|path| ("path".to_owned(), json!(path))));
        }
        one
    }
}

/// The checks of what is known without `/proc`. What is not known is not judged.
fn facts(view: &HostView<'_>) -> Vec<HealthCheck> {
    let mut checks = Vec::new();
    let mut judge = |name, what: Option<(Status, String)>, source| match what {
        Some((status, detail)) => checks.push(HealthCheck { name, mount: None, path: None, status, detail }),
        None => view.note(source),
    };
    let one_of = |flag: bool, good: &str, bad: &str| match flag {
        true => (Status::Ok, good.to_owned()),
        false => (Status::Warning, bad.to_owned()),
    };
    let failed = view.facts.failed_units.map(|count| match count {
        0 => (Status::Ok, "none failed".to_owned()),
        count => (Status::Warning, format!("{count} failed")),
    });
    judge("units", failed, "system_bus");
    let clock = view.facts.is_clock_synchronized;
    judge("clock", clock.map(|is| one_of(is, "synchronized", "not synchronized")), "clock");
    let reboot = view.facts.needs_reboot;
    judge(
        "reboot",
        reboot.map(|needs| one_of(!needs, "not needed", "needed by an update")),
        "reboot-required",
    );
    checks
}

/// The check of certificates; none if none was found.
fn certificates(view: &HostView<'_>) -> Option<HealthCheck> {
    let Some(ends) = &view.facts.certificates else {
        view.note("certificates");
        return None;
    };
    if ends.is_cut {
        view.note("further_certificates");
    }
    if ends.unreadable > 0 {
        view.note("unreadable_certificates");
    }
    let (path, _) = ends.first.as_ref()?;
    let (status, detail) = match (ends.ended, ends.soon) {
        (0, 0) => (Status::Ok, format!("none of {} ends within {DAYS_LEFT_FEW} days", ends.seen)),
        (0, soon) => (Status::Warning, format!("{soon} of {} end within {DAYS_LEFT_FEW} days", ends.seen)),
        (ended, _) => (Status::Critical, format!("{ended} of {} have ended", ends.seen)),
    };
    // A path with other characters would make the result untrusted.
    let is_plain =
        |path: &&String| status != Status::Ok && path.len() <= 255 && path.bytes().all(is_path_byte);
    let path = Some(path).filter(is_plain).cloned();
    Some(HealthCheck { name: "certificates", mount: None, path, status, detail })
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._+~@-".contains(&byte)
}

/// One pressure, and the check of it.
fn stalls(view: &HostView<'_>, limit: &StallLimit, checks: &mut Vec<HealthCheck>) -> Option<(String, Value)> {
    let (name, found) = match limit.name {
        "cpu" => ("cpu pressure", view.figures("pressure/cpu")),
        "io" => ("io pressure", view.figures("pressure/io")),
        _ => ("memory pressure", view.figures("pressure/memory")),
    };
    let found = pressure(&found);
    let (text, share) = minute(&found, limit.who)?;
    let status = Status::above(share, limit.warn, limit.critical);
    let detail = format!("{text} % of the last minute stalled");
    checks.push(HealthCheck { name, mount: None, path: None, status, detail });
    Some((limit.name.to_owned(), found))
}

/// What a check says of a figure that could not be read.
const UNREADABLE: &str = "cannot be read";

/// As the kernel writes it: PAR's JSON has no fractions.
fn load(text: &str, cpus: u64, checks: &mut Vec<HealthCheck>) -> Value {
    let mut words = text.split(' ');
    let averages = [words.next(), words.next(), words.next()];
    let [Some((minute, load)), Some((five, _)), Some((fifteen, _))] =
        averages.map(|word| word.and_then(|word| Some((word, hundredths(word)?))))
    else {
        let detail = UNREADABLE.to_owned();
        checks.push(HealthCheck { name: "load", mount: None, path: None, status: Status::Warning, detail });
        return json!({});
    };
    let status = Status::above(load / cpus.max(1), LOAD_PER_CPU_X100_WARN, LOAD_PER_CPU_X100_CRITICAL);
    let detail = format!("{minute} on {cpus} processors");
    checks.push(HealthCheck { name: "load", mount: None, path: None, status, detail });
    json!({ "1m": minute, "5m": five, "15m": fifteen })
}

/// Processors, and how busy they were between the two texts of `/proc/stat`.
fn cpu(before: &str, after: &str) -> Value {
    let count = after
        .lines()
        .filter(|line| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
        .count();
    let (busy_a, all_a) = ticks(before);
    let (busy_b, all_b) = ticks(after);
    let busy = percent(busy_b.saturating_sub(busy_a), all_b.saturating_sub(all_a));
    json!({ "count": count.max(1), "busy_percent": busy })
}

/// Busy and total ticks of the first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let values: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).map_while(|v| v.parse().ok()).collect();
    let all = values.iter().sum::<u64>();
    let idle = values.iter().skip(3).take(2).sum::<u64>();
    (all - idle, all)
}

fn memory(meminfo: &str, checks: &mut Vec<HealthCheck>) -> Value {
    let total = meminfo_bytes(meminfo, "MemTotal");
    let available = meminfo_bytes(meminfo, "MemAvailable");
    let left = percent(available, total);
    if total == 0 {
        let detail = UNREADABLE.to_owned();
        checks.push(HealthCheck { name: "memory", mount: None, path: None, status: Status::Warning, detail });
        return json!({});
    }
    let status = match left {
        _ if left < MEMORY_AVAILABLE_PERCENT_CRITICAL => Status::Critical,
        _ if left < MEMORY_AVAILABLE_PERCENT_WARN => Status::Warning,
        _ => Status::Ok,
    };
    checks.push(HealthCheck {
        name: "memory",
        mount: None,
        path: None,
        status,
        detail: format!("{left} % available"),
    });
    json!({ "total_bytes": total, "available_bytes": available, "available_percent": left })
}

fn swap(meminfo: &str, checks: &mut Vec<HealthCheck>) -> Value {
    let total = meminfo_bytes(meminfo, "SwapTotal");
    let free = meminfo_bytes(meminfo, "SwapFree");
    let used = percent(total.saturating_sub(free), total);
    let status = Status::above(used, SWAP_USED_PERCENT_WARN, u64::MAX);
    let detail = if meminfo.is_empty() {
        UNREADABLE.to_owned()
    } else if total == 0 {
        "no swap".to_owned()
    } else {
        format!("{used} % used")
    };
    checks.push(HealthCheck { name: "swap", mount: None, path: None, status, detail });
    json!({ "total_bytes": total, "free_bytes": free, "used_percent": used })
}

pub(super) fn meminfo_bytes(meminfo: &str, key: &str) -> u64 {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = rest.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Whether how full it is matters: a disk, or memory that is not among what the running system
/// mounts for itself (file-hierarchy(7)).
fn is_judged(disk: &Disk) -> bool {
    let of_system = ["/run", "/dev", "/proc", "/sys"];
    disk.is_disk || !of_system.iter().any(|at| std::path::Path::new(&disk.mount).starts_with(at))
}

fn disk(disk: &Disk, checks: &mut Vec<HealthCheck>) -> Value {
    let (name, mount) = ("disk", Some(disk.mount.clone()));
    let Ok(stat) = fstatvfs(&disk.folder) else {
        checks.push(HealthCheck {
            name,
            mount,
            path: None,
            status: Status::Warning,
            detail: UNREADABLE.to_owned(),
        });
        return json!({ "mount": disk.mount });
    };
    let used_blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
    // As `df` counts: blocks reserved for root are not free.
    let used = percent_up(used_blocks, used_blocks.saturating_add(stat.f_bavail));
    let inodes = percent_up(stat.f_files.saturating_sub(stat.f_ffree), stat.f_files);
    let judge = |used| Status::above(used, DISK_USED_PERCENT_WARN, DISK_USED_PERCENT_CRITICAL);
    for (name, used, of) in [("disk", used, "space"), ("inodes", inodes, "inodes")] {
        let (mount, detail) = (mount.clone(), format!("{used} % of {of} used"));
        checks.push(HealthCheck { name, mount, path: None, status: judge(used), detail });
    }
    json!({
        "mount": disk.mount,
        "total_bytes": stat.f_blocks.saturating_mul(stat.f_frsize),
        "free_bytes": stat.f_bavail.saturating_mul(stat.f_frsize),
        "used_percent": used,
        "inodes_used_percent": inodes,
    })
}

pub(super) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

pub(super) fn percent_up(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100)
        .checked_add(whole.saturating_sub(1))
        .and_then(|v| v.checked_div(whole))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Status, percent_up, ticks};

    #[test]
    fn figures_are_read_as_the_kernel_writes_them() {
        assert_eq!(ticks("cpu  10 1 5 100 4 0 0 0 7 7\ncpu0 1"), (16, 120));
        assert_eq!(percent_up(1, 1000), 1);
        assert_eq!(percent_up(0, 0), 0);
        assert_eq!(Status::above(95, 85, 95).as_str(), "critical");
    }
}
