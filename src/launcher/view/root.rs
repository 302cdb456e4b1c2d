//! The launcher's private view: a separate root that contains only what the manifests name, under
//! the host's names.
//!
//! Each named path is followed link by link. At its end the host's folder or file is shown
//! read-only and without set-uid, devices and, except for programs and libraries, execution; a
//! folder to change is shown writable. The links on the path are made again, so that everything is
//! reachable under the names that manifests use. What does not exist when the view is made is not
//! in it. Mounts below a folder are included; one that is made later is not (private propagation).

use crate::call::{FileId, FileKind};
use crate::launcher::sys;
use crate::launcher::view::files::{id, kind, open_path};
use crate::launcher::view::mounts::{Mount, mount_of};
use crate::launcher::view::symlinks::{self, Trail};
use nix::sched::CloneFlags;
use rustix::fs::{
    CWD, Gid, Mode, OFlags, ResolveFlags, Uid, XattrFlags, fchmod, fchown, fsetxattr, fstat, getxattr,
    mkdirat, openat, openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A file in the view's root and on the ground, on which canaries try to be refused: it has no
/// other use.
pub(crate) const CANARY: &str = ".canary";
/// Bytes of names that the view's own folders and links may take.
const ROOT_BYTES_MAX: &str = "1m";
/// Links that hosts have and programs rely on: they reveal nothing about their targets.
const LINKS: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/sbin",
    "/dev/fd",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
];
const ACCESS_LIST: &str = "system.posix_acl_access";
/// Size limit of one access control list, in bytes.
const ACCESS_LIST_BYTES_MAX: usize = 64 << 10;

/// What a path in the view is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MountUse {
    Read,
    /// A program, a loader or libraries: executed, or mapped for execution.
    Execute,
    Device,
    Write,
}

impl MountUse {
    fn attributes(self) -> MountAttrFlags {
        let all = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        all & !match self {
            Self::Read => MountAttrFlags::empty(),
            Self::Execute => MountAttrFlags::MOUNT_ATTR_NOEXEC,
            Self::Device => MountAttrFlags::MOUNT_ATTR_NODEV,
            Self::Write => MountAttrFlags::MOUNT_ATTR_RDONLY,
        }
    }

    /// Whether a mount for this use also serves `other` below it.
    fn serves(self, other: Self) -> bool {
        self == other || (other == Self::Read && self != Self::Device)
    }
}

/// What the view will contain, as the host has it. Making a plan changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    shown: BTreeMap<PathBuf, HostEntry>,
    /// Each link: its path, and its target.
    links: BTreeMap<PathBuf, PathBuf>,
}

/// A folder or file of the host.
#[derive(Debug)]
struct HostEntry {
    id: FileId,
    kind: FileKind,
    /// The host's mount that it is on.
    mount: Option<u64>,
    r#use: MountUse,
}

