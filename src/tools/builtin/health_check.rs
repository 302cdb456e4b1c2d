//! The host's figures with a verdict, from descriptors that were opened before the process was
//! confined.
//!
//! Integers and text only: a load average is the kernel's own `0.25`.

use super::answer::Answer;
use rustix::fs::fstatvfs;
use rustix::io::pread;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use serde_json::{Value, json};
use std::os::fd::{AsFd, OwnedFd};

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
/// Time between the two samples of the processors, in nanoseconds.
const CPU_SAMPLE_NS: i64 = 50_000_000;
/// The longest part of a `/proc` file that is read, in bytes.
const FIGURE_BYTES_MAX: usize = 64 << 10;

/// What the check reads: descriptors of the host, opened by the launcher.
#[derive(Debug)]
pub struct Host {
    /// `/proc/loadavg`.
    pub loadavg: OwnedFd,
    /// `/proc/meminfo`.
    pub meminfo: OwnedFd,
    /// `/proc/stat`.
    pub stat: OwnedFd,
    /// `/proc/uptime`.
    pub uptime: OwnedFd,
    /// The kernel's release.
    pub kernel: String,
    /// The host's name.
    pub hostname: String,
    /// The mount points of real file systems.
    pub disks: Vec<Disk>,
}

/// One mounted file system.
#[derive(Debug)]
pub struct Disk {
    /// The mount point.
    pub mount: String,
    /// The folder at the mount point, opened with `O_PATH`.
    pub folder: OwnedFd,
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
    status: Status,
    detail: String,
}

/// Reads every figure and judges it. An unreadable figure is left out and counts as a warning.
pub fn health_check(host: &Host) -> Answer {
    let mut checks = Vec::new();
    let before = read(&host.stat);
    // An interrupted sleep only makes the sample shorter.
    let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: CPU_SAMPLE_NS });
    let cpu = cpu(&before, &read(&host.stat));
    let load = load(&read(&host.loadavg), cpu.get("count").and_then(Value::as_u64).unwrap_or(1), &mut checks);
    let meminfo = read(&host.meminfo);
    let memory = memory(&meminfo, &mut checks);
    let swap = swap(&meminfo, &mut checks);
    let disks: Vec<Value> = host.disks.iter().map(|at| disk(at, &mut checks)).collect();
    let uptime = read(&host.uptime);

    let worst = checks.iter().map(|check| check.status).max().unwrap_or(Status::Warning);
    let listed: Vec<Value> = checks
        .iter()
        .map(|check| {
            let mut one =
                json!({ "name": check.name, "status": check.status.as_str(), "detail": check.detail });
            if let (Some(mount), Some(members)) = (&check.mount, one.as_object_mut()) {
                members.insert("mount".to_owned(), json!(mount));
            }
            one
        })
        .collect();
    Ok(json!({
        "verdict": worst.as_str(),
        "checks": listed,
        "load": load,
        "cpu": cpu,
        "memory": memory,
        "swap": swap,
        "disks": disks,
        "uptime_s": uptime.split('.').next().and_then(|s| s.parse::<u64>().ok()).unwrap_or(0),
        "kernel": host.kernel,
        "hostname": host.hostname,
    }))
}

fn load(text: &str, cpus: u64, checks: &mut Vec<HealthCheck>) -> Value {
    let shown = text.split(' ').next().unwrap_or("unknown");
    let status = hundredths(shown).map_or(Status::Warning, |one| {
        Status::above(one / cpus.max(1), LOAD_PER_CPU_X100_WARN, LOAD_PER_CPU_X100_CRITICAL)
    });
    checks.push(HealthCheck {
        name: "load",
        mount: None,
        status,
        detail: format!("{shown} on {cpus} processors"),
    });
    // As the kernel writes them: PAR's JSON has no fractions.
    let mut words = text.split(' ').map(|word| json!(word));
    let mut word = || words.next().unwrap_or_default();
    json!({ "1m": word(), "5m": word(), "15m": word() })
}

/// `0.25` → 25.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let part = part.get(..2)?.parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part)
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
    let status = match left {
        _ if left < MEMORY_AVAILABLE_PERCENT_CRITICAL => Status::Critical,
        _ if left < MEMORY_AVAILABLE_PERCENT_WARN => Status::Warning,
        _ => Status::Ok,
    };
    checks.push(HealthCheck { name: "memory", mount: None, status, detail: format!("{left} % available") });
    json!({ "total_bytes": total, "available_bytes": available, "available_percent": left })
}

