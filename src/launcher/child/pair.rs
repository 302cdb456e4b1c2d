//! The two files of `diff_files`, below one folder.

use super::walk::{is_excluded, open_entry};
use crate::call::{Beneath, FileKind, PathObject};
use crate::launcher::host::entered::Paths;
use crate::launcher::view::files::{kind, open_for_reading};
use crate::tools::builtin::{Answer, NOT_FOUND, diff_files};
use rustix::fs::{Mode, OFlags, openat};
use serde_json::Value;
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

/// Names in the path of a file below the folder.
const NAMES_MAX: usize = 32;

/// Compares the files that the arguments `old` and `new` name below `object`, a folder that is open
/// for reading as `fd`. An excluded file reads as absent.
pub(crate) fn compare(
    paths: &Paths,
    object: &PathObject,
    fd: &OwnedFd,
    excluded: &[&Beneath],
    arguments: &Value,
    output_bytes_max: usize,
    host: &str,
) -> Answer {
    let find = |argument: &str| {
        let name = arguments.get(argument).and_then(Value::as_str).unwrap_or_default();
        find(paths, object, fd, excluded, name).map_err(|reason| format!("`{argument}`: {reason}"))
    };
    let ((old, old_file), (new, new_file)) = (find("old")?, find("new")?);
    diff_files((&old, old_file.as_fd()), (&new, new_file.as_fd()), arguments, output_bytes_max, host)
}

/// A file below the folder: its path, and the file open for reading. No link is followed and no
/// other mount is entered.
fn find(
    paths: &Paths,
    object: &PathObject,
    folder: &OwnedFd,
    excluded: &[&Beneath],
    name: &str,
) -> Result<(String, OwnedFd), String> {
    let not_found = |_| NOT_FOUND.to_owned();
    let names: Vec<&str> = name.split('/').collect();
    let is_plain = |one: &&str| !matches!(*one, "" | "." | "..");
    if names.len() > NAMES_MAX || !names.iter().all(is_plain) {
        return Err("a path below the folder is expected, such as `conf/app.toml`".to_owned());
    }
    let mount = paths.origins.mount(folder.as_fd());
    let mut at = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(not_found)?;
    let mut path = object.canonical.trim_end_matches('/').to_owned();
    for (index, one) in names.iter().enumerate() {
        path.push('/');
        path.push_str(one);
        let c_name = CString::new(*one).map_err(|_| NOT_FOUND.to_owned())?;
        let (stat, fd) = open_entry(&at, &c_name).map_err(not_found)?;
        let wanted = if index + 1 == names.len() { FileKind::File } else { FileKind::Folder };
        let is_here = mount.is_some() && paths.origins.mount(fd.as_fd()) == mount;
        if is_excluded(excluded, &stat, path.as_bytes()) || !is_here || kind(&stat) != wanted {
            return Err(NOT_FOUND.to_owned());
        }
        at = open_for_reading(paths.proc.as_fd(), &fd).map_err(not_found)?;
    }
    Ok((path, at))
}
