//! The launcher's own namespaces, in two stages: the first makes them and writes id maps, the
//! second lives there.
//!
//! A user namespace's maps are written from the parent namespace, which the second stage has left
//! for good when it locks the mounts of its view. So the first stage stays outside, writes the maps
//! when it is asked to, and then only waits.

use crate::launcher::protocol::{Received, receive};
use crate::launcher::sys;
use nix::sched::CloneFlags;
use rustix::fs::{Mode, OFlags, openat};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

/// Length of a message between the stages, in bytes.
const WORD_BYTES_MAX: usize = 1_024;
const MAPPED: &[u8] = b"mapped";

/// Enters all new namespaces at once: a launcher with only some of them would be hard to reason
/// about. The next fork is the first process of its PID namespace.
pub(crate) fn enter(root: bool) -> Result<(), String> {
    if !root {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        sys::unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| format!("user namespace: {e}"))?;
        write_own("/proc/self/setgroups", "deny")?;
        write_own("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
        write_own("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    }
    let all = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    sys::unshare(all).map_err(|e| format!("pid, net, ipc, uts and cgroup namespace: {e}"))
}

fn write_own(path: &str, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("`{path}`: {e}"))
}

/// The two ends of the channel between the stages.
pub(crate) fn stages() -> Result<(FirstStage, SecondStage), String> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (first, second) = pair.map_err(|e| format!("stages: {e}"))?;
    Ok((FirstStage(first), SecondStage(second)))
}

/// The first stage's end.
#[derive(Debug)]
pub(crate) struct FirstStage(pub(crate) OwnedFd);

/// The second stage's end.
#[derive(Debug)]
pub(crate) struct SecondStage(OwnedFd);

impl FirstStage {
    /// Writes the maps of the second stage's namespace if it asks; returns once it will not ask any
    /// more. `proc` is the host's `/proc`.
    pub(crate) fn attend(self, proc: impl AsFd) {
        let Received::Packet(pid) = receive(&self.0, WORD_BYTES_MAX) else { return };
        let word = match std::str::from_utf8(&pid).ok().and_then(|pid| pid.parse().ok()) {
            Some(pid) => map(proc, pid).map_or_else(String::into_bytes, |()| MAPPED.to_vec()),
            None => b"the second stage sent no pid".to_vec(),
        };
        // A second stage that is gone needs no answer.
        send(&self.0, &word, SendFlags::NOSIGNAL).ok();
    }
}

impl SecondStage {
    /// Enters a user and a mount namespace below those that own the mounts of this process, which
    /// locks the mounts: they can no longer be unmounted, made writable or looked below. `Ok(Err)`
    /// if the kernel refused, and nothing has changed. `pid` is this process's pid in the first
    /// stage's `/proc`.
    pub(crate) fn lock_mounts(self, pid: u32) -> Result<Result<(), String>, String> {
        let refused = sys::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS);
        if let Err(e) = refused {
            return Ok(Err(format!("second user namespace: {e}")));
        }
        let at = |e: &dyn std::fmt::Display| format!("second user namespace: {e}");
        send(&self.0, pid.to_string().as_bytes(), SendFlags::NOSIGNAL).map_err(|e| at(&e))?;
        match receive(&self.0, WORD_BYTES_MAX) {
            Received::Packet(word) if word == MAPPED => Ok(Ok(())),
            Received::Packet(word) => Err(at(&String::from_utf8_lossy(&word))),
            Received::Nothing | Received::End => Err(at(&"the first stage is gone")),
        }
    }
}

/// Maps every id of this namespace into the namespace of process `pid`, under the same number.
fn map(proc: impl AsFd, pid: u32) -> Result<(), String> {
    for name in ["uid_map", "gid_map"] {
        let at = |e: &dyn std::fmt::Display| format!("`{name}`: {e}");
        let open = |path: &str, flags| {
            let fd = openat(&proc, path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|e| at(&e))?;
            Ok::<_, String>(std::fs::File::from(fd))
        };
        let mut own = String::new();
        open(&format!("self/{name}"), OFlags::RDONLY)?.read_to_string(&mut own).map_err(|e| at(&e))?;
        let text = identity(&own).ok_or_else(|| at(&"a malformed line"))?;
        // A single write: the kernel accepts no second.
        let written = open(&format!("{pid}/{name}"), OFlags::WRONLY)?.write(text.as_bytes());
        if written.map_err(|e| at(&e))? != text.len() {
            return Err(at(&"was written only in part"));
        }
    }
    Ok(())
}

/// The map of a child of the namespace with `map` (user_namespaces(7)), in which each id keeps its
/// number.
fn identity(map: &str) -> Option<String> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (inside, _outside, count) = (words.next()?, words.next()?, words.next()?);
        Some(format!("{inside} {inside} {count}\n"))
    };
    map.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn every_id_keeps_its_number() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(identity(whole).as_deref(), Some("0 0 4294967295\n"));
        let parts = "0 100000 65536\n70000 1000 1\n";
        assert_eq!(identity(parts).as_deref(), Some("0 0 65536\n70000 70000 1\n"));
        assert_eq!(identity("0 1\n"), None);
    }
}
