//! Which of the paths that policies name lie below a folder, or may be reached below it.
//!
//! A name can lead there by a link, by another mount, or by a second name of a file. Reported is
//! each name that a walk below the folder, which stays on its mount, could reach. Everything is
//! opened with `O_PATH`, and looked up on the host: a view would not show where most names lead.

use crate::call::{Beneath, FileId, FileKind};
use crate::launcher::host::entered::Paths;
use crate::launcher::view::files::{id, kind, name_of};
use crate::launcher::view::host_tree::HostTree;
use crate::launcher::view::mounts::Origins;
use crate::types::limits::NAMED_BENEATH_MAX;
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// Limit on the folders above one object.
const ANCESTORS_MAX: usize = 2_048;

/// Named paths, each looked up once.
pub(crate) struct Names<'a> {
    paths: &'a Paths,
    origins: &'a Origins,
    all: Vec<(&'a str, Result<FileId, Errno>)>,
}

/// The folder of a recursive call.
pub(crate) struct Folder<'a> {
    pub(crate) canonical: &'a str,
    pub(crate) id: FileId,
    pub(crate) fd: BorrowedFd<'a>,
    /// The folder itself and every folder above it.
    pub(crate) above: &'a [FileId],
}

/// What was found below a folder.
#[derive(Default)]
pub(crate) struct SubtreeNames {
    pub(crate) beneath: Vec<Beneath>,
    /// Names that may lie below it, and that this user may not access.
    pub(crate) unseen: Vec<String>,
}

impl<'a> Names<'a> {
    /// An error refuses the call: a name whose target keeps changing cannot be decided on.
    pub(crate) fn look_up(
        paths: &'a Paths,
        origins: &'a Origins,
        named: &'a [String],
    ) -> Result<Self, String> {
        let find = |name: &'a String| match paths.tree.find(name).and_then(fstat) {
            Err(Errno::AGAIN) => Err(format!("the target of `{name}` keeps changing")),
            found => Ok((name.as_str(), found.map(|stat| id(&stat)))),
        };
        Ok(Self { paths, origins, all: named.iter().map(find).collect::<Result<_, _>>()? })
    }

    /// The names of what is `canonical` or contains it: by inode, however they are spelled, and by
    /// their spelling, if the tool may not access them.
    pub(crate) fn holding(&self, canonical: &str, above: &[FileId]) -> Vec<String> {
        let holds = |(name, at): &&(&str, Result<FileId, Errno>)| {
            at.is_ok_and(|at| above.contains(&at)) || Path::new(canonical).starts_with(name)
        };
        self.all.iter().filter(holds).map(|(name, _)| (*name).to_owned()).collect()
    }

    /// The names of what lies, or may be reached, below `folder`; not those of the folder itself or
    /// of what contains it.
    pub(crate) fn beneath(&self, folder: &Folder<'_>) -> Result<SubtreeNames, String> {
        let mut found = SubtreeNames::default();
        let mount = self.origins.mount(folder.fd);
        for (name, at) in &self.all {
            let is_above = at.is_ok_and(|at| folder.above.contains(&at));
            if is_above || Path::new(folder.canonical).starts_with(name) {
                continue;
            }
            match self.paths.tree.find(name) {
                Ok(fd) => self.there(folder, mount, name, &fd, &mut found),
                Err(Errno::NOENT | Errno::NOTDIR) => self.absent(folder, name, &mut found),
                // Its target kept changing, so it cannot be decided on.
                Err(Errno::AGAIN) => found.unseen.push((*name).to_owned()),
                Err(_) if self.is_near(folder, name) => found.unseen.push((*name).to_owned()),
                // It lies elsewhere, and this user cannot reach it.
                Err(_) => {}
            }
            if found.beneath.len() > NAMED_BENEATH_MAX {
                return Err(format!(
                    "more than {NAMED_BENEATH_MAX} paths that policies name may lie below the folder"
                ));
            }
        }
        Ok(found)
    }

    fn there(
        &self,
        folder: &Folder<'_>,
        mount: Option<u64>,
        name: &str,
        fd: &OwnedFd,
        found: &mut SubtreeNames,
    ) {
        let Some((canonical, stat)) = name_of(&self.paths.proc, fd).zip(fstat(fd).ok()) else {
            return found.unseen.push(name.to_owned());
        };
        let Some(above) = above(&self.paths.tree, &canonical, &stat) else {
            return found.unseen.push(name.to_owned());
        };
        let is_below = below(&canonical, folder) || below(name, folder) || above.contains(&folder.id);
        let has_other_names = kind(&stat) != FileKind::Folder && stat.st_nlink > 1;
        let is_elsewhere = mount.is_some() && self.origins.mount(fd.as_fd()) == mount && !has_other_names;
        if is_below || !is_elsewhere {
            let within = self.holding(&canonical, &above);
            found.beneath.push(Beneath { name: name.to_owned(), canonical, id: Some(id(&stat)), within });
        }
    }

    /// Nothing is there now. What appears there later is identified by its name.
    fn absent(&self, folder: &Folder<'_>, name: &str, found: &mut SubtreeNames) {
        let real = deepest(&self.paths.tree, name).and_then(|(fd, rest)| {
            let at = name_of(&self.paths.proc, &fd)?;
            Some(format!("{}/{rest}", at.trim_end_matches('/')))
        });
        let words = [real.as_deref(), Some(name)].into_iter().flatten();
        if let Some(canonical) = words.into_iter().find(|words| below(words, folder)) {
            let within = self.holding(canonical, &[]);
            let canonical = canonical.to_owned();
            found.beneath.push(Beneath { name: name.to_owned(), canonical, id: None, within });
        }
    }

    /// Whether an inaccessible path lies below the folder by its spelling, or beyond a folder that
    /// does.
    fn is_near(&self, folder: &Folder<'_>, name: &str) -> bool {
        let (proc, tree) = (&self.paths.proc, &self.paths.tree);
        let beyond = deepest(tree, name).is_some_and(|(fd, _)| {
            let here = fstat(&fd).map(|stat| (id(&stat), stat));
            let known = name_of(proc, &fd).zip(here.ok());
            known.is_none_or(|(canonical, (at, stat))| {
                at == folder.id
                    || above(tree, &canonical, &stat).is_none_or(|above| above.contains(&folder.id))
            })
        });
        below(name, folder) || beyond
    }
}

