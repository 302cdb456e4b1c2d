//! The content of the folder that a call is about: read in prepare, and at go copied for the tool
//! alone.
//!
//! One walk does both. It goes by descriptors, one name a step, follows no link and leaves no
//! mount. Anything other than a folder or a regular file is a refusal.
//!
//! INVARIANT: what is hashed is what is copied: each byte goes from one read into both hash and
//! copy. The copy lies in the folder that the call works in, under its lock; later writes to the
//! original do not reach it.

use crate::call::{Content, FileKind, Listing};
use crate::launcher::child::start::Start;
use crate::launcher::view::files::{kind, open_for_reading};
use crate::tools::{ContentFolder, Limits};
use crate::types::Digest;
use crate::types::limits::{CONTENT_BYTES_MAX, CONTENT_DEPTH_MAX, CONTENT_ENTRIES_MAX};
use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, mkdirat, openat, openat2, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;
use sha2::Digest as _;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The copy's name in the folder that holds it.
const COPY: &CStr = c".par-content";
/// The first line of every listing.
const FORMAT: &[u8] = b"par/content/1\n";
/// Bytes per read of a file.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes per read of a folder.
const READ_BYTES: usize = 32 << 10;

const CHANGED: &str = "the content changed between decision and start";
const NOT_PLAIN: &str =
    "the content is or holds a link, or something else that is neither a folder nor a regular file";

/// Reads the content that the call is about; the call will work in `folder`.
pub(crate) fn inspect(start: &Start<'_>, folder: &OwnedFd) -> Result<Content, String> {
    read(start, folder, None)
}

/// Copies the content, which must be what was decided on. Returns the environment entry that names
/// the copy for the program; `None` without content.
pub(crate) fn take(
    start: &Start<'_>,
    folder: &OwnedFd,
    decided: &Content,
) -> Result<Option<CString>, String> {
    // The mode that programs write with under the usual umask: no other user can change the copy.
    let before = umask(Mode::WGRP | Mode::WOTH);
    let taken = copy(start, folder, decided);
    umask(before);
    taken
}

fn copy(start: &Start<'_>, folder: &OwnedFd, decided: &Content) -> Result<Option<CString>, String> {
    let declared = start.tool.manifest.content.as_ref().map(ContentFolder::copy_in).unwrap_or_default();
    let place = place(folder, declared)?;
    clear(&place).map_err(|e| format!("cannot remove an earlier copy of the content: {e}"))?;
    let found = read(start, folder, Some(&place));
    match found.and_then(|found| if found == *decided { Ok(found) } else { Err(CHANGED.to_owned()) }) {
        Ok(Content { listing: None, .. }) => Ok(None),
        Ok(_) => {
            let word = ["PAR_CONTENT=".to_owned(), declared.iter().map(|name| format!("{name}/")).collect()];
            let word = [word.concat().as_bytes(), COPY.to_bytes()].concat();
            CString::new(word).map(Some).map_err(|e| e.to_string())
        }
        Err(reason) => {
            // What cannot be removed now is removed by the next call.
            let _ = clear(&place);
            Err(reason)
        }
    }
}

/// Opens the folder that the copy is made in, and makes it if it is not there.
fn place(folder: &OwnedFd, names: &[String]) -> Result<OwnedFd, String> {
    let refuse = |e: Errno| format!("cannot make the folder for the copy of the content: {e}");
    let mut at = folder.try_clone().map_err(|e| e.to_string())?;
    for name in names {
        let name = CString::new(name.as_str()).map_err(|e| e.to_string())?;
        let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        match mkdirat(&at, name.as_c_str(), mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(refuse(e)),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = openat(&at, name.as_c_str(), flags, Mode::empty()).map_err(refuse)?;
    }
    Ok(at)
}

fn read(start: &Start<'_>, folder: &OwnedFd, copy_in: Option<&OwnedFd>) -> Result<Content, String> {
    let declared = start.tool.manifest.content.as_ref().ok_or("the tool has no content")?;
    let names = declared.names(start.arguments)?;
    let words = names.iter().map(|name| CString::new(*name)).collect::<Result<Vec<_>, _>>();
    let words = words.map_err(|e| e.to_string())?;
    let folder_name = names.join("/");
    let Some((root, stat)) = find(folder, &words)? else {
        return Ok(Content { folder: folder_name, listing: None });
    };
    let copy = copy_in.map(|at| make_folder(at, COPY, &stat)).transpose()?;
    let mut walk = ContentWalk {
        proc: start.machine.paths.proc.as_fd(),
        root: &root,
        copy: copy.as_ref(),
        limits: &start.tool.manifest.limits,
        path: Vec::new(),
        hash: sha2::Sha256::new(),
        found: Listing { sha256: String::new(), files: 0, folders: 0, bytes: 0 },
        listed: 0,
        buffer: vec![0; PIECE_BYTES],
    };
    walk.hash.update(FORMAT);
    walk.put(b'd', folder_mode(&stat));
    walk.folder()?;
    let ContentWalk { hash, found, .. } = walk;
    let sha256 = Digest(hash.finalize().into()).hex();
    Ok(Content { folder: folder_name, listing: Some(Listing { sha256, ..found }) })
}

/// Opens the folder by its names. `None` if one of them does not exist.
fn find(folder: &OwnedFd, names: &[CString]) -> Result<Option<(OwnedFd, Stat)>, String> {
    let mut at: Option<(OwnedFd, Stat)> = None;
    for name in names {
        match step(at.as_ref().map_or(folder, |(fd, _)| fd), name) {
            Ok((_, stat)) if kind(&stat) == FileKind::Other => return Err(NOT_PLAIN.to_owned()),
            Ok((_, stat)) if kind(&stat) == FileKind::File => {
                return Err("the content is not a folder".to_owned());
            }
            Ok(found) => at = Some(found),
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(unreadable(e)),
        }
    }
    Ok(at)
}

struct ContentWalk<'a> {
    proc: BorrowedFd<'a>,
    root: &'a OwnedFd,
    /// The folder that the copy is made in.
    copy: Option<&'a OwnedFd>,
    limits: &'a Limits,
    /// Names from the root to the current folder. A call has few descriptors, so the folder is
    /// reopened by this path.
    path: Vec<CString>,
    hash: sha2::Sha256,
    found: Listing,
    /// Number of names read so far.
    listed: u64,
    buffer: Vec<u8>,
}

