//! Which names each tool reads, and what one call sees of the granted folders.

use crate::tools::builtin::host::Host;
use crate::tools::manifest::words::Builtin;
use crate::types::clock::mono_us;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;

/// What a tool reads in folders of one name.
struct FileRow {
    /// The last part of the folder's path, or the file itself.
    folder: &'static str,
    names: FileNames,
}

enum FileNames {
    /// These, and those that logrotate made of them first (`.1`).
    Logs(&'static [&'static str]),
    /// Exactly these.
    Only(&'static [&'static str]),
    /// Those that cron takes for jobs: letters, digits, `_` and `-`.
    Jobs,
    /// Those that users may have.
    Users,
    /// Those that end so.
    Ending(&'static [&'static str]),
}

/// The rows of a tool. A granted folder with another name is not read.
const fn rows(which: Builtin) -> &'static [FileRow] {
    match which {
        Builtin::CronList => &[
            FileRow { folder: "crontab", names: FileNames::Only(&["crontab"]) },
            FileRow { folder: "cron.d", names: FileNames::Jobs },
            FileRow { folder: "cron.hourly", names: FileNames::Jobs },
            FileRow { folder: "cron.daily", names: FileNames::Jobs },
            FileRow { folder: "cron.weekly", names: FileNames::Jobs },
            FileRow { folder: "cron.monthly", names: FileNames::Jobs },
            FileRow { folder: "crontabs", names: FileNames::Users },
            // Where there is no folder `crontabs`.
            FileRow { folder: "cron", names: FileNames::Users },
        ],
        Builtin::JournalSize => &[
            FileRow { folder: "journal", names: FileNames::Ending(&[".journal", ".journal~"]) },
            FileRow { folder: "journald.conf", names: FileNames::Only(&["journald.conf"]) },
        ],
        Builtin::Logins => {
            &[FileRow { folder: "log", names: FileNames::Logs(&["wtmp", "btmp", "auth.log", "secure"]) }]
        }
        Builtin::PendingUpdates => &[
            FileRow { folder: "dpkg", names: FileNames::Only(&["status"]) },
            FileRow {
                folder: "lists",
                names: FileNames::Ending(&[
                    "_Packages",
                    "_Packages.lz4",
                    "_Packages.xz",
                    "_Packages.gz",
                    "_Packages.zst",
                    "_Packages.bz2",
                    "_Packages.lzma",
                    "_InRelease",
                    "_Release",
                    "partial",
                ]),
            },
        ],
        _ => &[],
    }
}

/// Whether the tool `which` reads `name` in a granted folder whose last name is `folder`.
#[must_use]
pub fn is_listed(which: Builtin, folder: &str, name: &str) -> bool {
    rows(which).iter().filter(|row| row.folder == folder).any(|row| match row.names {
        FileNames::Logs(all) => all.contains(&name.strip_suffix(".1").unwrap_or(name)),
        FileNames::Only(all) => all.contains(&name),
        FileNames::Jobs => is_of(name, b"_-"),
        FileNames::Users => is_of(name, b"_-.") && !name.starts_with('.'),
        FileNames::Ending(all) => all.iter().any(|end| name.ends_with(end)),
    })
}

/// Whether the tool `which` looks into the folder `name` of a granted one: that of the machine's id
/// (systemd-journald.service(8)).
#[must_use]
pub fn is_looked_into(which: Builtin, name: &str) -> bool {
    which == Builtin::JournalSize && name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `name` has only letters, digits and `more`.
fn is_of(name: &str, more: &[u8]) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
}

/// Opens the files of one call.
pub trait SystemFiles {
    /// Opens a listed entry of the granted folder `path` for reading; never a link.
    fn open(&self, path: &str, name: &str) -> Result<File, Errno>;
}

/// A granted folder, and the entries of it that the tool reads; or a granted file, with itself as
/// its only entry.
#[derive(Debug)]
pub struct SystemFolder {
    /// Its path.
    pub path: String,
    /// When it was last changed, in seconds since 1970.
    pub modified_s: i64,
    /// Sorted by name.
    pub entries: Vec<SystemEntry>,
    /// Whether it has more entries than are listed.
    pub is_cut: bool,
}

/// An entry of a granted folder.
#[derive(Clone, Debug)]
pub struct SystemEntry {
    /// Its name; below a folder that is looked into, with that folder's name and `/` before it.
    pub name: String,
    /// Whether it is a regular file, and not a folder, link or anything else.
    pub is_file: bool,
    /// Whether anyone may execute it.
    pub is_executable: bool,
    /// Its size.
    pub size_bytes: u64,
    /// When its content was last changed, in seconds since 1970.
    pub modified_s: i64,
    /// When it, its name or its rights were last changed here, in seconds since 1970.
    pub changed_s: i64,
}

/// What one call sees.
pub struct SystemView<'a> {
    pub(super) host: &'a Host,
    pub(super) folders: Vec<SystemFolder>,
    files: &'a dyn SystemFiles,
    end_us: u64,
    not_seen: RefCell<BTreeSet<String>>,
}

impl std::fmt::Debug for SystemView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemView").field("folders", &self.folders).finish_non_exhaustive()
    }
}

impl<'a> SystemView<'a> {
    /// The view of one call, which stops reading at `end_us` ([`mono_us`]). `unseen` are granted
    /// folders that are missing or closed to the tools' user.
    #[must_use]
    pub fn new(
        host: &'a Host,
        folders: Vec<SystemFolder>,
        unseen: Vec<String>,
        files: &'a dyn SystemFiles,
        end_us: u64,
    ) -> Self {
        Self { host, folders, files, end_us, not_seen: RefCell::new(unseen.into_iter().collect()) }
    }

    /// The granted folders with this last name.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &SystemFolder> {
        self.folders.iter().filter(move |folder| folder.name() == name)
    }

    /// Opens an entry; one that cannot be opened is noted as not seen.
    pub(super) fn open(&self, folder: &SystemFolder, entry: &SystemEntry) -> Option<File> {
        let opened = self.files.open(&folder.path, &entry.name);
        opened.inspect_err(|_| self.note(&format!("{}/{}", folder.path, entry.name))).ok()
    }

    /// Whether there is time to read more.
    pub(super) fn has_time(&self) -> bool {
        mono_us() < self.end_us
    }

    /// Notes that the result does not contain `what`.
    pub(super) fn note(&self, what: &str) {
        self.not_seen.borrow_mut().insert(what.to_owned());
    }

    /// What was noted.
    pub(super) fn not_seen(&self) -> Value {
        json!(*self.not_seen.borrow())
    }
}

impl SystemFolder {
    /// The last part of its path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The regular files in it whose names end with `end`.
    pub(super) fn files_ending<'b>(&'b self, end: &'b str) -> impl Iterator<Item = &'b SystemEntry> {
        self.entries.iter().filter(move |entry| entry.is_file && entry.name.ends_with(end))
    }
}
