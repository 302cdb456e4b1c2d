//! What a program is given beside its arguments' words: standard input.

use super::child::Start;
use crate::tools::{Resource, Stdin};
use crate::types::json::canonical;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde_json::Value;
use std::os::fd::OwnedFd;

/// What every pipe holds at first, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// What one call's program is given, made before it is started.
#[derive(Debug)]
pub(super) struct Given {
    input: Option<OwnedFd>,
}

impl Given {
    /// `about` is the canonical name of the call's object, where it has one.
    pub(super) fn gather(start: &Start<'_>, about: Option<&str>) -> Result<Self, String> {
        let manifest = &start.tool.manifest;
        let input = match manifest.stdin {
            Stdin::None => None,
            Stdin::Json => Some(filled(&line(start.arguments, &manifest.resource, about)?)?),
        };
        Ok(Self { input })
    }

    /// Puts it where the program looks for it: in the program's own process, before its exec.
    pub(super) fn hand_over(&self) -> Result<(), String> {
        let Some(input) = &self.input else { return Ok(()) };
        nix::unistd::dup2_stdin(input).map_err(|e| format!("stdin: {e}"))
    }
}

/// The arguments as one line of canonical JSON. The resource is told as it was decided on, not as it was written.
fn line(arguments: &Value, resource: &Resource, about: Option<&str>) -> Result<Vec<u8>, String> {
    let mut arguments = arguments.clone();
    if let Resource::Path { argument } = resource {
        let about = about.ok_or_else(|| format!("`{argument}` has no object"))?;
        let members = arguments.as_object_mut().ok_or("the arguments are no object")?;
        members.insert(argument.clone(), about.into());
    }
    let mut line = canonical(&arguments).map_err(|e| e.to_string())?.into_bytes();
    line.push(b'\n');
    Ok(line)
}

/// The end to read of a pipe that holds `bytes` and no more, ever: nobody has the other end.
///
/// No memory file, which this call's bound on files forbids by now; and a pipe is nothing to map, and is empty once
/// it was read.
fn filled(bytes: &[u8]) -> Result<OwnedFd, String> {
    let refuse = |e: Errno| format!("stdin: {e}");
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(refuse)?;
    if bytes.len() > PIPE_BYTES {
        fcntl_setpipe_size(&write, bytes.len()).map_err(refuse)?;
    }
    // It takes all at once or is full: a user with many pipes gets small ones.
    if rustix::io::write(&write, bytes).map_err(refuse)? != bytes.len() {
        return Err("stdin: the arguments do not fit a pipe".to_owned());
    }
    ioctl_fionbio(&read, false).map_err(refuse)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::tools::{IdKind, Resource};
    use serde_json::json;

    #[test]
    fn the_resource_is_told_as_it_was_decided_on() {
        let path = Resource::Path { argument: "path".to_owned() };
        let id = Resource::Id { kind: IdKind::Job, argument: "job".to_owned() };
        let told = |arguments, resource, about| {
            line(&arguments, resource, about).map(|line| String::from_utf8(line).expect("UTF-8"))
        };
        assert_eq!(
            told(
                json!({ "path": "/a/../b", "n": [1, true, null], "deep": { "b": 1, "a": "x\ny" } }),
                &path,
                Some("/b")
            ),
            Ok("{\"deep\":{\"a\":\"x\\ny\",\"b\":1},\"n\":[1,true,null],\"path\":\"/b\"}\n".to_owned())
        );
        assert_eq!(told(json!({ "path": "/a" }), &path, None), Err("`path` has no object".to_owned()));
        assert_eq!(told(json!({ "job": "j" }), &id, None), Ok("{\"job\":\"j\"}\n".to_owned()));
    }
}