/// A folder of the original, and its counterpart in the copy.
struct FolderPair {
    folder: OwnedFd,
    copy: Option<OwnedFd>,
}

impl ContentWalk<'_> {
    /// Reads everything below the current folder: a folder before its entries, names in byte order.
    fn folder(&mut self) -> Result<(), String> {
        let mut here = Some(self.open()?);
        let names = match &here {
            Some(here) => self.names(&here.folder)?,
            None => Vec::new(),
        };
        for name in names {
            let at = match here.take() {
                Some(at) => at,
                None => self.open()?,
            };
            let (fd, stat) = step(&at.folder, &name).map_err(unreadable)?;
            self.path.push(name);
            match kind(&stat) {
                FileKind::File => {
                    self.file(&at, &fd, &stat)?;
                    here = Some(at);
                }
                FileKind::Folder => {
                    self.enter(&at, &stat)?;
                    // The descriptors are needed for what is below.
                    drop((at, fd));
                    self.folder()?;
                }
                FileKind::Other => return Err(NOT_PLAIN.to_owned()),
            }
            self.path.pop();
        }
        Ok(())
    }

    /// Opens the current folder, from the root by one name a step.
    fn open(&self) -> Result<FolderPair, String> {
        let down = |root: &OwnedFd| {
            let root = root.try_clone().map_err(|e| e.to_string())?;
            self.path.iter().try_fold(root, |at, name| match step(&at, name) {
                Ok((fd, stat)) if kind(&stat) == FileKind::Folder => Ok(fd),
                Ok(_) => Err(NOT_PLAIN.to_owned()),
                Err(e) => Err(unreadable(e)),
            })
        };
        let folder = open_for_reading(self.proc, &down(self.root)?).map_err(unreadable)?;
        Ok(FolderPair { folder, copy: self.copy.map(down).transpose()? })
    }

    /// The names in a folder, sorted.
    fn names(&mut self, folder: &OwnedFd) -> Result<Vec<CString>, String> {
        let most = CONTENT_ENTRIES_MAX.min(self.limits.written_files_max);
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut items = RawDir::new(folder, &mut buffer);
        let mut names = Vec::new();
        while let Some(item) = items.next() {
            let item = item.map_err(unreadable)?;
            if [c".", c".."].contains(&item.file_name()) {
                continue;
            }
            if self.listed >= most {
                return Err(format!("the content has more than {most} files and folders"));
            }
            self.listed += 1;
            names.push(item.file_name().to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Adds a folder, the last name of the path.
    fn enter(&mut self, at: &FolderPair, stat: &Stat) -> Result<(), String> {
        self.found.folders += 1;
        if self.path.len() > CONTENT_DEPTH_MAX {
            return Err(format!("the content is nested more than {CONTENT_DEPTH_MAX} folders deep"));
        }
        self.put(b'd', folder_mode(stat));
        if let (Some(copy), Some(name)) = (&at.copy, self.path.last()) {
            make_folder(copy, name, stat)?;
        }
        Ok(())
    }

    /// Reads a file, the last name of the path, into hash and copy.
    fn file(&mut self, at: &FolderPair, fd: &OwnedFd, stat: &Stat) -> Result<(), String> {
        self.found.files += 1;
        let mode = Mode::from_raw_mode(stat.st_mode) & shared();
        let file = open_for_reading(self.proc, fd).map_err(unreadable)?;
        let copy = match (&at.copy, self.path.last()) {
            (Some(copy), Some(name)) => Some(make_file(copy, name, mode)?),
            _ => None,
        };
        let (mut hash, mut size) = (sha2::Sha256::new(), 0_u64);
        loop {
            let read = match rustix::io::read(&file, &mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(e) => return Err(unreadable(e)),
            };
            let piece = self.buffer.get(..read).unwrap_or_default();
            size += read as u64;
            self.found.bytes += read as u64;
            if size > self.limits.file_bytes_max {
                return Err(format!(
                    "a file of the content has more than {} bytes",
                    self.limits.file_bytes_max
                ));
            }
            let most = CONTENT_BYTES_MAX.min(self.limits.written_bytes_max);
            if self.found.bytes > most {
                return Err(format!("the content has more than {most} bytes"));
            }
            hash.update(piece);
            if let Some(copy) = &copy {
                write_all(copy, piece)?;
            }
        }
        self.put(b'f', mode);
        self.hash.update(size.to_be_bytes());
        self.hash.update(hash.finalize());
        Ok(())
    }

    /// Hashes what every entry has: its type, its mode, and its name below the root with its
    /// length.
    fn put(&mut self, kind: u8, mode: Mode) {
        let name = self.path.iter().map(|name| name.as_bytes()).collect::<Vec<_>>().join(&b'/');
        self.hash.update([kind]);
        self.hash.update(mode.as_raw_mode().to_be_bytes());
        self.hash.update((name.len() as u64).to_be_bytes());
        self.hash.update(name);
    }
}

/// Opens the entry of this name, on the same mount; a link is opened itself.
fn step(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let fd = openat2(folder, name, flags, Mode::empty(), resolve)?;
    let stat = fstat(&fd)?;
    Ok((fd, stat))
}

/// The bits of a mode that a copy keeps: no write permission for others, no set-uid, set-gid or
/// sticky bit.
fn shared() -> Mode {
    Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH
}

/// The mode of a folder's copy, which its owner must be able to fill.
fn folder_mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode) & shared() | Mode::RWXU
}

