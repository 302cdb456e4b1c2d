//! How a call ended.

use serde::{Deserialize, Serialize};

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// It returned; code 0 is success.
    Exit {
        /// The exit code, 0 to 255.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// The launcher ended it at its wall limit.
    Timeout,
    /// It ran out of its memory.
    Oom,
    /// The launcher ended it at its output limit.
    OutputCap,
    /// It was ended because of what it added to the folders that it may change.
    Quota {
        /// Number of folders below them that its tool may not read: each counts as one entry,
        /// whatever it contains.
        #[serde(default)]
        unread_folders: u64,
    },
    /// It ended with the launcher, or the launcher ended it for another reason.
    Killed,
    /// It was not started: a protection, the object or the manifest was not as demanded.
    Refused {
        /// What was not as demanded.
        reason: String,
    },
    /// A crash came between decision and result: it is unknown whether the call ran, and how far.
    Interrupted,
}

impl End {
    /// The name of the end in a `call.result` and in the launcher's journal.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exit { .. } => "exit",
            Self::Signal { .. } => "signal",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::OutputCap => "output_cap",
            Self::Quota { .. } => "quota",
            Self::Killed => "killed",
            Self::Refused { .. } => "refused",
            Self::Interrupted => "interrupted",
        }
    }
}
