//! How full each mounted file system is.

use super::health_check::percent_up;
use super::view::{Disk, HostView};
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use rustix::fs::{fstat, fstatvfs, major, minor};
use serde_json::{Value, json};

/// File systems that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 50;
/// Size of the mount table that is read, in bytes.
const TABLE_BYTES_MAX: usize = 256 << 10;
/// File systems that store files and are not asked: an answer may wait for a network, or never
/// come.
const ELSEWHERE: [&str; 8] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "autofs", "glusterfs"];

/// Space and inodes of each file system that was mounted when the tools were loaded, the fullest
/// first. What was mounted since, and what is on a network, is only counted.
pub(super) fn disk_usage(view: &HostView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let mut found: Vec<(u64, Value)> = view.host.disks.iter().map(|disk| usage(disk, view)).collect();
    found.sort_by(|(a, _), (b, _)| b.cmp(a));
    let limit = integer(arguments, "limit", LIMIT_DEFAULT);
    let mut list = Fitting::new(limit, output_bytes_max.saturating_sub(FRAME_BYTES));
    found.into_iter().for_each(|(_, one)| list.push(one));
    let table = view.text("1/mountinfo", TABLE_BYTES_MAX);
    let mounts = table.lines().filter_map(mount);
    let [mut on_network, mut since_loaded] = [0_u64; 2];
    let devices: Vec<String> = view.host.disks.iter().filter_map(device).collect();
    for (point, device, kind) in mounts {
        let is_remote = ELSEWHERE.contains(&kind) || kind.starts_with("fuse");
        // Under another mount point it is the same file system.
        let is_known = devices.iter().any(|known| known == device)
            || view.host.disks.iter().any(|disk| disk.mount == point);
        on_network += u64::from(is_remote);
        since_loaded += u64::from(!is_remote && !is_known && stores_files(kind));
    }
    if on_network > 0 {
        view.note("network_file_systems");
    }
    if since_loaded > 0 {
        view.note("other_mounts");
    }
    let (disks, truncated) = list.finish();
    Ok(json!({
        "file_systems": disks,
        "truncated": truncated,
        "network_mounts_not_asked": on_network,
        "other_mounts_not_asked": since_loaded,
    }))
}

fn usage(disk: &Disk, view: &HostView<'_>) -> (u64, Value) {
    let Ok(stat) = fstatvfs(&disk.folder) else {
        view.note(&disk.mount);
        return (0, json!({ "mount": disk.mount, "type": disk.kind }));
    };
    let used_blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
    let used_inodes = stat.f_files.saturating_sub(stat.f_ffree);
    // As `df` counts: blocks reserved for root are not free.
    let used = percent_up(used_blocks, used_blocks.saturating_add(stat.f_bavail));
    let inodes = percent_up(used_inodes, stat.f_files);
    let one = json!({
        "mount": disk.mount,
        "type": disk.kind,
        "in_memory": !disk.is_disk,
        "total_bytes": stat.f_blocks.saturating_mul(stat.f_frsize),
        "used_bytes": used_blocks.saturating_mul(stat.f_frsize),
        "free_bytes": stat.f_bavail.saturating_mul(stat.f_frsize),
        "used_percent": used,
        "inodes_total": stat.f_files,
        "inodes_used": used_inodes,
        "inodes_used_percent": inodes,
        "read_only": stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
    });
    (used.max(inodes), one)
}

/// Mount point, device number and type of a line of `mountinfo` (proc_pid_mountinfo(5)).
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let (front, back) = line.split_once(" - ")?;
    let mut words = front.split(' ').skip(2);
    let (device, _root, point) = (words.next()?, words.next()?, words.next()?);
    Some((point, device, back.split(' ').next()?))
}

/// The device number, as the mount table writes it.
fn device(disk: &Disk) -> Option<String> {
    let device = fstat(&disk.folder).ok()?.st_dev;
    Some(format!("{}:{}", major(device), minor(device)))
}

/// Whether files on a disk of this host are there, such that a mount is missed if it is not listed.
fn stores_files(kind: &str) -> bool {
    matches!(kind, "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "zfs" | "f2fs" | "vfat" | "exfat" | "ntfs3")
}
