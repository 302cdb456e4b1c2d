//! Resolves a path that a model wrote to the object it names, under the call's own rights.
//!
//! Everything is opened with `O_PATH`, which reads and changes nothing. Only the gate needs to know
//! that a path is absent or unreadable, and decides whether a caller learns it.

use crate::call::{FileId, FileKind, Object, PathObject, UnreadableObject};
use crate::launcher::child::subtree::{Folder, Names, SubtreeNames, ancestors, ancestors_of_closed};
use crate::launcher::host::entered::Paths;
use crate::launcher::tool::Root;
use crate::launcher::view::files::{id, kind, name_of, open};
use crate::launcher::view::mounts::Origins;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, accessat, fstat, openat, openat2};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path};

/// What a path is resolved against.
#[derive(Clone, Copy)]
pub(crate) struct ResolveContext<'a> {
    pub(crate) paths: &'a Paths,
    /// The origins of the mounts that this process sees.
    pub(crate) origins: &'a Origins,
    pub(crate) roots: &'a [Root],
    /// Whether to report named paths below a folder.
    pub(crate) recursive: bool,
}

/// Whether the tools' user may read what was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readable {
    Yes,
    No,
}

impl ResolveContext<'_> {
    /// The object that `path` names, with those of `named` that are it or contain it and, for a
    /// recursive tool, those below it. An error refuses the call.
    pub(crate) fn resolve(self, path: &str, named: &[String]) -> Result<Object, String> {
        Ok(match open(path) {
            Ok(fd) => self.describe(&fd, named)?,
            Err(Errno::NOENT) => self.absent(path),
            Err(Errno::ACCESS) => self.blocked(path, named)?,
            Err(_) => Object::Outside,
        })
    }

    /// Outside, if it has no name that can be decided on.
    fn describe(self, fd: &OwnedFd, named: &[String]) -> Result<Object, String> {
        let object = match self.access(fd, Access::READ_OK) {
            Ok(()) => self.object(fd, named, Readable::Yes)?.map(Object::Path),
            Err(Errno::ACCESS) => {
                self.object(fd, named, Readable::No)?.map(|at| unreadable(at, String::new()))
            }
            Err(_) => None,
        };
        Ok(object.unwrap_or(Object::Outside))
    }

    /// The deepest folder of `path` that can be opened, if it lies in a root and may not be
    /// searched.
    fn blocked(self, path: &str, named: &[String]) -> Result<Object, String> {
        let mut rest = Vec::new();
        let mut parts: Vec<Component<'_>> = Path::new(path).components().collect();
        while let Some(Component::Normal(name)) = parts.pop() {
            let Some(name) = name.to_str() else { break };
            rest.push(name);
            let folder: std::path::PathBuf = parts.iter().collect();
            let fd = match open(&folder) {
                Ok(fd) => fd,
                Err(Errno::ACCESS) => continue,
                Err(_) => break,
            };
            if self.access(&fd, Access::EXEC_OK) != Err(Errno::ACCESS) {
                break;
            }
            rest.reverse();
            let at = self.object(&fd, named, Readable::No)?.filter(|at| at.kind == FileKind::Folder);
            return Ok(at.map_or(Object::Outside, |at| unreadable(at, rest.join("/"))));
        }
        Ok(Object::Outside)
    }

    fn access(self, fd: &OwnedFd, access: Access) -> Result<(), Errno> {
        let link = format!("self/fd/{}", fd.as_raw_fd());
        accessat(&self.paths.proc, link, access, AtFlags::empty())
    }

    /// `None` if it is outside, or without a name that can be decided on.
    fn object(
        self,
        fd: &OwnedFd,
        named: &[String],
        readable: Readable,
    ) -> Result<Option<PathObject>, String> {
        let Some((canonical, stat, above)) = self.identify(fd, readable) else { return Ok(None) };
        let names = Names::look_up(self.paths, self.origins, named)?;
        let within = names.holding(&canonical, &above);
        let looks_below = self.recursive && readable == Readable::Yes;
        let found = if looks_below && kind(&stat) == FileKind::Folder {
            let folder = Folder { canonical: &canonical, id: id(&stat), fd: fd.as_fd(), above: &above };
            names.beneath(&folder)?
        } else {
            SubtreeNames::default()
        };
        let SubtreeNames { beneath, unseen } = found;
        Ok(Some(PathObject { id: id(&stat), kind: kind(&stat), canonical, within, beneath, unseen }))
    }

    fn identify(self, fd: &OwnedFd, readable: Readable) -> Option<(String, Stat, Vec<FileId>)> {
        let canonical = name_of(&self.paths.proc, fd).filter(|name| self.holds(name))?;
        let stat = fstat(fd).ok()?;
        let above = match readable {
            Readable::Yes => ancestors(&self.paths.tree, &canonical, &stat)?,
            Readable::No => ancestors_of_closed(&self.paths.tree, &canonical, &stat)?,
        };
        Some((canonical, stat, above))
    }

    /// The deepest existing folder of `path`, if it lies in a root, and the plain names below it.
    fn absent(self, path: &str) -> Object {
        let mut rest = Vec::new();
        let mut parts: Vec<Component<'_>> = Path::new(path).components().collect();
        while let Some(last) = parts.pop() {
            let Component::Normal(name) = last else { return Object::Outside };
            let Some(name) = name.to_str() else { return Object::Outside };
            rest.push(name);
            let folder: std::path::PathBuf = parts.iter().collect();
            match open(&folder) {
                Ok(fd) => return self.absent_below(&fd, rest),
                Err(Errno::NOENT) => {}
                Err(_) => return Object::Outside,
            }
        }
        Object::Outside
    }

    fn absent_below(self, fd: &OwnedFd, mut rest: Vec<&str>) -> Object {
        // A link exists there, and leads nowhere that this tool may know about.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if rest.last().is_some_and(|name| openat(fd, *name, flags, Mode::empty()).is_ok()) {
            return Object::Outside;
        }
        rest.reverse();
        let folder = fstat(fd).is_ok_and(|stat| kind(&stat) == FileKind::Folder);
        match name_of(&self.paths.proc, fd).filter(|name| folder && self.holds(name)) {
            Some(folder) => Object::Absent { folder, rest: rest.join("/") },
            None => Object::Outside,
        }
    }

    fn holds(self, canonical: &str) -> bool {
        self.roots.iter().any(|root| root.holds(canonical))
    }
}

fn unreadable(at: PathObject, rest: String) -> Object {
    let uid = rustix::process::geteuid().as_raw();
    Object::Unreadable(Box::new(UnreadableObject { at, rest, uid }))
}

/// Opens the object that was decided on, with `O_PATH`: the same path without links, the same
/// inode.
pub(crate) fn reopen(object: &PathObject) -> Result<OwnedFd, String> {
    let changed = || "the object changed between decision and start".to_owned();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd = openat2(CWD, object.canonical.as_str(), flags, Mode::empty(), resolve).map_err(|_| changed())?;
    let stat = fstat(&fd).map_err(|_| changed())?;
    if id(&stat) == object.id && kind(&stat) == object.kind { Ok(fd) } else { Err(changed()) }
}
