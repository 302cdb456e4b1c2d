//! Whether a user may read a file, by its owner, mode and access control list.

use rustix::fs::getxattr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const READ: u32 = 4;
const ENTER: u32 = 1;
/// Size of an access control list that is looked at, in bytes; a longer one counts as none.
const ACL_BYTES_MAX: usize = 4_096;

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserRights {
    pub(super) uid: u32,
    /// All of its groups, its own among them.
    pub(super) gids: Vec<u32>,
}

/// Why a path may not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    /// The group that may, if the mode gives it more than everybody.
    pub(super) group: Option<u32>,
}

impl UserRights {
    /// Whether this user may read the file, or list and enter the folder, at `path`. A path that
    /// cannot be examined counts as readable: another check reports it.
    pub(super) fn examine(&self, path: &Path) -> Result<(), Closed> {
        let Ok(meta) = std::fs::metadata(path) else { return Ok(()) };
        let wanted = if meta.is_dir() { READ | ENTER } else { READ };
        self.decide(path, (meta.uid(), meta.gid(), meta.mode()), wanted)
    }

    /// Whether this user may go through the folder at `path`.
    pub(super) fn enters(&self, path: &Path) -> Result<(), Closed> {
        let Ok(meta) = std::fs::metadata(path) else { return Ok(()) };
        self.decide(path, (meta.uid(), meta.gid(), meta.mode()), ENTER)
    }

    fn decide(&self, path: &Path, (uid, gid, mode): (u32, u32, u32), wanted: u32) -> Result<(), Closed> {
        let allowed = match acl(path) {
            Some(list) if uid != self.uid => self.by_list(&list, gid),
            _ if uid == self.uid => mode >> 6,
            _ if self.gids.contains(&gid) => mode >> 3,
            _ => mode,
        };
        if allowed & wanted == wanted {
            return Ok(());
        }
        let is_open = (mode >> 3) & wanted == wanted && uid != self.uid && !self.gids.contains(&gid);
        Err(Closed { group: is_open.then_some(gid) })
    }

    /// The rights by an access control list (acl(5)), for a user who is not the owner.
    fn by_list(&self, list: &[AclEntry], gid: u32) -> u32 {
        let of = |tag: u16| list.iter().find(|entry| entry.tag == tag).map(|entry| entry.rights);
        let mask = of(AclEntry::MASK).unwrap_or(READ | ENTER | 2);
        if let Some(own) = list.iter().find(|entry| entry.tag == AclEntry::USER && entry.id == self.uid) {
            return own.rights & mask;
        }
        let is_ours = |entry: &&AclEntry| match entry.tag {
            AclEntry::GROUP_OBJ => self.gids.contains(&gid),
            AclEntry::GROUP => self.gids.contains(&entry.id),
            _ => false,
        };
        let ours: Vec<u32> = list.iter().filter(is_ours).map(|entry| entry.rights & mask).collect();
        match ours.as_slice() {
            [] => of(AclEntry::OTHER).unwrap_or(0),
            some => some.iter().fold(0, |all, one| all | one),
        }
    }
}

/// An entry of an access control list.
struct AclEntry {
    tag: u16,
    rights: u32,
    id: u32,
}

impl AclEntry {
    const USER: u16 = 0x02;
    const GROUP_OBJ: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
}

/// The list of `path`, if it has one besides its mode.
fn acl(path: &Path) -> Option<Vec<AclEntry>> {
    let mut bytes = vec![0_u8; ACL_BYTES_MAX];
    let length = getxattr(path, "system.posix_acl_access", &mut bytes).ok()?;
    parse(bytes.get(..length)?)
}

/// Reads the kernel's format: a version, then entries of tag, rights and id, all little-endian.
fn parse(bytes: &[u8]) -> Option<Vec<AclEntry>> {
    let (version, entries) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != 2 {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let (tag, rest) = bytes.split_first_chunk::<2>()?;
        let (rights, id) = rest.split_first_chunk::<2>()?;
        Some(AclEntry {
            tag: u16::from_le_bytes(*tag),
            rights: u32::from(u16::from_le_bytes(*rights)),
            id: u32::from_le_bytes(*id.first_chunk::<4>()?),
        })
    };
    entries.chunks(8).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::{AclEntry, Closed, READ, UserRights, parse};
    use std::path::Path;

    fn asked(uid: u32, gids: &[u32], mode: u32) -> Result<(), Closed> {
        let reader = UserRights { uid, gids: gids.to_vec() };
        reader.decide(Path::new("/nonexistent"), (0, 4, mode), READ)
    }

    #[test]
    fn modes_decide_and_name_the_group_that_would_help() {
        assert_eq!(asked(1000, &[1000], 0o644), Ok(()));
        assert_eq!(asked(1000, &[1000, 4], 0o640), Ok(()));
        assert_eq!(asked(1000, &[1000], 0o640), Err(Closed { group: Some(4) }));
        assert_eq!(asked(1000, &[1000], 0o600), Err(Closed { group: None }));
        // The kernel looks at the first class that applies, even if a later one allows more.
        assert_eq!(asked(1000, &[4], 0o604), Err(Closed { group: None }));
        assert_eq!(asked(0, &[0], 0o044), Err(Closed { group: None }));
    }

    #[test]
    fn lists_give_rights_within_their_mask() {
        let entry = |tag, rights, id| AclEntry { tag, rights, id };
        let list = |mask| {
            vec![
                entry(0x01, 6, u32::MAX),
                entry(AclEntry::USER, 4, 7),
                entry(AclEntry::GROUP_OBJ, 0, u32::MAX),
                entry(AclEntry::GROUP, 5, 4),
                entry(AclEntry::MASK, mask, u32::MAX),
                entry(AclEntry::OTHER, 0, u32::MAX),
            ]
        };
        let rights =
            |uid, gids: &[u32], mask| UserRights { uid, gids: gids.to_vec() }.by_list(&list(mask), 190);
        assert_eq!(rights(7, &[7], 7), 4, "by name");
        assert_eq!(rights(8, &[8, 4], 7), 5, "by group");
        assert_eq!(rights(8, &[8, 4], 1), 1, "masked");
        assert_eq!(rights(8, &[8, 190], 7), 0, "the file's own group");
        assert_eq!(rights(8, &[8], 7), 0, "others");
    }

    #[test]
    fn only_the_format_of_the_kernel_is_read() {
        let bytes = [2, 0, 0, 0, 8, 0, 4, 0, 4, 0, 0, 0];
        let list = parse(&bytes).expect("a list");
        assert_eq!(
            list.iter().map(|entry| (entry.tag, entry.rights, entry.id)).collect::<Vec<_>>(),
            [(8, 4, 4)]
        );
        assert!(parse(&[1, 0, 0, 0]).is_none() && parse(&[2, 0]).is_none());
        assert!(parse(&bytes[..11]).is_none());
    }
}
