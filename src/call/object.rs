//! What a call is about, as prepare found it.

use serde::{Deserialize, Serialize};

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
