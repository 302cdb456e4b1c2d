//! What one report reads in the folders of its manifest: only names that the tool's table lists.

use super::start::Start;
use super::walk::read_names;
use crate::launcher::tool::Root;
use crate::tools::Builtin;
use crate::tools::builtin::Answer;
use crate::tools::builtin::system_files::{
    SystemEntry, SystemFiles, SystemFolder, SystemView, is_listed, report_of_files,
};
use crate::types::clock::mono_us;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;

/// Names of one folder that are looked at.
const NAMES_MAX: usize = 4_096;

/// The files of one call.
struct CallFiles<'a> {
    which: Builtin,
    roots: &'a [Root],
}

/// Runs the report `which` on the granted folders.
pub(crate) fn report(start: &Start<'_>, which: Builtin) -> Answer {
    let (limits, host) = (start.tool.manifest.limits, &start.machine.supplies.host);
    let files = CallFiles { which, roots: start.tool.system_roots() };
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&root.fd, ".", flags, Mode::empty())?;
        let names = read_names(&folder, NAMES_MAX)?;
        let is_cut = names.len() > NAMES_MAX;
        let last = root.canonical.rsplit('/').next().unwrap_or_default();
        let entry = |name: &CStr| {
            let text = name.to_str().ok().filter(|text| is_listed(self.which, last, text))?;
            // One that was removed in between is not there.
            let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(described(text, &stat))
        };
        let entries = names.iter().filter_map(|name| entry(name)).collect();
        let modified_s = fstat(&folder)?.st_mtime;
        Ok(SystemFolder { path: root.canonical.clone(), modified_s, entries, is_cut })
    }
}

fn described(name: &str, stat: &Stat) -> SystemEntry {
    SystemEntry {
        name: name.to_owned(),
        is_file: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        modified_s: stat.st_mtime,
        changed_s: stat.st_ctime,
    }
}

impl SystemFiles for CallFiles<'_> {
    fn open(&self, path: &str, name: &str) -> Result<File, Errno> {
        let last = path.rsplit('/').next().unwrap_or_default();
        let root = self.roots.iter().find(|root| root.canonical == path);
        let root = root.filter(|_| is_listed(self.which, last, name) && !name.contains('/'));
        // A FIFO does not block, and is not read.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&root.ok_or(Errno::ACCESS)?.fd, name, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(Errno::ACCESS),
        }
    }
}
