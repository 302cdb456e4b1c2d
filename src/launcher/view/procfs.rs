//! What the launcher opens on the host before anything is confined, and keeps.

use super::files::open_path;
use crate::tools::builtin::host::{Disk, Host, OVERFLOW_ID};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};

/// Limit on the mounted file systems that are examined.
const DISKS_MAX: usize = 64;
/// Users whose names are known.
const USERS_MAX: usize = 10_000;
/// Length of a user's name, in bytes (useradd(8)).
const USER_BYTES_MAX: usize = 32;
/// File systems in memory.
const IN_MEMORY: &[&str] = &["ramfs", "tmpfs"];
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
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smb3",
    "squashfs",
    "sysfs",
    "tracefs",
];

/// What reports on the host use in addition to `/proc`.
pub(crate) fn open_host() -> Host {
    Host {
        kernel: read_word("/proc/sys/kernel/osrelease"),
        hostname: read_word("/proc/sys/kernel/hostname"),
        users: users(&std::fs::read_to_string("/etc/passwd").unwrap_or_default()),
        disks: open_disks(),
        hides_owners: false,
    }
}

/// Whether the user namespace of this process has no [`OVERFLOW_ID`] of its own, so that this
/// number stands for every owner that the namespace does not have (user_namespaces(7)).
pub(crate) fn hides_owners() -> bool {
    let maps = ["/proc/self/uid_map", "/proc/self/gid_map"];
    maps.iter().any(|map| std::fs::read_to_string(map).is_ok_and(|map| !has_overflow_id(&map)))
}

/// Lines of first id inside, first id outside, and how many there are.
fn has_overflow_id(map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u32>().unwrap_or(0));
        let (first, _, count) = (numbers.next().unwrap_or(0), numbers.next(), numbers.next().unwrap_or(0));
        (first..first.saturating_add(count)).contains(&OVERFLOW_ID)
    })
}

/// The load, in which the init of a call counts forks.
pub(crate) fn open_loadavg() -> Result<OwnedFd, String> {
    let path = "/proc/loadavg";
    openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|e| format!("`{path}`: {e}"))
}

/// Names by uid (passwd(5)); the first line of a uid counts.
fn users(passwd: &str) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for line in passwd.lines().take(USERS_MAX) {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next().unwrap_or_default(), fields.nth(1).and_then(|uid| uid.parse().ok()));
        if let Some(uid) = uid.filter(|_| !name.is_empty() && name.len() <= USER_BYTES_MAX) {
            found.entry(uid).or_insert_with(|| name.to_owned());
        }
    }
    found
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
    for (mount, kind) in table.lines().filter_map(disk_mount) {
        let Ok(folder) = open_path(mount.as_str()) else { continue };
        // An automount is not triggered by `O_PATH`.
        let Ok(stat) = fstat(&folder) else { continue };
        if disks.len() < DISKS_MAX && !seen.contains(&stat.st_dev) {
            seen.push(stat.st_dev);
            let is_disk = !IN_MEMORY.contains(&kind.as_str());
            disks.push(Disk { mount, kind, is_disk, folder });
        }
    }
    disks
}

/// Mount point and type of a line of `mountinfo` (proc_pid_mountinfo(5)), if files are stored
/// there.
fn disk_mount(line: &str) -> Option<(String, String)> {
    let (front, back) = line.split_once(" - ")?;
    let kind = back.split(' ').next()?;
    let mount = front.split(' ').nth(4)?;
    let real = !NOT_DISKS.contains(&kind) && !kind.starts_with("fuse");
    // Spaces and the like are octal escapes; such a mount is left out rather than guessed.
    (real && !mount.contains('\\')).then(|| (mount.to_owned(), kind.to_owned()))
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
    use super::{disk_mount, has_overflow_id, users};
    use std::collections::BTreeMap;

    #[test]
    fn disks_are_distinguished_from_other_mounts() {
        for (line, expect) in [
            ("25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw", Some(("/", "ext4"))),
            ("27 25 0:22 / /run rw - tmpfs tmpfs rw", Some(("/run", "tmpfs"))),
            ("26 25 0:5 / /proc rw - proc proc rw", None),
            ("26 25 0:5 / /mnt/a\\040b rw - ext4 /dev/vdb rw", None),
            ("26 25 0:5 / /home rw - fuse.sshfs x rw", None),
            ("26 25", None),
        ] {
            let found = disk_mount(line);
            assert_eq!(found.as_ref().map(|(mount, kind)| (mount.as_str(), kind.as_str())), expect, "{line}");
        }
    }

    #[test]
    fn a_namespace_with_few_ids_hides_owners() {
        for (map, has) in [
            ("         0          0 4294967295\n", true),
            ("0 100000 65536\n", true),
            ("12345 12345 1\n", false),
            ("0 1000 1\n1 100000 65000\n", false),
            ("", false),
        ] {
            assert_eq!(has_overflow_id(map), has, "{map}");
        }
    }

    #[test]
    fn users_have_one_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/:/bin/sh\nbad\n:x:5:5::/:\nweb:x:33:33::/:\nx:x:y:1::/:\n";
        assert_eq!(users(passwd), BTreeMap::from([(0, "root".to_owned()), (33, "web".to_owned())]));
    }
}
