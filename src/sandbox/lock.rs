//! The front's own lock: the part that talks to the network and the model cannot start a process,
//! write what decides what may run, or open a listener that was not configured.

use super::filter::{Dials, front, serving};
use crate::launcher::StartError;
use crate::launcher::confine::layers::{self, Landlock, PathRule};
use crate::launcher::confine::seccomp::compile::{load, load_everywhere};
use crate::launcher::view::files::open_path;
use landlock::AccessFs;
use rustix::fs::{FileType, fstat};
use rustix::thread::CapabilitySet;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// Locks the calling process: no new privileges, not dumpable, no capabilities, writing only below
/// `writable`, no exec, no fork, nothing that reaches into other processes or the kernel, and no
/// TCP port except those that are open, if Landlock knows ports.
///
/// Called with one thread, before any runtime: threads that start later inherit the lock, and may
/// still be started. Cannot be undone. Returns the names of the layers.
///
/// # Errors
///
/// A layer that is not fully enforced, or a folder of `writable` that does not exist.
pub fn lock_front(writable: &[PathBuf]) -> Result<Vec<String>, StartError> {
    lock(writable).map_err(|reason| StartError::new("front", reason))
}

/// Removes from every thread of the process what a serving front does not need: new listeners,
/// sockets other than those of TCP, UDP and `dials`, and what the kernel allows on files and
/// processes of the same user and Landlock does not cover, such as modes, owners, times and limits.
///
/// Called after [`lock_front`], once the front's own sockets are open. Cannot be undone.
pub fn narrow_front(dials: Dials) -> Result<(), StartError> {
    let pid = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    load_everywhere(&serving(dials, pid)).map_err(|reason| StartError::new("front", reason))
}

fn lock(writable: &[PathBuf]) -> Result<Vec<String>, String> {
    let landlock = Landlock::probe(None)?;
    rustix::thread::set_no_new_privs(true).map_err(|e| format!("no_new_privs: {e}"))?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|e| format!("dumpable: {e}"))?;
    if layers::holds_capabilities()? {
        layers::lock_secure_bits()?;
        layers::keep_capabilities(CapabilitySet::empty())?;
    }
    confine_writes(landlock, writable)?;
    load(&front())?;
    let names = ["no_new_privs", "no capabilities", "seccomp"].map(str::to_owned);
    Ok(names.into_iter().chain([landlock.name()]).collect())
}

fn confine_writes(landlock: Landlock, writable: &[PathBuf]) -> Result<(), String> {
    let null = Path::new("/dev/null");
    let mut opened = Vec::new();
    for path in writable.iter().map(PathBuf::as_path).chain([null]) {
        let fd = open_path(path).map_err(|e| format!("`{}`: {e}", path.display()))?;
        let stat = fstat(&fd).map_err(|e| format!("`{}`: {e}", path.display()))?;
        let rights = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => landlock.write_rights(),
            FileType::RegularFile => landlock.file_write_rights(),
            _ => AccessFs::WriteFile.into(),
        };
        opened.push((fd, rights));
    }
    let grants: Vec<PathRule<'_>> =
        opened.iter().map(|(fd, rights)| PathRule { at: fd.as_fd(), rights: *rights }).collect();
    layers::restrict(landlock.ruleset_against_writes(&grants)?)
}
