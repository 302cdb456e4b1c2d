//! Which names in the host's `/proc` each tool may read.

use crate::tools::manifest::words::Builtin;
use rustix::io::Errno;

/// The names that one tool may read, relative to `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcNames {
    /// Files.
    pub files: &'static [&'static str],
    /// Files of each process, relative to its folder. If there are any, the tool may also list the
    /// processes.
    pub of_process: &'static [&'static str],
}

/// Reads the host's `/proc` for one call. A name that the tool's row does not list is refused with
/// `EACCES`.
pub trait ProcFiles {
    /// The first `most` bytes of a file.
    fn file(&self, name: &str, most: usize) -> Result<Vec<u8>, Errno>;

    /// The first `most` bytes of a file of the process `pid`.
    fn of_process(&self, pid: u32, name: &str, most: usize) -> Result<Vec<u8>, Errno>;

    /// The processes that are listed, in any order.
    fn processes(&self) -> Result<Vec<u32>, Errno>;
}

/// The row of a tool. `environ`, `maps`, `fd` and other names that show what a process has in its
/// memory are in no row, and the kernel refuses them to every tool as well.
#[must_use]
pub const fn proc_names(which: Builtin) -> ProcNames {
    let (files, of_process): (&[&str], &[&str]) = match which {
        Builtin::HealthCheck => {
            (&["loadavg", "meminfo", "stat", "uptime", "pressure/cpu", "pressure/io", "pressure/memory"], &[])
        }
        Builtin::MemoryUsage => (&["meminfo", "vmstat", "pressure/memory"], &[]),
        Builtin::DiskUsage => (&["1/mountinfo"], &[]),
        Builtin::DiskIo => (&["diskstats", "pressure/io"], &[]),
        Builtin::ProcessList => (&["uptime", "sys/kernel/task_delayacct"], &["stat", "status"]),
        Builtin::ProcessInfo => (&["uptime"], &["stat", "status", "cgroup", "oom_score", "cmdline"]),
        Builtin::ListeningPorts | Builtin::Connections => {
            (&["1/net/tcp", "1/net/tcp6", "1/net/udp", "1/net/udp6"], &[])
        }
        Builtin::Interfaces => (&["1/net/dev", "1/net/route", "1/net/fib_trie", "1/net/if_inet6"], &[]),
        _ => (&[], &[]),
    };
    ProcNames { files, of_process }
}

impl ProcNames {
    /// Whether the tool reads nothing of `/proc`.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.of_process.is_empty()
    }
}
