//! The user that tools run as, if the launcher is root.

use crate::tools::{HostGroup, host_groups};
use rustix::thread::{CapabilitySet, Gid, Uid};

/// Uid and gid of tools if the launcher is root and the host has no user `par-tool`: the system
/// user `nobody`.
const NOBODY_IDS: (u32, u32) = (65_534, 65_534);

/// Its name in `/etc/passwd`.
const TOOL_USER: &str = "par-tool";

/// Takes the identity of tools, with exactly `groups` in addition to its own group.
pub(crate) fn become_user(uid: u32, gid: u32, groups: &[Gid]) -> Result<(), String> {
    let refuse = |e| format!("uid {uid}: {e}");
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::thread::set_thread_groups(groups).map_err(refuse)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refuse)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refuse)
}

/// The groups of this process in addition to its own, which all calls share if this process may
/// not change its identity. To be called before namespaces are entered: inside, numbers read
/// differently.
pub(crate) fn own_groups() -> Vec<HostGroup> {
    let (own, known) = (rustix::process::getegid(), host_groups());
    let named = |gid: u32| known.iter().find(|group| group.gid == gid).cloned();
    let held = rustix::process::getgroups().unwrap_or_default().into_iter().filter(|gid| *gid != own);
    let held = held.map(Gid::as_raw);
    held.map(|gid| named(gid).unwrap_or_else(|| HostGroup { name: gid.to_string(), gid })).collect()
}

/// The groups of a call in addition to its own.
#[derive(Debug)]
pub(crate) struct Memberships {
    groups: Vec<HostGroup>,
    /// Whether every call of this launcher has them.
    shared: bool,
}

impl Memberships {
    /// The groups of a call whose manifest names `wanted`, in a launcher that may or may not change
    /// its identity and has the groups `own`. An error is a group that the launcher cannot give.
    pub(crate) fn of(wanted: &[HostGroup], changes: bool, own: &[HostGroup]) -> Result<Self, String> {
        if changes {
            return Ok(Self { groups: wanted.to_vec(), shared: false });
        }
        let gid = rustix::process::getegid().as_raw();
        let is_held = |one: &HostGroup| one.gid == gid || own.iter().any(|held| held.gid == one.gid);
        match wanted.iter().find(|one| !is_held(one)) {
            Some(HostGroup { name, .. }) => Err(format!(
                "the tool needs the group `{name}`: add the user that runs tools to it, for the service \
                 with `SupplementaryGroups={name}` in a drop-in of par-launcher@.service"
            )),
            None => Ok(Self { groups: own.to_vec(), shared: true }),
        }
    }

    pub(crate) fn gids(&self) -> Vec<Gid> {
        self.groups.iter().map(|group| Gid::from_raw(group.gid)).collect()
    }

    /// For the record: the names, and whether all calls share them.
    pub(crate) fn told(&self) -> (Vec<String>, bool) {
        let names: Vec<String> = self.groups.iter().map(|group| group.name.clone()).collect();
        let shared = self.shared && !names.is_empty();
        (names, shared)
    }
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