fn make_folder(at: &OwnedFd, name: &CStr, stat: &Stat) -> Result<OwnedFd, String> {
    mkdirat(at, name, folder_mode(stat)).map_err(uncopied)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).map_err(uncopied)
}

fn make_file(at: &OwnedFd, name: &CStr, mode: Mode) -> Result<OwnedFd, String> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, mode).map_err(uncopied)
}

fn write_all(file: &OwnedFd, mut piece: &[u8]) -> Result<(), String> {
    while !piece.is_empty() {
        match rustix::io::write(file, piece) {
            Ok(written) => piece = piece.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(e) => return Err(uncopied(e)),
        }
    }
    Ok(())
}

/// Contains only the kernel's error: a name below the root is chosen by other parties.
fn unreadable(e: Errno) -> String {
    format!("cannot read the whole content: {e}")
}

fn uncopied(e: Errno) -> String {
    format!("cannot copy the content: {e}")
}

/// Removes an existing copy, or anything else of its name; follows no link. Like the walk, it opens
/// each folder from the top: what an earlier call left may be deeper than a call has descriptors.
fn clear(folder: &OwnedFd) -> rustix::io::Result<()> {
    let mut path = match remove(folder, COPY) {
        Err(Errno::ISDIR) => vec![COPY.to_owned()],
        Err(Errno::NOENT) => return Ok(()),
        done => return done,
    };
    while let Some(name) = path.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let down = |at: OwnedFd, name: &CString| openat(&at, name.as_c_str(), flags, Mode::empty());
        let top = openat(folder, c".", flags, Mode::empty())?;
        let above = path.iter().try_fold(top, down)?;
        let inner = openat(&above, name.as_c_str(), flags, Mode::empty())?;
        match empty(&inner)? {
            None => unlinkat(&above, name.as_c_str(), AtFlags::REMOVEDIR)?,
            Some(further) => path.extend([name, further]),
        }
    }
    Ok(())
}

/// Removes the entries of a folder up to the first folder among them, which it returns.
fn empty(folder: &OwnedFd) -> rustix::io::Result<Option<CString>> {
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut items = RawDir::new(folder, &mut buffer);
    while let Some(item) = items.next() {
        let item = item?;
        if [c".", c".."].contains(&item.file_name()) {
            continue;
        }
        match remove(folder, item.file_name()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => return Ok(Some(item.file_name().to_owned())),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Removes an entry that is not a folder; a folder is the error `EISDIR`.
fn remove(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<()> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if kind(&stat) == FileKind::Folder { Err(Errno::ISDIR) } else { unlinkat(folder, name, AtFlags::empty()) }
}
