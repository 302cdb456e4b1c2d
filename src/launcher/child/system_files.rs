//! What one report reads in the folders of its manifest: only names that the tool's table lists.

use super::start::Start;
use super::walk::read_names;
use crate::launcher::tool::Root;
use crate::launcher::view::files::open_for_reading;
use crate::tools::Builtin;
use crate::tools::builtin::Answer;
use crate::tools::builtin::system_files::{
    SystemEntry, SystemFiles, SystemFolder, SystemView, is_listed, is_looked_into, report_of_files,
};
use crate::types::clock::mono_us;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Names of one folder that are looked at.
const NAMES_MAX: usize = 4_096;

/// The files of one call.
struct CallFiles<'a> {
    which: Builtin,
    roots: &'a [Root],
    proc: BorrowedFd<'a>,
}

/// Runs the report `which` on the granted folders.
pub(crate) fn report(start: &Start<'_>, which: Builtin) -> Answer {
    let (limits, host) = (start.tool.manifest.limits, &start.machine.supplies.host);
    let proc = start.machine.paths.proc.as_fd();
    let files = CallFiles { which, roots: start.tool.system_roots(), proc };
    let mut folders = Vec::new();
    let mut unseen = Vec::new();
    for path in &start.tool.manifest.read {
        let root = files.roots.iter().find(|root| path.as_os_str() == root.canonical.as_str());
        match root.map(|root| files.list(root)) {
            Some(Ok(folder)) => folders.push(folder),
            // It is missing, or closed to the tools' user.
            Some(Err(_)) | None => unseen.push(path.to_string_lossy().into_owned()),
        }
    }
    // Ends early, so that what was found by then is reported.
    let end_us = mono_us().saturating_add(limits.wall_ms_max.saturating_mul(750));
    let view = SystemView::new(host, folders, unseen, &files, end_us);
    report_of_files(which, &view, start.arguments, limits.output_bytes_max)
}

impl CallFiles<'_> {
    /// The entries of a granted folder that the tool reads.
    fn list(&self, root: &Root) -> Result<SystemFolder, Errno> {
        let own = fstat(&root.fd)?;
        if FileType::from_raw_mode(own.st_mode) == FileType::RegularFile {
            let entries = vec![described(last_name(&root.canonical), &own)];
            let (path, modified_s) = (root.canonical.clone(), own.st_mtime);
            return Ok(SystemFolder { path, modified_s, entries, is_cut: false });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&root.fd, ".", flags, Mode::empty())?;
        let names = read_names(&folder, NAMES_MAX)?;
        let is_cut = names.len() > NAMES_MAX;
        let last = last_name(&root.canonical);
        let entry = |name: &CStr| {
            let text = name.to_str().ok().filter(|text| is_listed(self.which, last, text))?;
            // One that was removed in between is not there.
            let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(described(text, &stat))
        };
        let mut entries: Vec<SystemEntry> = names.iter().filter_map(|name| entry(name)).collect();
        for name in names.iter().filter_map(|name| name.to_str().ok()) {
            if is_looked_into(self.which, name) {
                entries.extend(self.inner(&folder, last, name)?);
            }
        }
        let modified_s = fstat(&folder)?.st_mtime;
        Ok(SystemFolder { path: root.canonical.clone(), modified_s, entries, is_cut })
    }

    /// The entries of the folder `name` in a granted one whose last name is `last`.
    fn inner(&self, folder: &OwnedFd, last: &str, name: &str) -> Result<Vec<SystemEntry>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = openat(folder, name, flags, Mode::empty())?;
        let entry = |file: &CStr| {
            let text = file.to_str().ok().filter(|text| is_listed(self.which, last, text))?;
            let stat = statat(&inner, file, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(described(&format!("{name}/{text}"), &stat))
        };
        Ok(read_names(&inner, NAMES_MAX)?.iter().filter_map(|file| entry(file)).collect())
    }
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn described(name: &str, stat: &Stat) -> SystemEntry {
    SystemEntry {
        name: name.to_owned(),
        is_file: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        is_executable: stat.st_mode & 0o111 != 0,
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        modified_s: stat.st_mtime,
        changed_s: stat.st_ctime,
    }
}

impl SystemFiles for CallFiles<'_> {
    fn open(&self, path: &str, name: &str) -> Result<File, Errno> {
        let root = self.roots.iter().find(|root| root.canonical == path);
        let root = root.filter(|_| is_listed(self.which, last_name(path), name) && !name.contains('/'));
        let root = root.ok_or(Errno::ACCESS)?;
        let stat = fstat(&root.fd)?;
        let file = if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            // A file that another replaced since the tools were loaded has no name any more.
            if stat.st_nlink == 0 {
                return Err(Errno::STALE);
            }
            open_for_reading(self.proc, &root.fd)?
        } else {
            // A FIFO does not block, and is not read.
            let flags =
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            openat(&root.fd, name, flags, Mode::empty())?
        };
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(Errno::ACCESS),
        }
    }
}
