//! What the sandbox claims: the object that an argument names, and how a call ended.
//!
//! Claims come from another process and are checked like any input; holding one permits nothing.

use crate::egress::proxy::{Connection, Connections};
use crate::secrets::{Hold, Pass};
use crate::types::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What prepare found, and the child that waits for the permit.
#[derive(Debug)]
pub struct Prepared {
    /// The object that the call is about.
    pub object: Object,
    /// The waiting child.
    pub held: Held,
}

/// The object of a call, as the sandbox found it under the tool's own rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Object {
    /// The manifest names a fixed resource, or one by its id; nothing was resolved.
    Fixed,
    /// Nothing was resolved; the content of a folder was read, which the tool is given a copy of.
    Content(Content),
    /// It is there.
    Path(PathObject),
    /// Nothing is there: the deepest real folder, and the rest of the words below it.
    Absent {
        /// Canonical absolute path of the deepest folder that exists, inside a root.
        folder: String,
        /// The remaining names, joined by `/`; no `.` or `..` among them.
        rest: String,
    },
    /// Outside the tool's roots, or it cannot be looked at; the two are not told apart.
    Outside,
}

/// The content of the folder that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Its names below the first folder that the tool may change, joined by `/`.
    pub folder: String,
    /// `None`: there is no such folder.
    pub listing: Option<Listing>,
}

/// What a folder holds, with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// SHA-256 over names, modes and contents (`docs/ledger-format.md`), in hexadecimal.
    pub sha256: String,
    /// Regular files.
    pub files: u64,
    /// Folders below it.
    pub folders: u64,
    /// All files together, in bytes.
    pub bytes: u64,
}

/// A file or folder inside the tool's roots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathObject {
    /// Absolute path without links, as the kernel names the open descriptor.
    pub canonical: String,
    /// Device and inode.
    pub id: FileId,
    /// Its type.
    pub kind: FileKind,
    /// Those of the asked names that are the object or a folder above it, by device and inode.
    pub within: Vec<String>,
    /// Of a folder and a recursive tool: those of the asked names that lie, or may be met, below it.
    pub beneath: Vec<Beneath>,
    /// Likewise those of which that cannot be told, since the tool may not look at them.
    pub unseen: Vec<String>,
}

/// A named path below the object of a recursive tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beneath {
    /// The name as it was asked about.
    pub name: String,
    /// Absolute path without links; of what is not there its words.
    pub canonical: String,
    /// `None`: nothing is there.
    pub id: Option<FileId>,
    /// Those of the asked names that are it or a folder above it.
    pub within: Vec<String>,
}

/// What a call leaves out below its object: that file or folder by whatever name it is met, and whatever is
/// met under that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Absolute path without links.
    pub canonical: String,
    /// Device and inode; `None` where nothing was there when it was decided on.
    pub id: Option<FileId>,
}

/// Device and inode: the identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum FileKind {
    File,
    Folder,
    Other,
}

/// A child that waits for go. Dropping this ends the child.
pub struct Held {
    id: u64,
    release: Arc<dyn Fn(u64) + Send + Sync>,
}

impl Held {
    /// Holds the child that the sandbox knows as `id`; `release` is called once, on drop. Releasing
    /// a child that has already ended does nothing.
    pub fn new(id: u64, release: Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        Self { id, release }
    }

    /// The sandbox's number of the child.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.release)(self.id);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({})", self.id)
    }
}

/// How a call ended, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The end.
    pub end: End,
    /// Standard output up to the manifest's cap. Of a builtin, and where the manifest says so: one JSON
    /// object.
    pub stdout: Vec<u8>,
    /// Standard error up to the manifest's cap.
    pub stderr: Vec<u8>,
    /// The layers that were enforced on the child, such as `landlock abi 7`.
    pub layers: Vec<String>,
    /// The level that these come to; `None` of a call that was not confined.
    pub level: Option<Level>,
    /// Each protection that the call had, with the layers that gave it.
    pub protections: BTreeMap<String, Vec<String>>,
    /// What it was connected to, and was not, in the order in which it asked.
    pub connections: Connections,
    /// What its program was given.
    pub given: Given,
    /// From go to reaped, in microseconds, by the launcher's clock.
    pub wall_us: u64,
}

/// What a program had beside its arguments, by the names of its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Named secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Connections, such as `unix:/run/dbus/system_bus_socket`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect: Vec<String>,
}

impl Execution {
    /// A call that never ran, or whose run nobody saw end.
    #[must_use]
    pub fn without_output(end: End) -> Self {
        Self {
            end,
            stdout: Vec::new(),
            stderr: Vec::new(),
            layers: Vec::new(),
            level: None,
            protections: BTreeMap::new(),
            given: Given::default(),
            connections: Connections::default(),
            wall_us: 0,
        }
    }
}

impl Hold for Execution {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        let Self { end, stdout, stderr, layers, level, protections, connections, given, wall_us } = self;
        let told = |one: Connection| Connection { to: one.to.passed(pass), ..one };
        let connections =
            Connections { told: connections.told.into_iter().map(told).collect(), ..connections };
        // Whatever ended it early may have cut a secret in two, and a builtin says so itself where it cut.
        let is_cut = !matches!(end, End::Exit { .. }) || says_cut(&stdout);
        let mut output = |bytes| if is_cut { pass.cut_bytes(bytes) } else { pass.bytes(bytes) };
        let (stdout, stderr) = (output(stdout), output(stderr));
        Self {
            end: end.passed(pass),
            stdout,
            stderr,
            layers,
            level,
            protections,
            connections,
            given,
            wall_us,
        }
    }
}

impl Hold for End {
    fn passed(self, pass: &mut Pass<'_>) -> Self {
        match self {
            Self::Refused { reason } => Self::Refused { reason: reason.passed(pass) },
            plain => plain,
        }
    }
}

fn says_cut(stdout: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Says {
        truncated: bool,
    }
    serde_json::from_slice(stdout).is_ok_and(|says: Says| says.truncated)
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// It returned. 0 is success.
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
    /// It was ended for what it added to the folders that it may change.
    Quota {
        /// Folders below them that its tool may not read: each counted as one entry, whatever is in it.
        #[serde(default)]
        unread_folders: u64,
    },
    /// It was ended with the launcher, or by it for another reason.
    Killed,
    /// It was not started: a protection, the object or the manifest was not as demanded.
    Refused {
        /// What was not as demanded.
        reason: String,
    },
    /// A crash came between decision and result: whether and how far it ran is not known.
    Interrupted,
}
