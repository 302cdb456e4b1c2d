//! The groups of the host that a tool's process is in, in addition to its own.

use crate::types::limits;
use std::path::Path;

/// The host's list of groups (group(5)). Groups of other sources are not known.
const GROUP_FILE: &str = "/etc/group";

/// Groups that no tool gets: who is in one of them can become root, or takes part in PAR itself.
const REFUSED: [(&str, &str); 19] = [
    ("root", "owns files of the system"),
    ("sudo", "may run everything as root"),
    ("wheel", "may run everything as root"),
    ("admin", "may run everything as root"),
    ("docker", "may start containers that own the host"),
    ("podman", "may start containers that own the host"),
    ("lxd", "may start containers that own the host"),
    ("incus", "may start containers that own the host"),
    ("incus-admin", "may start containers that own the host"),
    ("libvirt", "may start machines that own the host's disks"),
    ("disk", "reads and writes every disk past all permissions"),
    ("kmem", "reads the kernel's memory"),
    ("shadow", "reads the hashes of all passwords"),
    ("ssh_keys", "reads the private keys of this host"),
    ("input", "reads every key that is pressed"),
    ("staff", "changes programs that root runs"),
    ("polkitd", "decides what others may do as root"),
    ("messagebus", "owns the system's message bus"),
    ("par", "is the group of PAR's own server"),
];

/// A group of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Its name.
    pub name: String,
    /// Its number.
    pub gid: u32,
}

/// The groups that this host lists. Empty if the list cannot be read.
#[must_use]
pub fn host_groups() -> Vec<HostGroup> {
    std::fs::read_to_string(Path::new(GROUP_FILE)).map(|list| parse(&list)).unwrap_or_default()
}

/// Why no tool may be in the group `name`; `None` if one may.
#[must_use]
pub fn refused_group(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, why)| *why)
}

/// Finds each of `names` in `known`. The error names everything that is wrong with the list.
pub(super) fn resolve(names: &[String], known: &[HostGroup]) -> Result<Vec<HostGroup>, String> {
    if names.len() > limits::GROUPS_GIVEN_MAX {
        return Err(format!("more than {} groups", limits::GROUPS_GIVEN_MAX));
    }
    let mut found: Vec<HostGroup> = Vec::new();
    let mut faults = Vec::new();
    for name in names {
        match resolve_one(name, known) {
            Err(fault) => faults.push(fault),
            Ok(group) if found.iter().any(|other| other.gid == group.gid) => {
                faults.push(format!("the group `{name}` is listed twice"));
            }
            Ok(group) => found.push(group.clone()),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults.join("; ")) }
}

fn resolve_one<'a>(name: &str, known: &'a [HostGroup]) -> Result<&'a HostGroup, String> {
    // First, so that the reason is the same on a host without that group.
    check(name, refused_group(name))?;
    let group = known.iter().find(|group| group.name == name);
    let group = group.ok_or_else(|| format!("`{name}` is not a group of this host ({GROUP_FILE})"))?;
    // Another name for the same number is the same group.
    let mut aliases = known.iter().filter(|other| other.gid == group.gid);
    check(name, aliases.find_map(|other| refused_group(&other.name)))?;
    check(name, (group.gid == 0).then_some("owns files of the system"))?;
    Ok(group)
}

fn check(name: &str, why: Option<&str>) -> Result<(), String> {
    why.map_or(Ok(()), |why| Err(format!("no tool may be in the group `{name}`, which {why}")))
}

fn parse(list: &str) -> Vec<HostGroup> {
    let line = |line: &str| {
        let mut fields = line.split(':');
        let (name, gid) = (fields.next()?, fields.nth(1)?);
        Some(HostGroup { name: name.to_owned(), gid: gid.parse().ok()? })
    };
    list.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{HostGroup, REFUSED, parse, resolve};

    const LIST: &str = "root:x:0:\nadm:x:4:syslog\nshadow:x:42:\nnosy:x:42:\ntoor:x:0:\nlate:x:77\nbroken\n\
                        containers:x:998:\ndocker:x:998:\n";

    fn resolved(names: &[&str]) -> Result<Vec<u32>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(resolve(&names, &parse(LIST))?.into_iter().map(|group| group.gid).collect())
    }

    #[test]
    fn groups_are_found_in_the_order_of_the_manifest() {
        assert_eq!(resolved(&["late", "adm"]), Ok(vec![77, 4]));
        assert_eq!(resolved(&[]), Ok(vec![]));
        assert_eq!(parse("broken\nx:y\n:x:1:\n"), [HostGroup { name: String::new(), gid: 1 }]);
    }

    /// A group that makes its members root is refused under each of its names, and also where the
    /// host does not have it.
    #[test]
    fn no_group_leads_to_root() {
        for (name, why) in REFUSED {
            let refused = format!("no tool may be in the group `{name}`, which {why}");
            assert_eq!(resolved(&[name]), Err(refused));
        }
        for (name, why) in [
            ("toor", "owns files of the system"),
            ("nosy", "reads the hashes of all passwords"),
            ("containers", "may start containers that own the host"),
        ] {
            let refused = format!("no tool may be in the group `{name}`, which {why}");
            assert_eq!(resolved(&["adm", name]), Err(refused));
        }
    }

    #[test]
    fn unknown_and_repeated_groups_are_refused() {
        let unknown = "`adn` is not a group of this host (/etc/group)".to_owned();
        assert_eq!(resolved(&["adn"]), Err(unknown));
        let both = "`nosuch` is not a group of this host (/etc/group); no tool may be in the group `docker`, which may \
                    start containers that own the host";
        assert_eq!(resolved(&["adm", "nosuch", "docker"]), Err(both.to_owned()));
        assert_eq!(resolved(&["adm", "adm"]), Err("the group `adm` is listed twice".to_owned()));
        let many: Vec<&str> = (0..9).map(|_| "adm").collect();
        assert_eq!(resolved(&many), Err("more than 8 groups".to_owned()));
    }
}
