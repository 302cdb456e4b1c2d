//! The user that tools run as, with its groups, and what gives it one more.

use super::reader::UserRights;
use crate::config::Config;
use crate::launcher;
use crate::tools::{HostGroup, Manifest, host_groups, refused_group};
use nix::unistd::{Gid, Uid, User, getgrouplist};
use std::ffi::CString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const UNIT: &str = "par-launcher@.service";
/// Where units and drop-ins lie, the later before the earlier (systemd.unit(5)).
const UNIT_FOLDERS: [&str; 3] = ["/usr/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system"];

/// Who starts the launcher, which decides where a group comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starter {
    /// Root: each call is in the groups of its manifest.
    Root,
    /// The service manager: all calls are in the groups of the unit.
    Service,
    /// The owner of the home: all calls are in the owner's groups.
    Owner,
}

/// The user that tools of a home run as.
#[derive(Debug)]
pub(super) struct ToolsUser {
    starter: Starter,
    reader: UserRights,
    pub(super) name: String,
    known: Vec<HostGroup>,
}

impl ToolsUser {
    /// `None` if the home's folders cannot be examined.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let owner = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.uid());
        let (data, workspace) = (owner(&config.home.data)?, owner(&config.home.workspace)?);
        let known = host_groups();
        let (starter, uid, gids) = match launcher::tool_owner().filter(|_| data == 0) {
            Some((uid, gid)) => (Starter::Root, uid, vec![gid]),
            None if workspace != data => {
                let unit = UNIT_FOLDERS.iter().flat_map(|folder| unit_groups(Path::new(folder)));
                let named = unit.fold(Vec::new(), assigned);
                let gid =
                    |name: &String| known.iter().find(|group| group.name == *name).map(|group| group.gid);
                let gids = named.iter().filter_map(|name| gid(name).or_else(|| name.parse().ok()));
                (Starter::Service, workspace, gids.chain(listed(workspace)).collect())
            }
            None if rustix::process::geteuid().as_raw() == data => {
                let held = rustix::process::getgroups().unwrap_or_default();
                let own = rustix::process::getegid();
                (Starter::Owner, data, held.into_iter().chain([own]).map(|gid| gid.as_raw()).collect())
            }
            None => (Starter::Owner, data, listed(data)),
        };
        let name = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let name = name.map_or_else(|| format!("uid {uid}"), |user| user.name);
        Some(Self { starter, reader: UserRights { uid, gids }, name, known })
    }

    /// The user with the groups that a call of `manifest` has.
    pub(super) fn reader(&self, manifest: &Manifest) -> UserRights {
        let mut reader = self.reader.clone();
        if self.starter == Starter::Root {
            reader.gids.extend(manifest.groups.iter().map(|group| group.gid));
        }
        reader
    }

    /// Groups that all calls share and that no manifest may name, each with the reason.
    pub(super) fn shared_and_refused(&self) -> Vec<(&str, &'static str)> {
        let is_shared =
            |group: &&HostGroup| self.starter != Starter::Root && self.reader.gids.contains(&group.gid);
        let refused = |group: &HostGroup| refused_group(&group.name);
        let known = self.known.iter().filter(is_shared);
        known.filter_map(|group| Some((group.name.as_str(), refused(group)?))).collect()
    }

    /// The name of a group; its number if the host does not list it.
    pub(super) fn group(&self, gid: u32) -> String {
        let known = self.known.iter().find(|group| group.gid == gid);
        known.map_or_else(|| gid.to_string(), |group| group.name.clone())
    }

    /// What lets tools read what only root and `group` may read.
    pub(super) fn mend(&self, group: Option<&str>, tools: &[&str]) -> String {
        let Some(group) = group.filter(|group| refused_group(group).is_none()) else {
            return format!(
                "no group is for that: `setfacl -m u:{name}:r FILE` lets tools read a file, and `setfacl -m u:{name}:rx \
                 FOLDER` a folder",
                name = self.name
            );
        };
        match self.starter {
            Starter::Root => {
                let files = tools.iter().map(|tool| format!("tools.d/{tool}.toml"));
                let files = files.collect::<Vec<_>>().join(", ");
                format!("put `groups = [\"{group}\"]` below `[sandbox]` in {files}, then `par reload`")
            }
            Starter::Service => format!(
                "put `SupplementaryGroups={group}` below `[Service]` in \
                 /etc/systemd/system/{UNIT}.d/groups.conf, then `systemctl daemon-reload && systemctl \
                 restart par.service`"
            ),
            Starter::Owner => {
                format!("run `sudo usermod -aG {group} {}`, log in again, and restart the server", self.name)
            }
        }
    }
}

/// The groups of a user by the host's databases.
fn listed(uid: u32) -> Vec<u32> {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else { return Vec::new() };
    let Ok(name) = CString::new(user.name) else { return Vec::new() };
    getgrouplist(&name, user.gid)
        .map_or_else(|_| vec![user.gid.as_raw()], |gids| gids.into_iter().map(Gid::as_raw).collect())
}

/// The values of `SupplementaryGroups=` of the launcher's unit in `folder`, and in its drop-ins.
fn unit_groups(folder: &Path) -> Vec<String> {
    let drop_ins = std::fs::read_dir(folder.join(format!("{UNIT}.d"))).into_iter().flatten().flatten();
    let mut files: Vec<_> = drop_ins.map(|item| item.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    files.sort();
    let texts = std::iter::once(folder.join(UNIT)).chain(files).map(std::fs::read_to_string);
    texts.flatten().flat_map(|text| values(&text)).collect()
}

fn values(unit: &str) -> Vec<String> {
    let value = |line: &str| line.trim().strip_prefix("SupplementaryGroups=").map(str::to_owned);
    unit.lines().filter_map(value).collect()
}

/// The list after one more assignment: an empty one clears it.
fn assigned(mut list: Vec<String>, value: String) -> Vec<String> {
    if value.trim().is_empty() {
        list.clear();
    }
    list.extend(value.split_whitespace().map(str::to_owned));
    list
}

#[cfg(test)]
mod tests {
    use super::{UNIT, assigned, unit_groups};

    #[test]
    fn drop_ins_add_groups_and_an_empty_line_takes_them_away() {
        let folder = tempfile::tempdir().expect("folder");
        let drop_ins = folder.path().join(format!("{UNIT}.d"));
        std::fs::create_dir(&drop_ins).expect("folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write(UNIT, "[Service]\nUser=par-tool\nSupplementaryGroups=mail\n");
        write(&format!("{UNIT}.d/b.conf"), "[Service]\nSupplementaryGroups=adm systemd-journal\n");
        write(&format!("{UNIT}.d/a.conf"), "[Service]\n# SupplementaryGroups=x\nSupplementaryGroups=\n");
        write(&format!("{UNIT}.d/c.txt"), "SupplementaryGroups=disk\n");
        let groups = unit_groups(folder.path()).into_iter().fold(Vec::new(), assigned);
        assert_eq!(groups, ["adm", "systemd-journal"]);
    }
}
