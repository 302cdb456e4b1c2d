//! What a program is given in addition to its arguments: standard input, and descriptors from 3 on.

use crate::launcher::child::start::Start;
use crate::launcher::host::machine::Machine;
use crate::launcher::sys;
use crate::tools::{ResourceSpec, Stdin, secret_variable};
use crate::types::json::canonical;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionbio};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::Value;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

/// The number of the first descriptor, as in sd_listen_fds(3).
const FIRST: RawFd = 3;

/// Initial capacity of every pipe, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// What one call's program is given, opened before it is started.
#[derive(Debug)]
pub(crate) struct ProgramInputs {
    input: Option<OwnedFd>,
    /// In the order of the numbers that they get.
    handed: Vec<OwnedFd>,
    /// Environment entries that name them.
    pub(crate) words: Vec<CString>,
}

impl ProgramInputs {
    /// `about` is the canonical name of the call's object, if it has one; `connected` are the
    /// manifest's connections.
    pub(crate) fn gather(
        start: &Start<'_>,
        about: Option<&str>,
        connected: Vec<OwnedFd>,
    ) -> Result<Self, String> {
        let (tool, manifest) = (start.tool, &start.tool.manifest);
        let input = match manifest.stdin {
            Stdin::None => None,
            Stdin::Json => Some(filled(&line(start.arguments, &manifest.resource, about)?)?),
        };
        let mut given = Self { input, handed: Vec::new(), words: Vec::new() };
        for (name, memory) in manifest.secrets.iter().zip(&tool.secrets) {
            let opened = own(start.machine, memory).map_err(|e| format!("the secret `{name}`: {e}"))?;
            let number = given.hand(opened);
            given.set(&secret_variable(name), &format!("/proc/self/fd/{number}"))?;
        }
        for (at, connection) in (1..).zip(connected) {
            let number = given.hand(connection);
            given.set(&format!("PAR_CONNECT_{at}"), &number.to_string())?;
        }
        Ok(given)
    }

    /// A copy of `fd` under a number that none of these will get.
    pub(crate) fn above(&self, fd: &OwnedFd) -> Result<OwnedFd, String> {
        fcntl_dupfd_cloexec(fd, self.next()).map_err(|e| format!("descriptor: {e}"))
    }

    /// Moves each descriptor to the number where the program expects it: in the program's own
    /// process, before its exec. A descriptor that has such a number there is closed.
    pub(crate) fn hand_over(&self) -> Result<(), String> {
        if let Some(input) = &self.input {
            nix::unistd::dup2_stdin(input).map_err(|e| format!("stdin: {e}"))?;
        }
        let put = |(fd, number): (BorrowedFd<'_>, RawFd)| {
            sys::put_at(fd, number).map_err(|e| format!("descriptor {number}: {e}"))
        };
        // Copies above all of these numbers first, so that assigning one number closes none of the
        // others.
        let lifted = self.handed.iter().map(|fd| self.above(fd)).collect::<Result<Vec<_>, _>>()?;
        lifted.iter().map(AsFd::as_fd).zip(FIRST..).try_for_each(put)
    }

    /// Adds `fd` and returns the number that it gets.
    fn hand(&mut self, fd: OwnedFd) -> RawFd {
        self.handed.push(fd);
        self.next() - 1
    }

    fn next(&self) -> RawFd {
        FIRST + RawFd::try_from(self.handed.len()).unwrap_or(RawFd::MAX - FIRST)
    }

    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        let word = CString::new(format!("{word}={value}"))
            .map_err(|_| "an environment variable contains a NUL byte".to_owned())?;
        self.words.push(word);
        Ok(())
    }
}

/// Reopens the launcher's `fd` to be read by one call: on the launcher's own open file description,
/// the offset, the flags and the locks that one call leaves would affect all others.
pub(crate) fn own(machine: &Machine, fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    let link = format!("self/fd/{}", fd.as_raw_fd());
    openat(&machine.paths.proc, link, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// The arguments as one line of canonical JSON. The resource is written as it was decided on, not
/// as the model spelled it.
fn line(arguments: &Value, resource: &ResourceSpec, about: Option<&str>) -> Result<Vec<u8>, String> {
    let mut arguments = arguments.clone();
    if let ResourceSpec::Path { argument } = resource {
        let about = about.ok_or_else(|| format!("`{argument}` has no object"))?;
        let members = arguments.as_object_mut().ok_or("the arguments are not an object")?;
        members.insert(argument.clone(), about.into());
    }
    let mut line = canonical(&arguments).map_err(|e| e.to_string())?.into_bytes();
    line.push(b'\n');
    Ok(line)
}

/// The read end of a pipe that holds `bytes` and never more, since its write end is closed.
///
/// A memory file is not an option: this call's limit on files already forbids it. A pipe also
/// cannot be mapped, and is empty once it was read.
fn filled(bytes: &[u8]) -> Result<OwnedFd, String> {
    let refuse = |e: Errno| format!("stdin: {e}");
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(refuse)?;
    if bytes.len() > PIPE_BYTES {
        fcntl_setpipe_size(&write, bytes.len()).map_err(refuse)?;
    }
    // It takes all bytes at once or is full: a user with many pipes gets small ones.
    if rustix::io::write(&write, bytes).map_err(refuse)? != bytes.len() {
        return Err("stdin: the arguments do not fit into a pipe".to_owned());
    }
    ioctl_fionbio(&read, false).map_err(refuse)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::tools::{IdKind, ResourceSpec};
    use serde_json::json;

    #[test]
    fn the_resource_is_written_as_it_was_decided_on() {
        let path = ResourceSpec::Path { argument: "path".to_owned() };
        let id = ResourceSpec::Id { kind: IdKind::Job, argument: "job".to_owned() };
        let written = |arguments, resource, about| {
            line(&arguments, resource, about).map(|line| String::from_utf8(line).expect("UTF-8"))
        };
        assert_eq!(
            written(
                json!({ "path": "/a/../b", "n": [1, true, null], "deep": { "b": 1, "a": "x\ny" } }),
                &path,
                Some("/b")
            ),
            Ok("{\"deep\":{\"a\":\"x\\ny\",\"b\":1},\"n\":[1,true,null],\"path\":\"/b\"}\n".to_owned())
        );
        assert_eq!(written(json!({ "path": "/a" }), &path, None), Err("`path` has no object".to_owned()));
        assert_eq!(written(json!({ "job": "j" }), &id, None), Ok("{\"job\":\"j\"}\n".to_owned()));
    }
}