/// The deepest prefix of `name` that can be looked up, and the names below it.
fn deepest<'n>(tree: &HostTree, name: &'n str) -> Option<(OwnedFd, std::borrow::Cow<'n, str>)> {
    let name = Path::new(name);
    name.ancestors().find_map(|at| {
        let fd = tree.find(at).ok()?;
        Some((fd, name.strip_prefix(at).ok()?.to_string_lossy()))
    })
}

fn below(words: &str, folder: &Folder<'_>) -> bool {
    words != folder.canonical && Path::new(words).starts_with(folder.canonical)
}

/// The object's own identity and that of every folder above it on the host, up to `/`. `None` if
/// the host has something else under its name, such as a mount that came later.
pub(crate) fn ancestors(tree: &HostTree, canonical: &str, stat: &Stat) -> Option<Vec<FileId>> {
    let there = tree.find_plain(canonical).and_then(|fd| Ok((fstat(&fd)?, fd)));
    let (seen, fd) = there.ok()?;
    match kind(stat) {
        _ if id(&seen) != id(stat) => None,
        FileKind::Folder => climb(vec![id(stat)], fd),
        // A file has no `..`.
        FileKind::File | FileKind::Other => above(tree, canonical, stat),
    }
}

/// The same for what the tools' user may not read: a folder that may not be searched has no `..`.
pub(crate) fn ancestors_of_closed(tree: &HostTree, canonical: &str, stat: &Stat) -> Option<Vec<FileId>> {
    let there = tree.find_plain(canonical).and_then(|fd| fstat(&fd)).ok()?;
    if id(&there) == id(stat) { above(tree, canonical, stat) } else { None }
}

/// The same, starting from the parent folder by its canonical name: `..` is not readable in every
/// folder.
fn above(tree: &HostTree, canonical: &str, stat: &Stat) -> Option<Vec<FileId>> {
    let Some(parent) = Path::new(canonical).parent() else { return Some(vec![id(stat)]) };
    let folder = tree.find_plain(parent).ok()?;
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
