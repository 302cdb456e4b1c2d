//! Which of the paths that policies name lie below a folder, or may be met below it.
//!
//! A name can lead there by a link, by another mount, or by a second name of a file; told is each that a walk
//! below the folder, which stays on its mount, could come upon. Everything is opened with `O_PATH`.

use super::host::name_of;
use super::resolve::{id, kind, open};
use crate::gate::{Beneath, FileId, FileKind};
use crate::types::limits::NAMED_BENEATH_MAX;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, openat, openat2, statx};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Folders above one object.
const ANCESTORS_MAX: usize = 2_048;

/// Named paths, each looked at once.
pub(super) struct Names<'a>(Vec<(&'a str, Result<FileId, Errno>)>);

/// The folder of a recursive call.
pub(super) struct Folder<'a> {
    pub(super) canonical: &'a str,
    pub(super) id: FileId,
    pub(super) fd: BorrowedFd<'a>,
    /// It and every folder above it.
    pub(super) above: &'a [FileId],
}

/// What was found below a folder.
#[derive(Default)]
pub(super) struct Found {
    pub(super) beneath: Vec<Beneath>,
    /// Names that may lie below it, and that this user may not look at.
    pub(super) unseen: Vec<String>,
}

impl<'a> Names<'a> {
    pub(super) fn look(named: &'a [String]) -> Self {
        let one = |name: &'a String| (name.as_str(), open(name).and_then(fstat).map(|stat| id(&stat)));
        Self(named.iter().map(one).collect())
    }

    /// Names of what is `canonical` or holds it: by inode, however they are spelled; and by their words, where
    /// the tool may not look at them.
    pub(super) fn holding(&self, canonical: &str, above: &[FileId]) -> Vec<String> {
        let holds = |(name, at): &&(&str, Result<FileId, Errno>)| {
            at.is_ok_and(|at| above.contains(&at)) || Path::new(canonical).starts_with(name)
        };
        self.0.iter().filter(holds).map(|(name, _)| (*name).to_owned()).collect()
    }

    /// Names of what lies, or may be met, below `folder`, and not of the folder itself or what holds it.
    pub(super) fn beneath(&self, proc: BorrowedFd<'_>, folder: &Folder<'_>) -> Result<Found, String> {
        let mut found = Found::default();
        let mount = mount_of(folder.fd);
        for (name, at) in &self.0 {
            let is_above = at.is_ok_and(|at| folder.above.contains(&at));
            if is_above || Path::new(folder.canonical).starts_with(name) {
                continue;
            }
            match open(*name) {
                Ok(fd) => self.there(proc, folder, mount, name, &fd, &mut found),
                Err(Errno::NOENT | Errno::NOTDIR) => self.absent(proc, folder, name, &mut found),
                Err(_) if is_near(proc, folder, name) => found.unseen.push((*name).to_owned()),
                // It lies elsewhere, and this user does not get there.
                Err(_) => {}
            }
            if found.beneath.len() > NAMED_BENEATH_MAX {
                return Err(format!(
                    "more than {NAMED_BENEATH_MAX} paths that policies name may lie below it"
                ));
            }
        }
        Ok(found)
    }

    fn there(
        &self,
        proc: BorrowedFd<'_>,
        folder: &Folder<'_>,
        mount: Option<u64>,
        name: &str,
        fd: &OwnedFd,
        found: &mut Found,
    ) {
        let Some((canonical, stat)) = name_of(proc, fd).zip(fstat(fd).ok()) else {
            return found.unseen.push(name.to_owned());
        };
        let Some(above) = ancestors_by_name(&canonical, &stat) else {
            return found.unseen.push(name.to_owned());
        };
        let is_below = below(&canonical, folder) || below(name, folder) || above.contains(&folder.id);
        let has_other_names = kind(&stat) != FileKind::Folder && stat.st_nlink > 1;
        let is_elsewhere = mount.is_some() && mount_of(fd.as_fd()) == mount && !has_other_names;
        if is_below || !is_elsewhere {
            let within = self.holding(&canonical, &above);
            found.beneath.push(Beneath { name: name.to_owned(), canonical, id: Some(id(&stat)), within });
        }
    }

