//! The entries of one folder.

use super::answer::{Answer, FRAME_BYTES, NOT_FOUND, integer, json_len};
use crate::types::clock::Wall;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, FileType, RawDir, Stat, fstat, statat};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

/// Entries that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 200;
/// One read of the folder, in bytes.
const READ_BYTES: usize = 32 << 10;

/// Lists `folder`, which is open for reading; `path` is its name.
///
/// Reads at most as many entries as the limit allows, in the folder's own order, and sorts these by
/// name. `truncated` says that there are more entries, or that they do not fit `output_bytes_max`.
/// Links are not followed. A name that is not UTF-8 is given as `name_base64`.
pub fn list_dir(folder: BorrowedFd<'_>, path: &str, arguments: &Value, output_bytes_max: usize) -> Answer {
    let stat = fstat(folder).map_err(|_| NOT_FOUND.to_owned())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(format!("`{path}` is not a folder"));
    }
    let limit = usize::try_from(integer(arguments, "limit", LIMIT_DEFAULT)).unwrap_or(usize::MAX);
    let (mut names, mut truncated) = read_names(folder, limit).map_err(|e| format!("`{path}`: {e}"))?;
    names.sort();

    let mut room = output_bytes_max.saturating_sub(FRAME_BYTES + json_len(path));
    let mut entries = Vec::with_capacity(names.len());
    let mut unreadable = 0_u64;
    for name in &names {
        let (entry, is_readable) = describe(folder, name);
        unreadable += u64::from(!is_readable);
        match room.checked_sub(entry.to_string().len() + 1) {
            Some(rest) => room = rest,
            None => {
                truncated = true;
                break;
            }
        }
        entries.push(entry);
    }
    let mut answer = json!({ "path": path, "entries": entries, "truncated": truncated });
    if let Some(members) = answer.as_object_mut().filter(|_| unreadable > 0) {
        members.insert("files_skipped_by".to_owned(), json!({ "unreadable": unreadable }));
    }
    Ok(answer)
}

/// The first `limit` names, and whether there are more.
fn read_names(folder: BorrowedFd<'_>, limit: usize) -> Result<(Vec<CString>, bool), rustix::io::Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
    let mut items = RawDir::new(folder, &mut buffer);
    let mut names = Vec::new();
    while let Some(item) = items.next() {
        let item = item?;
        let name = item.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if names.len() == limit {
            return Ok((names, true));
        }
        names.push(name.to_owned());
    }
    Ok((names, false))
}

/// An entry, and whether the tools' user may look at it: a folder may be readable and not
/// searchable.
fn describe(folder: BorrowedFd<'_>, name: &CStr) -> (Value, bool) {
    let mut entry = Map::new();
    match name.to_str() {
        Ok(text) => entry.insert("name".to_owned(), json!(text)),
        Err(_) => entry.insert("name_base64".to_owned(), json!(STANDARD.encode(name.to_bytes()))),
    };
    // An entry that was removed in between keeps its name.
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_readable = !matches!(stat, Err(Errno::ACCESS));
    if let Ok(stat) = stat {
        entry.insert("type".to_owned(), json!(kind(&stat)));
        entry.insert("size".to_owned(), json!(u64::try_from(stat.st_size).unwrap_or(0)));
        entry.insert("modified".to_owned(), json!(time(stat.st_mtime, stat.st_mtime_nsec).rfc3339()));
    }
    (Value::Object(entry), is_readable)
}

/// The word for a file's type.
pub(super) fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "link",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "other",
    }
}

/// A time of a file, to the microsecond; 1970 for earlier ones.
pub(super) fn time(seconds: i64, nanoseconds: u64) -> Wall {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    Wall(seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1_000))
}

#[cfg(test)]
mod tests {
    use super::list_dir;
    use crate::tools::builtin::answer::{hold_to_schema, stamped};
    use serde_json::{Value, json};
    use std::ffi::OsStr;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    fn list(folder: &std::path::Path, arguments: &Value, output_bytes_max: usize) -> Value {
        let folder = std::fs::File::open(folder).expect("open");
        let answer = list_dir(folder.as_fd(), "/d", arguments, output_bytes_max).expect("an answer");
        hold_to_schema(include_str!("../../../tools.d/list_dir.toml"), &stamped(answer.clone(), "h"));
        answer
    }

    #[test]
    fn names_types_and_sizes() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("b\u{1b}"), "12345").expect("written");
        std::fs::write(dir.path().join(OsStr::from_bytes(b"z\xff")), "").expect("written");
        std::fs::create_dir(dir.path().join("a")).expect("made");
        std::os::unix::fs::symlink("/etc/shadow", dir.path().join("l")).expect("linked");
        let mut answer = list(dir.path(), &json!({}), 65_536);
        for entry in answer["entries"].as_array_mut().expect("entries") {
            assert!(entry["modified"].as_str().is_some_and(|at| at.ends_with('Z')), "{entry}");
            entry.as_object_mut().expect("object").remove("modified");
        }
        assert_eq!(answer["entries"][1], json!({"name":"b\u{1b}","type":"file","size":5}));
        assert_eq!(answer["entries"][2]["type"], "link");
        assert_eq!(answer["entries"][3], json!({"name_base64":"ev8=","type":"file","size":0}));
        assert_eq!(answer["entries"][0]["type"], "folder");
        assert_eq!(answer["truncated"], false);
    }

    #[test]
    fn many_entries_are_cut_at_the_limit_and_at_the_output_limit() {
        let dir = tempfile::tempdir().expect("a folder");
        for at in 0..50 {
            std::fs::write(dir.path().join(format!("{at:02}-{}", "\u{1}".repeat(200))), "").expect("written");
        }
        let answer = list(dir.path(), &json!({"limit": 7}), 65_536);
        assert_eq!(answer["entries"].as_array().map(Vec::len), Some(7));
        assert_eq!(answer["truncated"], true);
        let answer = list(dir.path(), &json!({}), 20_000);
        assert!(answer.to_string().len() < 20_000);
        assert_eq!(answer["truncated"], true);
    }
}