fn swap(meminfo: &str, checks: &mut Vec<HealthCheck>) -> Value {
    let total = meminfo_bytes(meminfo, "SwapTotal");
    let free = meminfo_bytes(meminfo, "SwapFree");
    let used = percent(total.saturating_sub(free), total);
    let status = Status::above(used, SWAP_USED_PERCENT_WARN, u64::MAX);
    let detail = if total == 0 { "no swap".to_owned() } else { format!("{used} % used") };
    checks.push(HealthCheck { name: "swap", mount: None, status, detail });
    json!({ "total_bytes": total, "free_bytes": free, "used_percent": used })
}

fn meminfo_bytes(meminfo: &str, key: &str) -> u64 {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = rest.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn disk(disk: &Disk, checks: &mut Vec<HealthCheck>) -> Value {
    let (name, mount) = ("disk", Some(disk.mount.clone()));
    let Ok(stat) = fstatvfs(&disk.folder) else {
        checks.push(HealthCheck {
            name,
            mount,
            status: Status::Warning,
            detail: "cannot be read".to_owned(),
        });
        return json!({ "mount": disk.mount });
    };
    let used_blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
    // As `df` counts: blocks reserved for root are not free.
    let used = percent_up(used_blocks, used_blocks.saturating_add(stat.f_bavail));
    let inodes = percent_up(stat.f_files.saturating_sub(stat.f_ffree), stat.f_files);
    let status = Status::above(used.max(inodes), DISK_USED_PERCENT_WARN, DISK_USED_PERCENT_CRITICAL);
    checks.push(HealthCheck {
        name,
        mount,
        status,
        detail: format!("{used} % of space, {inodes} % of inodes used"),
    });
    json!({
        "mount": disk.mount,
        "total_bytes": stat.f_blocks.saturating_mul(stat.f_frsize),
        "free_bytes": stat.f_bavail.saturating_mul(stat.f_frsize),
        "used_percent": used,
        "inodes_used_percent": inodes,
    })
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

fn percent_up(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100)
        .checked_add(whole.saturating_sub(1))
        .and_then(|v| v.checked_div(whole))
        .unwrap_or(0)
}

/// The start of a file as text, lossy and bounded; empty if it cannot be read.
fn read(figure: &OwnedFd) -> String {
    let mut bytes = vec![0_u8; FIGURE_BYTES_MAX];
    let mut filled = 0;
    while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
        match pread(figure.as_fd(), free, filled as u64) {
            Ok(read) if read > 0 => filled += read,
            _ => break,
        }
    }
    bytes.truncate(filled);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Disk, Host, Status, health_check, hundredths, percent_up, ticks};
    use std::os::fd::OwnedFd;

    #[test]
    fn figures_are_read_as_the_kernel_writes_them() {
        assert_eq!(hundredths("12.34"), Some(1234));
        assert_eq!(hundredths("x"), None);
        assert_eq!(ticks("cpu  10 1 5 100 4 0 0 0 7 7\ncpu0 1"), (16, 120));
        assert_eq!(percent_up(1, 1000), 1);
        assert_eq!(percent_up(0, 0), 0);
        assert_eq!(Status::above(95, 85, 95).as_str(), "critical");
    }

    #[test]
    fn this_host_has_a_verdict_and_no_fractions() {
        let open = |path: &str| OwnedFd::from(std::fs::File::open(path).expect(path));
        let host = Host {
            loadavg: open("/proc/loadavg"),
            meminfo: open("/proc/meminfo"),
            stat: open("/proc/stat"),
            uptime: open("/proc/uptime"),
            kernel: "k".to_owned(),
            hostname: "h".to_owned(),
            disks: vec![Disk { mount: "/".to_owned(), folder: open("/") }],
        };
        let answer = health_check(&host).expect("figures");
        assert!(["ok", "warning", "critical"].contains(&answer["verdict"].as_str().unwrap_or_default()));
        let shipped: toml::Value =
            toml::from_str(include_str!("../../../tools.d/health_check.toml")).expect("TOML");
        let schema = serde_json::to_value(&shipped["output_schema"]).expect("a schema");
        let schema = crate::tools::OutputSchema::read(&schema).expect("closed");
        assert_eq!(schema.check(answer.as_object().expect("an object")), Ok(()), "{answer}");
        assert!(answer["memory"]["total_bytes"].as_u64().unwrap_or(0) > 0);
        assert!(answer["disks"][0]["total_bytes"].as_u64().unwrap_or(0) > 0);
        assert!(crate::types::json::has_only_exact_integers(&answer));
    }
}
