//! What one report reads of the host's `/proc`.

use crate::launcher::host::kept_proc::KeptProc;
use crate::tools::builtin::host::{ProcFiles, ProcNames};
use rustix::fs::{Mode, OFlags, RawDir, openat};
use rustix::io::{Errno, pread};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// One read of the folder of processes, in bytes.
const READ_BYTES: usize = 32 << 10;

/// The names of one tool: its files, open for reading, and those of processes, which are opened on
/// demand.
pub(crate) struct CallProc<'a> {
    kept: &'a KeptProc,
    of_process: &'static [&'static str],
    files: BTreeMap<&'static str, Result<OwnedFd, Errno>>,
}

impl<'a> CallProc<'a> {
    /// Opens the files, with the rights of the call and before its last filter. One that cannot be
    /// opened is an error when it is read.
    pub(crate) fn open(kept: &'a KeptProc, names: ProcNames) -> Self {
        let files = names.files.iter().map(|name| (*name, kept.open_file(name))).collect();
        Self { kept, of_process: names.of_process, files }
    }
}

impl ProcFiles for CallProc<'_> {
    fn file(&self, name: &str, most: usize) -> Result<Vec<u8>, Errno> {
        match self.files.get(name) {
            Some(Ok(file)) => read(file, most),
            Some(Err(e)) => Err(*e),
            None => Err(Errno::ACCESS),
        }
    }

    fn of_process(&self, pid: u32, name: &str, most: usize) -> Result<Vec<u8>, Errno> {
        if !self.of_process.contains(&name) {
            return Err(Errno::ACCESS);
        }
        read(&self.kept.open_file(&format!("{pid}/{name}"))?, most)
    }

    fn processes(&self) -> Result<Vec<u32>, Errno> {
        if self.of_process.is_empty() {
            return Err(Errno::ACCESS);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&self.kept.root, ".", flags, Mode::empty())?;
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut items = RawDir::new(&folder, &mut buffer);
        let mut found = Vec::new();
        while let Some(item) = items.next() {
            found.extend(item?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(found)
    }
}

/// The first `most` bytes, from the start at each call.
fn read(file: impl AsFd, most: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let before = bytes.len();
        bytes.resize(most.min(before.saturating_mul(2).max(8 << 10)), 0);
        let free = bytes.get_mut(before..).unwrap_or_default();
        let read = match pread(file.as_fd(), free, before as u64) {
            Err(Errno::INTR) => 0,
            Err(e) => return Err(e),
            Ok(0) => {
                bytes.truncate(before);
                break;
            }
            Ok(read) => read,
        };
        bytes.truncate(before + read);
    }
    Ok(bytes)
}
