//! What a child that has its call works from, and how it talks to the launcher.

use crate::launcher::host::machine::Machine;
use crate::launcher::protocol::{CHILD_MESSAGE_BYTES_MAX, ChildMessage};
use crate::launcher::sys;
use crate::launcher::tool::OpenTool;
use serde_json::Value;
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// A child that has its call.
pub(crate) struct Start<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) tool: &'a OpenTool,
    pub(crate) arguments: &'a Value,
    pub(crate) named: &'a [String],
    pub(crate) control: &'a OwnedFd,
}

/// What a call's program inherits, opened at go.
pub(crate) struct Inherited<'a> {
    /// Locks on the folders that it may change.
    pub(crate) locks: &'a [OwnedFd],
    pub(crate) connected: Vec<OwnedFd>,
    /// The environment entry that names the copy of the call's content.
    pub(crate) content: Option<CString>,
}

/// Sends a message to the launcher. If it cannot be sent, the child ends without one, which the
/// launcher treats as a refusal.
pub(crate) fn send_or_exit(start: &Start<'_>, word: &ChildMessage) {
    if send(start.control, word).is_err() {
        sys::exit_now(REFUSED);
    }
}

pub(crate) fn send(control: &OwnedFd, word: &ChildMessage) -> Result<(), String> {
    let bytes = serde_json::to_vec(word).map_err(|e| e.to_string())?;
    if bytes.len() > CHILD_MESSAGE_BYTES_MAX {
        return Err("a message to the launcher is too long".to_owned());
    }
    // `write`, since the last filters allow nothing else.
    rustix::io::write(control, &bytes).map(drop).map_err(|e| format!("the launcher is gone: {e}"))
}

/// Exit code of a child that was not confined; the reason went over the control channel.
pub(crate) const REFUSED: u8 = 125;
