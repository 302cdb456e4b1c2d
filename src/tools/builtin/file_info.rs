//! What a file is: type, size, owner, times and digest.

use super::answer::{Answer, NOT_FOUND, stamped};
use super::host::Host;
use super::list_dir::{kind, time};
use crate::types::Digest;
use crate::types::clock::mono_us;
use rustix::fs::fstat;
use rustix::io::{Errno, read};
use serde_json::{Map, Value, json};
use sha2::Digest as _;
use std::os::fd::BorrowedFd;

/// One read of the file, in bytes.
const READ_BYTES: usize = 256 << 10;

/// Describes `object`, opened with `O_PATH` or for reading, whose name is `path`. `content` is the
/// same object open for reading from its start, if it is a regular file that may be read.
///
/// The answer has `sha256` if all of the content was read before `end_us` ([`mono_us`]), and
/// otherwise `sha256_missing` with the reason.
pub fn file_info(
    object: BorrowedFd<'_>,
    content: Option<BorrowedFd<'_>>,
    path: &str,
    host: &Host,
    end_us: u64,
) -> Answer {
    let stat = fstat(object).map_err(|_| NOT_FOUND.to_owned())?;
    let kind = kind(&stat);
    let mut one = Map::new();
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    for (name, value) in [
        ("path", json!(path)),
        ("type", json!(kind)),
        ("size_bytes", json!(size)),
        ("on_disk_bytes", json!(blocks.saturating_mul(512))),
        ("mode", json!(format!("{:04o}", stat.st_mode & 0o7777))),
        ("links", json!(stat.st_nlink)),
        ("inode", json!(stat.st_ino)),
        ("modified", json!(time(stat.st_mtime, stat.st_mtime_nsec).rfc3339())),
        ("changed", json!(time(stat.st_ctime, stat.st_ctime_nsec).rfc3339())),
    ] {
        one.insert(name.to_owned(), value);
    }
    put_owners(&mut one, host, (stat.st_uid, stat.st_gid));
    let digest = match content {
        Some(file) if kind == "file" => digest(file, end_us),
        None if kind == "file" => Err("unreadable"),
        _ => Err("not_a_file"),
    };
    match digest {
        Ok(digest) => one.insert("sha256".to_owned(), json!(digest.hex())),
        Err(reason) => one.insert("sha256_missing".to_owned(), json!(reason)),
    };
    Ok(stamped(Value::Object(one), &host.hostname))
}

/// Adds owner and group, and to `not_seen` which of them this call cannot know.
fn put_owners(one: &mut Map<String, Value>, host: &Host, (uid, gid): (u32, u32)) {
    let mut not_seen = Vec::new();
    for (id, member, what) in [(uid, "uid", "owner"), (gid, "gid", "group")] {
        match host.is_known(id) {
            true => drop(one.insert(member.to_owned(), json!(id))),
            false => not_seen.push(what),
        }
    }
    if let Some(name) = host.users.get(&uid).filter(|_| host.is_known(uid)) {
        one.insert("user".to_owned(), json!(name));
    }
    one.insert("not_seen".to_owned(), json!(not_seen));
}

fn digest(file: BorrowedFd<'_>, end_us: u64) -> Result<Digest, &'static str> {
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0_u8; READ_BYTES];
    loop {
        if mono_us() >= end_us {
            return Err("time");
        }
        match read(file, &mut buffer) {
            Ok(0) => return Ok(Digest(hash.finalize().into())),
            Ok(length) => hash.update(buffer.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(_) => return Err("unreadable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::file_info;
    use crate::tools::builtin::host::Host;
    use std::os::fd::AsFd as _;

    /// In a user namespace with one uid, every other owner has the same number.
    #[test]
    fn an_owner_that_cannot_be_known_is_not_shown() {
        let users = [(65_534, "nobody".to_owned()), (33, "web".to_owned())].into();
        let mut host = Host { users, hides_owners: true, ..Host::default() };
        let told = |host: &Host, ids| {
            let mut one = serde_json::Map::new();
            super::put_owners(&mut one, host, ids);
            serde_json::Value::Object(one)
        };
        let hidden = serde_json::json!({ "not_seen": ["owner", "group"] });
        assert_eq!(told(&host, (65_534, 65_534)), hidden);
        let own = serde_json::json!({ "uid": 33, "gid": 33, "user": "web", "not_seen": [] });
        assert_eq!(told(&host, (33, 33)), own);
        host.hides_owners = false;
        let nobody = serde_json::json!({ "uid": 65_534, "gid": 33, "user": "nobody", "not_seen": [] });
        assert_eq!(told(&host, (65_534, 33)), nobody);
    }

    #[test]
    fn a_file_has_its_digest_and_a_folder_has_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let name = dir.path().join("f");
        std::fs::write(&name, "abc").expect("written");
        let file = std::fs::File::open(&name).expect("open");
        let host = Host { hostname: "h".to_owned(), ..Host::default() };
        let info = file_info(file.as_fd(), Some(file.as_fd()), "/d/f", &host, u64::MAX).expect("an answer");
        assert_eq!(info["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            (&info["size_bytes"], &info["type"], &info["host"]),
            (&3.into(), &"file".into(), &"h".into())
        );
        let late = file_info(file.as_fd(), Some(file.as_fd()), "/d/f", &host, 0).expect("an answer");
        assert_eq!((&late["sha256_missing"], late.get("sha256")), (&"time".into(), None));
        let closed = file_info(file.as_fd(), None, "/d/f", &host, u64::MAX).expect("an answer");
        assert_eq!(closed["sha256_missing"], "unreadable");
        let folder = std::fs::File::open(dir.path()).expect("open");
        let info = file_info(folder.as_fd(), None, "/d", &host, u64::MAX).expect("an answer");
        assert_eq!((&info["type"], &info["sha256_missing"]), (&"folder".into(), &"not_a_file".into()));
    }
}
