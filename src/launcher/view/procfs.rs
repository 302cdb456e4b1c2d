//! What the launcher opens on the host before anything is confined, and keeps.

use super::files::open_path;
use crate::tools::builtin::{Disk, Host};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};

/// Limit on the mounted file systems that are examined.
const DISKS_MAX: usize = 32;
/// File systems that store no files of their own, or whose figures come over a network that may
/// hang.
const NOT_DISKS: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "cifs",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfs",
    "nfs4",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smb3",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// Opens the figures of the host for `health_check`.
pub(crate) fn open_host() -> Result<Host, String> {
    Ok(Host {
        loadavg: open_figure("/proc/loadavg")?,
        meminfo: open_figure("/proc/meminfo")?,
        stat: open_figure("/proc/stat")?,
        uptime: open_figure("/proc/uptime")?,
        kernel: read_word("/proc/sys/kernel/osrelease"),
        hostname: read_word("/proc/sys/kernel/hostname"),
        disks: open_disks(),
    })
}

fn open_figure(path: &str) -> Result<OwnedFd, String> {
    openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|e| format!("`{path}`: {e}"))
}

fn read_word(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Where core dumps go (core(5)). `None` if it cannot be read.
pub(crate) fn core_pattern() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/core_pattern").ok()
}

/// Real mount points, each file system once, in the order of the mount table.
fn open_disks() -> Vec<Disk> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut seen = Vec::new();
    let mut disks = Vec::new();
    for mount in table.lines().filter_map(disk_mount) {
        let Ok(folder) = open_path(mount.as_str()) else { continue };
        // An automount is not triggered by `O_PATH`.
        let Ok(stat) = fstat(&folder) else { continue };
        if disks.len() < DISKS_MAX && !seen.contains(&stat.st_dev) {
            seen.push(stat.st_dev);
            disks.push(Disk { mount, folder });
        }
    }
    disks
}

/// The mount point of a line of `mountinfo` (proc_pid_mountinfo(5)), if a disk is mounted there.
fn disk_mount(line: &str) -> Option<String> {
    let (front, back) = line.split_once(" - ")?;
    let kind = back.split(' ').next()?;
    let mount = front.split(' ').nth(4)?;
    let real = !NOT_DISKS.contains(&kind) && !kind.starts_with("fuse");
    // Spaces and the like are octal escapes; such a mount is left out rather than guessed.
    (real && !mount.contains('\\')).then(|| mount.to_owned())
}

/// Address space that this process maps, in bytes; children start with the same amount.
pub(crate) fn mapped_bytes(proc: impl AsFd) -> u64 {
    let mut status = String::new();
    let file = openat(proc, "self/status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    // If it cannot be read, children get less memory, never more.
    file.ok().and_then(|file| std::fs::File::from(file).read_to_string(&mut status).ok());
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::disk_mount;

    #[test]
    fn disks_are_distinguished_from_other_mounts() {
        for (line, expect) in [
            ("25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw", Some("/")),
            ("26 25 0:5 / /proc rw - proc proc rw", None),
            ("26 25 0:5 / /mnt/a\\040b rw - ext4 /dev/vdb rw", None),
            ("26 25 0:5 / /home rw - fuse.sshfs x rw", None),
            ("26 25", None),
        ] {
            assert_eq!(disk_mount(line).as_deref(), expect, "{line}");
        }
    }
}
