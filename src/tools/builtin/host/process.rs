//! One process, as its folder in `/proc` shows it (proc_pid_stat(5), proc_pid_status(5)).
//!
//! Its name is its own choice: any 15 bytes.

use super::view::HostView;
use crate::tools::builtin::answer::put_text;
use rustix::io::Errno;
use serde_json::{Map, Value, json};

/// Ticks in a second of what the kernel tells user space, on every architecture here.
pub(super) const TICKS_PER_S: u64 = 100;
/// Size of `stat` and `status` that is read, in bytes.
const FILE_BYTES_MAX: usize = 8 << 10;
/// A flag of a thread of the kernel.
const KERNEL_THREAD: u64 = 0x20_0000;

/// The line in `stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessStat {
    pub(super) pid: u32,
    pub(super) name: Vec<u8>,
    pub(super) state: &'static str,
    pub(super) parent: u32,
    pub(super) is_kernel: bool,
    /// Processor time since its start, in ticks.
    pub(super) ticks: u64,
    pub(super) threads: u64,
    /// When it started, in ticks since the host's start: with the pid, its identity.
    pub(super) started_ticks: u64,
    /// Memory that it holds, in pages.
    pub(super) pages: u64,
    /// Time that it waited for disks, in ticks; 0 if the kernel does not account for it.
    pub(super) io_wait_ticks: u64,
}

impl ProcessStat {
    /// Reads the process `pid`.
    pub(super) fn read(view: &HostView<'_>, pid: u32) -> Result<Self, Errno> {
        let bytes = view.proc.of_process(pid, "stat", FILE_BYTES_MAX)?;
        Self::parse(&bytes).filter(|stat| stat.pid == pid).ok_or(Errno::INVAL)
    }

    /// The name may contain any byte but NUL; the last parenthesis ends it.
    fn parse(line: &[u8]) -> Option<Self> {
        let from = line.iter().position(|byte| *byte == b'(')?;
        let to = line.iter().rposition(|byte| *byte == b')')?;
        let pid = std::str::from_utf8(line.get(..from)?).ok()?.trim().parse().ok()?;
        let rest = std::str::from_utf8(line.get(to + 1..)?).ok()?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of these is the third field.
        let number = |field: usize| words.get(field.checked_sub(3)?)?.parse::<u64>().ok();
        Some(Self {
            pid,
            name: line.get(from + 1..to)?.to_vec(),
            state: state(words.first()?),
            parent: u32::try_from(number(4)?).ok()?,
            is_kernel: number(9)? & KERNEL_THREAD != 0,
            ticks: number(14)?.saturating_add(number(15)?),
            threads: number(20)?,
            started_ticks: number(22)?,
            pages: number(24)?,
            io_wait_ticks: number(42).unwrap_or(0),
        })
    }

    /// What lists and single reports both show.
    pub(super) fn members(&self, uptime_ticks: u64) -> Map<String, Value> {
        let mut one = Map::new();
        one.insert("pid".to_owned(), json!(self.pid));
        put_text(&mut one, ["name", "name_base64"], &self.name);
        one.insert("state".to_owned(), json!(self.state));
        one.insert("parent_pid".to_owned(), json!(self.parent));
        one.insert("threads".to_owned(), json!(self.threads));
        one.insert("cpu_time_s".to_owned(), json!(self.ticks / TICKS_PER_S));
        let age = uptime_ticks.saturating_sub(self.started_ticks) / TICKS_PER_S;
        one.insert("age_s".to_owned(), json!(age));
        if self.is_kernel {
            one.insert("is_kernel_thread".to_owned(), json!(true));
        }
        one
    }
}

fn state(letter: &str) -> &'static str {
    match letter {
        "R" => "running",
        "S" => "sleeping",
        "D" => "waiting_for_disk",
        "T" | "t" => "stopped",
        "Z" => "zombie",
        "I" => "idle",
        _ => "other",
    }
}

/// The lines of `status` that reports use.
#[derive(Debug, Default)]
pub(super) struct ProcessStatus(String);

impl ProcessStatus {
    pub(super) fn read(view: &HostView<'_>, pid: u32) -> Result<Self, Errno> {
        let bytes = view.proc.of_process(pid, "status", FILE_BYTES_MAX)?;
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The effective uid.
    pub(super) fn uid(&self) -> Option<u32> {
        self.line("Uid")?.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// A size, in bytes.
    pub(super) fn bytes(&self, name: &str) -> Option<u64> {
        self.line(name)?.trim_end_matches(" kB").trim().parse::<u64>().ok()?.checked_mul(1024)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.line(name)?.parse().ok()
    }

    /// The first line is the process's name, in which newlines are escaped.
    fn line(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines().skip(1);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }
}

/// How long the host runs, in ticks.
pub(super) fn uptime_ticks(view: &HostView<'_>) -> u64 {
    let text = view.figures("uptime");
    let first = text.split(' ').next().unwrap_or_default();
    super::pressure::hundredths(first).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ProcessStat, ProcessStatus};

    const REST: &str = " S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 3 0 900 4096 25 18446744073709551615 1 1 0 0 0 0 0 \
                        0 0 0 0 0 17 0 0 0 7 0 0";

    #[test]
    fn a_name_may_hold_any_byte() {
        for name in [&b"nginx"[..], b"a) S 9 9 (", b"x\ny", b"\xff\x1b[2J", b"", b")))"] {
            let line = [b"42 (", name, b")", REST.as_bytes()].concat();
            let stat = ProcessStat::parse(&line).expect("a process");
            let figures = (stat.pid, stat.parent, stat.ticks, stat.threads, stat.started_ticks);
            assert_eq!((stat.name.as_slice(), figures), (name, (42, 1, 200, 3, 900)));
            assert_eq!((stat.pages, stat.io_wait_ticks, stat.is_kernel), (25, 7, false));
        }
        for line in ["", "42", "42 (a", "42 a) S", "x (a) S 1", "42 (a) S 1 1"] {
            assert_eq!(ProcessStat::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_name_does_not_pass_for_a_line_of_status() {
        let status =
            ProcessStatus("Name:\tUid:\nUmask:\t0022\nUid:\t1\t33\t1\t1\nVmRSS:\t  12 kB\n".to_owned());
        assert_eq!(
            (status.uid(), status.bytes("VmRSS"), status.bytes("VmSwap")),
            (Some(33), Some(12_288), None)
        );
    }
}
