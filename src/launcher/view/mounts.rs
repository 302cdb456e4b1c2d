//! The mount table (proc_pid_mountinfo(5)), and which mount of the host each mount of a view was
//! cloned from.

use crate::launcher::protocol::Mounted;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    /// The device number, and the folder on that device that is mounted: the same in every mount
    /// namespace.
    pub(crate) of: String,
    /// The mount point.
    pub(crate) point: String,
}

/// The mounts of the caller's namespace, read through a descriptor of `/proc`.
pub(crate) fn table(proc: impl AsFd) -> Result<Vec<Mount>, String> {
    let at = |e: &dyn std::fmt::Display| format!("mounts: {e}");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = openat(proc, "self/mountinfo", flags, Mode::empty()).map_err(|e| at(&e))?;
    let mut text = Vec::new();
    std::fs::File::from(fd).read_to_end(&mut text).map_err(|e| at(&e))?;
    parse(&String::from_utf8_lossy(&text)).ok_or_else(|| at(&"a malformed line"))
}

fn parse(text: &str) -> Option<Vec<Mount>> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let id = words.next()?.parse().ok()?;
        let (_parent, device, root) = (words.next()?, words.next()?, words.next()?);
        Some(Mount { id, of: format!("{device} {}", unescape(root)), point: unescape(words.next()?) })
    };
    text.lines().map(line).collect()
}

/// Decodes the octal escapes of spaces and the like: a backslash and three digits.
pub(crate) fn unescape(word: &str) -> String {
    let mut parts = word.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(part.get(3..).unwrap_or_default());
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

/// The mount that a descriptor is on; `None` if the kernel does not report it (before 5.8).
pub(crate) fn mount_of(fd: BorrowedFd<'_>) -> Option<u64> {
    let found = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// Mounts of a view, each with the mount of the host that it shows. Empty without a view.
///
/// Other mounts are their own origin: those of the host, and those of a view that show nothing of
/// the host.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    of: BTreeMap<u64, u64>,
    host: Vec<Mount>,
    placed: BTreeMap<String, u64>,
}

impl Origins {
    /// From both tables; `placed` maps each mount point of the view's own to the host's mount shown
    /// there.
    pub(crate) fn trace(host: Vec<Mount>, view: &[Mount], placed: BTreeMap<String, u64>) -> Self {
        let mut origins = Self { of: BTreeMap::new(), host, placed };
        origins.of = origins.of_each(view);
        origins
    }

    /// The same for a copy of the view, in which every mount has another id.
    pub(crate) fn of_copy(&self, view: &[Mount]) -> Self {
        Self { of: self.of_each(view), ..Self::default() }
    }

    fn of_each(&self, view: &[Mount]) -> BTreeMap<u64, u64> {
        let Self { host, placed, .. } = self;
        let is_within = |point: &str| placed.keys().any(|at| Path::new(point).starts_with(at));
        let origin = |mount: &Mount| match placed.get(&mount.point) {
            Some(origin) => Some(*origin),
            // Cloned along with the folder that it lies below. If several are at one point, the
            // last is on top.
            None if is_within(&mount.point) => {
                host.iter().rev().find(|there| there.point == mount.point).map(|there| there.id)
            }
            None => None,
        };
        view.iter().filter_map(|mount| Some((mount.id, origin(mount)?))).collect()
    }

    /// The mount of the host that a descriptor is on, directly or through the view.
    pub(crate) fn mount(&self, fd: BorrowedFd<'_>) -> Option<u64> {
        mount_of(fd).map(|mount| self.origin(mount))
    }

    /// Whether another mount of the host begins somewhere below `folder`.
    pub(crate) fn is_crossed_below(&self, table: &[Mount], folder: &str) -> bool {
        let holds = |mount: &&Mount| Path::new(folder).starts_with(&mount.point);
        let here = table.iter().filter(holds).max_by_key(|mount| mount.point.len());
        let here = here.map(|mount| self.origin(mount.id));
        table
            .iter()
            .filter(|mount| mount.point != folder && Path::new(&mount.point).starts_with(folder))
            .any(|mount| Some(self.origin(mount.id)) != here)
    }

    fn origin(&self, mount: u64) -> u64 {
        self.of.get(&mount).copied().unwrap_or(mount)
    }
}

/// The mount points of `now` at which `before` had something else, or nothing: there, tools started
/// with `before` do not see what is mounted.
#[must_use]
pub fn newly_mounted(before: &[Mounted], now: &[Mounted]) -> Vec<String> {
    now.iter().filter(|mount| !before.contains(mount)).map(|mount| mount.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Mount, Origins, parse};
    use std::collections::BTreeMap;

    fn mount(id: u64, point: &str) -> Mount {
        Mount { id, of: "0:1 /".to_owned(), point: point.to_owned() }
    }

    #[test]
    fn lines_are_read() {
        let table =
            "25 1 254:0 / / rw - ext4 /dev/vda rw\n27 26 0:5 /a\\134b /var/log/a\\040b rw - tmpfs x rw";
        let expect = [
            Mount { id: 25, of: "254:0 /".to_owned(), point: "/".to_owned() },
            Mount { id: 27, of: "0:5 /a\\b".to_owned(), point: "/var/log/a b".to_owned() },
        ];
        assert_eq!(parse(table).as_deref(), Some(&expect[..]));
        assert_eq!(parse("x 1 254:0 / / rw"), None);
        assert_eq!(parse("25 1 254:0 /"), None);
    }

    #[test]
    fn mounts_below_a_folder_are_found() {
        let table = [mount(1, "/"), mount(2, "/var/log"), mount(3, "/var/log/a b"), mount(4, "/var/logs/x")];
        let check = |folder: &str, expect: bool| {
            assert_eq!(Origins::default().is_crossed_below(&table, folder), expect, "{folder}");
        };
        check("/var/log", true);
        check("/var/log/a b", false);
        check("/var/logs", true);
        check("/", true);
        check("/srv", false);
    }

    #[test]
    fn a_view_is_traced_to_the_host() {
        let host = [mount(1, "/"), mount(2, "/srv"), mount(3, "/srv/disk"), mount(4, "/srv/disk")];
        let view = [
            mount(10, "/"),
            mount(11, "/srv"),
            mount(12, "/srv/disk"),
            mount(13, "/srv/w"),
            mount(14, "/proc"),
        ];
        // The folder /srv, and in it a writable one; both on the host's mount 2.
        let placed = BTreeMap::from([("/srv".to_owned(), 2), ("/srv/w".to_owned(), 2)]);
        let origins = Origins::trace(host.to_vec(), &view, placed);
        assert_eq!([10, 11, 12, 13, 14].map(|id| origins.origin(id)), [10, 2, 4, 2, 14]);
        assert!(origins.is_crossed_below(&view, "/srv"), "/srv/disk");
        assert!(!origins.is_crossed_below(&view[..2], "/srv"));
        // A copy of it, with a `/proc` on top.
        let copy =
            [mount(20, "/"), mount(21, "/srv"), mount(23, "/srv/w"), mount(24, "/proc"), mount(25, "/proc")];
        let copied = origins.of_copy(&copy);
        assert_eq!([20, 21, 23, 24, 25, 11].map(|id| copied.origin(id)), [20, 2, 2, 24, 25, 11]);
        let without_disk = [mount(10, "/"), mount(11, "/srv"), mount(13, "/srv/w")];
        assert!(!origins.is_crossed_below(&without_disk, "/srv"), "one mount of the host, split");
    }
}