    /// Nothing is there now. What comes there is told by its name.
    fn absent(&self, proc: BorrowedFd<'_>, folder: &Folder<'_>, name: &str, found: &mut Found) {
        let real = deepest(name).and_then(|(fd, rest)| {
            let at = name_of(proc, &fd)?;
            Some(format!("{}/{rest}", at.trim_end_matches('/')))
        });
        let words = [real.as_deref(), Some(name)].into_iter().flatten();
        if let Some(canonical) = words.into_iter().find(|words| below(words, folder)) {
            let within = self.holding(canonical, &[]);
            let canonical = canonical.to_owned();
            found.beneath.push(Beneath { name: name.to_owned(), canonical, id: None, within });
        }
    }
}

/// Whether what cannot be looked at lies below the folder by its words, or behind a folder that does.
fn is_near(proc: BorrowedFd<'_>, folder: &Folder<'_>, name: &str) -> bool {
    let behind = deepest(name).is_some_and(|(fd, _)| {
        let here = fstat(&fd).map(|stat| (id(&stat), stat));
        let above = name_of(proc, &fd).zip(here.ok());
        above.is_none_or(|(canonical, (at, stat))| {
            at == folder.id
                || ancestors_by_name(&canonical, &stat).is_none_or(|above| above.contains(&folder.id))
        })
    });
    below(name, folder) || behind
}

/// The deepest folder of `name` that can be opened, and the names below it.
fn deepest(name: &str) -> Option<(OwnedFd, String)> {
    let mut at = open("/").ok()?;
    let mut rest = name.trim_start_matches('/');
    loop {
        let (first, more) = rest.split_once('/').unwrap_or((rest, ""));
        match openat2(&at, first, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
        {
            Ok(next) if !first.is_empty() => (at, rest) = (next, more),
            _ => return Some((at, rest.to_owned())),
        }
    }
}

fn below(words: &str, folder: &Folder<'_>) -> bool {
    words != folder.canonical && Path::new(words).starts_with(folder.canonical)
}

/// The mount that a descriptor is on; `None` where the kernel does not tell (before 5.8).
pub(super) fn mount_of(fd: BorrowedFd<'_>) -> Option<u64> {
    let told = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (told.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(told.stx_mnt_id)
}

/// The object's own identity and that of every folder above it, up to `/`.
pub(super) fn ancestors(fd: &OwnedFd, canonical: &str, stat: &Stat) -> Option<Vec<FileId>> {
    match kind(stat) {
        FileKind::Folder => climb(vec![id(stat)], fd.as_fd().try_clone_to_owned().ok()?),
        // A file has no `..`.
        FileKind::File | FileKind::Other => ancestors_by_name(canonical, stat),
    }
}

/// The same from the folder that it lies in by its canonical name: one may not look out of every folder.
fn ancestors_by_name(canonical: &str, stat: &Stat) -> Option<Vec<FileId>> {
    let Some(parent) = Path::new(canonical).parent() else { return Some(vec![id(stat)]) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()?;
    climb(vec![id(stat), id(&fstat(&folder).ok()?)], folder)
}

/// Adds to `out` every folder above `at`, which is its last.
fn climb(mut out: Vec<FileId>, mut at: OwnedFd) -> Option<Vec<FileId>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for _ in 0..ANCESTORS_MAX {
        let up = openat(&at, "..", flags, Mode::empty()).ok()?;
        let above = id(&fstat(&up).ok()?);
        // Only `/` is its own parent.
        if out.last() == Some(&above) {
            return Some(out);
        }
        out.push(above);
        at = up;
    }
    None
}

/// The mount points of `/proc/self/mountinfo` (proc_pid_mountinfo(5)) that lie below `folder`.
pub(super) fn mounted_below<'a>(table: &'a str, folder: &str) -> impl Iterator<Item = String> + 'a {
    let folder = folder.to_owned();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    points.filter(move |point| *point != folder && Path::new(point).starts_with(&folder))
}

/// Spaces and the like stand as three octal digits.
fn unescape(word: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::mounted_below;

    #[test]
    fn mounts_below_a_folder_are_found() {
        let table = "25 1 254:0 / / rw - ext4 /dev/vda rw\n26 25 0:5 / /var/log rw - tmpfs x rw\n\
                     27 26 0:5 /a /var/log/a\\040b rw - tmpfs x rw\n28 25 0:5 / /var/logs/x rw - tmpfs x rw";
        let check = |folder: &str, expect: &[&str]| {
            assert_eq!(mounted_below(table, folder).collect::<Vec<_>>(), expect, "{folder}");
        };
        check("/var/log", &["/var/log/a b"]);
        check("/var/log/a b", &[]);
        check("/var/logs", &["/var/logs/x"]);
        check("/", &["/var/log", "/var/log/a b", "/var/logs/x"]);
        check("/srv", &[]);
    }
}
