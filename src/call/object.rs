//! What a call is about, as prepare found it.

use crate::types::text;
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
    /// Nothing was resolved; a folder was read whole, and the tool gets a copy of its content.
    Content(Content),
    /// The path exists.
    Path(PathObject),
    /// The path does not exist: the deepest existing folder, and the remaining names.
    Absent {
        /// Canonical absolute path of the deepest folder that exists, inside a root.
        folder: String,
        /// The remaining names, joined by `/`; no `.` or `..` among them.
        rest: String,
    },
    /// It lies in the tool's roots, and the rights of this host keep the tool's user from it.
    /// Whether a caller learns this depends on what the rules say about the path.
    Unreadable(Box<UnreadableObject>),
    /// Outside the tool's roots, or not accessible for another reason; the cases are not
    /// distinguished.
    Outside,
}

/// A file or folder that the tool's user may not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableObject {
    /// The file or folder that refuses. Nothing below it was looked at.
    pub at: PathObject,
    /// The remaining names of the path, joined by `/`, if `at` is a folder above it that may not be
    /// searched: whether they exist is not known. Otherwise empty.
    pub rest: String,
    /// The user that tools run as here.
    pub uid: u32,
}

impl UnreadableObject {
    /// The path that the call names.
    #[must_use]
    pub fn path(&self) -> String {
        match self.rest.as_str() {
            "" => self.at.canonical.clone(),
            rest => format!("{}/{rest}", self.at.canonical.trim_end_matches('/')),
        }
    }

    /// What refuses, in words.
    #[must_use]
    pub fn reason(&self) -> String {
        let (path, uid) = (text::visible_line(&self.at.canonical), self.uid);
        let act = if self.rest.is_empty() { "read" } else { "searched" };
        format!("`{path}` may not be {act} by the tools' user, uid {uid}")
    }
}

/// The content of the folder that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The folder's names below the first folder that the tool may change, joined by `/`.
    pub folder: String,
    /// `None` if the folder does not exist.
    pub listing: Option<Listing>,
}

/// The content of a folder, the folder itself included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// SHA-256 over names, modes and contents (`docs/ledger-format.md`), in hexadecimal.
    pub sha256: String,
    /// Number of regular files.
    pub files: u64,
    /// Number of folders below it.
    pub folders: u64,
    /// Size of all files together, in bytes.
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
    /// The names among those asked about that are the object or a folder above it, compared by
    /// device and inode.
    pub within: Vec<String>,
    /// For a folder and a recursive tool: the names asked about that lie, or may be found, below
    /// it.
    pub beneath: Vec<Beneath>,
    /// For a folder and a recursive tool: the names that could not be checked, since the tool may
    /// not look at them.
    pub unseen: Vec<String>,
}

/// A named path below the object of a recursive tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beneath {
    /// The name as it was asked about.
    pub name: String,
    /// Absolute path without links; if nothing is there, the name's own spelling.
    pub canonical: String,
    /// Device and inode; `None` if nothing is there.
    pub id: Option<FileId>,
    /// The names asked about that are this path or a folder above it.
    pub within: Vec<String>,
}
