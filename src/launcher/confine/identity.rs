//! The user that tools run as, if the launcher is root.

use rustix::thread::{CapabilitySet, Gid, Uid};

/// Uid and gid of tools if the launcher is root and the host has no user `par-tool`: the system
/// user `nobody`.
const NOBODY_IDS: (u32, u32) = (65_534, 65_534);

/// Its name in `/etc/passwd`.
const TOOL_USER: &str = "par-tool";

/// Takes the identity of tools, with no group but its own.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<(), String> {
    let refuse = |e| format!("uid {uid}: {e}");
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_thread_groups(&[]).map_err(refuse)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refuse)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refuse)
}

pub(crate) fn drop_bounding_set() {
    for capability in CapabilitySet::all().iter() {
        // One that this kernel does not know cannot be dropped and cannot be held.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
}

/// Uid and gid of tools, if the caller is root and tools therefore run as another user: the owner
/// for the folders that they change.
#[must_use]
pub fn tool_owner() -> Option<(u32, u32)> {
    rustix::process::geteuid().is_root().then(tool_user)
}

/// Uid and gid of `par-tool` from `/etc/passwd`, else those of `nobody`. Never root's.
pub(crate) fn tool_user() -> (u32, u32) {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    passwd
        .lines()
        .find_map(|line| {
            let mut fields = line.strip_prefix(TOOL_USER)?.strip_prefix(':')?.split(':').skip(1);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .filter(|(uid, gid)| *uid != 0 && *gid != 0)
        .unwrap_or(NOBODY_IDS)
}