impl Plan {
    /// Follows every path of `named`. Leaves out paths that do not exist, and everything in
    /// `/proc`.
    pub(crate) fn new<'a>(named: impl IntoIterator<Item = (&'a Path, MountUse)>) -> Self {
        let mut plan = Self::default();
        let link = |at: &&str| Some((PathBuf::from(at), std::fs::read_link(at).ok()?));
        plan.links.extend(LINKS.iter().filter_map(link));
        for (path, r#use) in named {
            if let Ok(trail) = symlinks::follow(path) {
                plan.add(trail, r#use);
            }
        }
        plan.leave_out_what_is_served();
        plan
    }

    fn add(&mut self, trail: Trail, r#use: MountUse) {
        if trail.end.starts_with("/proc") || trail.end == Path::new("/") || trail.end.to_str().is_none() {
            return;
        }
        self.links.extend(trail.links);
        let shown = HostEntry {
            id: id(&trail.stat),
            kind: kind(&trail.stat),
            mount: mount_of(trail.fd.as_fd()),
            r#use,
        };
        let there = self.shown.entry(trail.end).or_insert(shown);
        there.r#use = there.r#use.max(r#use);
    }

    /// A mount within a mount is made only if it allows something else; a link within a mount is
    /// already there.
    fn leave_out_what_is_served(&mut self) {
        let uses: BTreeMap<PathBuf, MountUse> =
            self.shown.iter().map(|(at, shown)| (at.clone(), shown.r#use)).collect();
        let above = |at: &Path| at.ancestors().skip(1).find_map(|above| uses.get(above));
        self.shown.retain(|at, shown| !above(at).is_some_and(|outer| outer.serves(shown.r#use)));
        self.links.retain(|at, _| above(at).is_none());
    }

    /// Whether the host's `mount` is at, above or below what the view contains; the view does not
    /// follow it.
    pub(crate) fn concerns(&self, mount: &Mount) -> bool {
        let point = Path::new(&mount.point);
        self.shown.keys().any(|at| at.starts_with(point) || point.starts_with(at))
    }

    /// Whether `path` is in the view, as something that it shows, contains or leads to.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let mut all = self.shown.keys().chain(self.links.keys());
        all.any(|at| at.starts_with(path) || path.starts_with(at))
    }

    /// Whether `at` in the view is a folder of the view's own, which shows nothing of the host.
    fn is_own_folder(&self, at: &Path) -> bool {
        !at.ancestors().any(|above| self.shown.contains_key(above))
    }

    /// The host's mount at each point where the view has one.
    pub(crate) fn placed(&self) -> BTreeMap<String, u64> {
        let one = |(at, shown): (&PathBuf, &HostEntry)| Some((at.to_str()?.to_owned(), shown.mount?));
        self.shown.iter().filter_map(one).collect()
    }
}

/// Why the view was not made.
#[derive(Debug)]
pub(crate) enum NoView {
    /// The host's tree is in place as before.
    Refused(String),
    /// The state of this process's mounts is unknown.
    Lost(String),
}

/// The view that was entered.
#[derive(Debug)]
pub(crate) struct View {
    /// Whether it has a `/proc`: the kernel refuses a new one if the host's is masked.
    pub(crate) has_proc: bool,
    /// A file system that is not part of it, for canaries to write to.
    pub(crate) ground: OwnedFd,
}

/// Gives this process, and what it starts, the root of `plan`. This process is the first of a PID
/// namespace and may mount; `identity` says whether it may change the owner of files. The view's
/// mounts can be changed until they are locked.
pub(crate) fn enter(plan: &Plan, identity: bool) -> Result<View, NoView> {
    let refuse = |what: &str, e: &dyn std::fmt::Display| NoView::Refused(format!("{what}: {e}"));
    sys::unshare(CloneFlags::CLONE_NEWNS).map_err(|e| refuse("mount namespace", &e))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|e| refuse("private propagation", &e))?;
    let clones = plan.shown.iter().map(|(at, shown)| Ok((at, clone(at, shown)?)));
    let clones = clones.collect::<Result<Vec<_>, String>>().map_err(NoView::Refused)?;
    let root = file_system("tmpfs", &[("size", ROOT_BYTES_MAX), ("mode", "755")], MountUse::Read, true);
    let root = root.map_err(|e| refuse("tmpfs", &e))?;
    make_entries(root.as_fd(), plan, identity).map_err(NoView::Refused)?;
    let ground = file_system("tmpfs", &[("size", "64k"), ("mode", "755")], MountUse::Read, true)
        .map_err(|e| refuse("tmpfs", &e))?;
    put_canary(ground.as_fd()).map_err(|e| refuse("tmpfs", &e))?;
    // Any folder would do as a temporary mount point: this one is known to exist.
    attach(root.as_fd(), CWD, "/proc").map_err(|e| refuse("root", &e))?;
    let entered = fill(root.as_fd(), clones).and_then(|proc| {
        fchdir(&root).map_err(|e| format!("root: {e}"))?;
        pivot_root(".", ".").map_err(|e| format!("pivot_root: {e}"))?;
        Ok(proc)
    });
    let has_proc = match entered {
        Ok(has_proc) => has_proc,
        Err(reason) => {
            unmount("/proc", UnmountFlags::DETACH).map_err(|e| NoView::Lost(format!("{reason}; {e}")))?;
            return Err(NoView::Refused(reason));
        }
    };
    finish(root.as_fd()).map_err(NoView::Lost)?;
    Ok(View { has_proc, ground })
}

/// Detaches the host's tree: from here on it is out of reach.
fn finish(root: BorrowedFd<'_>) -> Result<(), String> {
    unmount(".", UnmountFlags::DETACH).map_err(|e| format!("the host's tree: {e}"))?;
    chdir("/").map_err(|e| format!("`/`: {e}"))?;
    sys::set_mount_attributes(root, MountUse::Read.attributes(), false).map_err(|e| format!("root: {e}"))
}

/// A detached copy of the host's mount at `at`, with all mounts below it.
fn clone(at: &Path, shown: &HostEntry) -> Result<OwnedFd, String> {
    let refuse = |e: &dyn std::fmt::Display| format!("`{}`: {e}", at.display());
    // It must be the same object in this mount namespace.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let fd = openat2(CWD, at, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|e| refuse(&e))?;
    if fstat(&fd).map_or(true, |stat| id(&stat) != shown.id) {
        return Err(refuse(&"changed while the view was made"));
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&fd, "", flags).map_err(|e| refuse(&e))?;
    sys::set_mount_attributes(tree.as_fd(), shown.r#use.attributes(), true).map_err(|e| refuse(&e))?;
    Ok(tree)
}

fn file_system(
    name: &str,
    options: &[(&str, &str)],
    like: MountUse,
    writable: bool,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
    options.iter().try_for_each(|(key, value)| fsconfig_set_string(&context, *key, *value))?;
    fsconfig_create(&context)?;
    let attributes = like.attributes();
    let removed = if writable { MountAttrFlags::MOUNT_ATTR_RDONLY } else { MountAttrFlags::empty() };
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes & !removed)
}

fn attach(tree: BorrowedFd<'_>, at: BorrowedFd<'_>, path: &str) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    let flags = if path.is_empty() { flags | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH } else { flags };
    move_mount(tree, "", at, path, flags)
}

/// Makes the view's own folders and links, and the mount points.
fn make_entries(root: BorrowedFd<'_>, plan: &Plan, identity: bool) -> Result<(), String> {
    let places = plan.shown.iter().filter(|(at, _)| at.parent().is_some_and(|up| plan.is_own_folder(up)));
    for (at, shown) in places {
        let name = make_folders(root, at, identity)?;
        let made = match shown.kind {
            FileKind::Folder => mkdirat(root, name, Mode::RWXU),
            FileKind::File | FileKind::Other => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                openat(root, name, flags, Mode::RUSR).map(drop)
            }
        };
        made_or_there(made).map_err(|e| format!("`{}`: {e}", at.display()))?;
    }
    for (at, says) in &plan.links {
        let name = make_folders(root, at, identity)?;
        made_or_there(symlinkat(says, root, name)).map_err(|e| format!("`{}`: {e}", at.display()))?;
    }
    put_canary(root).map_err(|e| format!("`/{}`: {e}", CANARY))?;
    made_or_there(mkdirat(root, "proc", Mode::RWXU)).map_err(|e| format!("`/proc`: {e}"))
}

/// Makes a file that layers are tried on.
fn put_canary(at: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(at, CANARY, flags, Mode::RUSR | Mode::WUSR).map(drop)
}

/// Makes the folders above `at`; returns its path below the root.
fn make_folders<'a>(root: BorrowedFd<'_>, at: &'a Path, identity: bool) -> Result<&'a Path, String> {
    let mut above: Vec<&Path> = at.ancestors().skip(1).collect();
    above.pop();
    for folder in above.into_iter().rev() {
        let refuse = |e: Errno| format!("`{}`: {e}", folder.display());
        let name = below_root(folder);
        match mkdirat(root, name, Mode::RWXU) {
            Ok(()) => copy_permissions(root, folder, identity).map_err(refuse)?,
            Err(Errno::EXIST) => {}
            Err(e) => return Err(refuse(e)),
        }
    }
    Ok(below_root(at))
}

fn below_root(at: &Path) -> &Path {
    at.strip_prefix("/").unwrap_or(at)
}

fn made_or_there(made: Result<(), Errno>) -> Result<(), Errno> {
    match made {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Gives a folder of the view the owner, mode and access list of the host's own, if tools run as
/// another user than this process. Otherwise there is only this user, which was able to traverse
/// the path.
fn copy_permissions(root: BorrowedFd<'_>, folder: &Path, identity: bool) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = openat(root, below_root(folder), flags, Mode::empty())?;
    if !identity {
        return fchmod(&own, Mode::from_raw_mode(0o755));
    }
    let stat = fstat(open_path(folder)?)?;
    fchown(&own, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    fchmod(&own, Mode::from_raw_mode(stat.st_mode))?;
    let mut list = vec![0_u8; ACCESS_LIST_BYTES_MAX];
    match getxattr(folder, ACCESS_LIST, list.as_mut_slice()) {
        Ok(length) => {
            fsetxattr(&own, ACCESS_LIST, list.get(..length).unwrap_or_default(), XattrFlags::empty())
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Attaches the clones at their mount points, outer ones first, and a `/proc`. Returns whether
/// there is a `/proc`.
fn fill(root: BorrowedFd<'_>, clones: Vec<(&PathBuf, OwnedFd)>) -> Result<bool, String> {
    for (at, tree) in clones {
        let refuse = |e: Errno| format!("`{}`: {e}", at.display());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let place = openat2(root, below_root(at), flags, Mode::empty(), resolve).map_err(refuse)?;
        attach(tree.as_fd(), place.as_fd(), "").map_err(refuse)?;
    }
    match file_system("proc", &[("hidepid", "ptraceable")], MountUse::Read, false) {
        Ok(proc) => attach(proc.as_fd(), root, "proc").map(|()| true).map_err(|e| format!("`/proc`: {e}")),
        Err(Errno::PERM) => Ok(false),
        Err(e) => Err(format!("`/proc`: {e}")),
    }
}
