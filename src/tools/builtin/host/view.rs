//! What a report is made from.

use super::proc_files::ProcFiles;
use crate::tools::builtin::certificate::DAYS_LEFT_FEW;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// The longest part of a file of figures that is read, in bytes.
const FIGURE_BYTES_MAX: usize = 64 << 10;

/// What is known of the host since the launcher started.
#[derive(Debug, Default)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// The host's name.
    pub hostname: String,
    /// Names of users by uid, from `/etc/passwd`.
    pub users: BTreeMap<u32, String>,
    /// The mounted file systems that may be asked without waiting for a network.
    pub disks: Vec<Disk>,
    /// Whether calls see every uid and gid but their own as [`OVERFLOW_ID`], as in a user namespace
    /// that has only one (user_namespaces(7)).
    pub hides_owners: bool,
}

/// What the kernel shows in place of a uid or gid that a user namespace does not have
/// (`/proc/sys/kernel/overflowuid`).
pub const OVERFLOW_ID: u32 = 65_534;

impl Host {
    /// Whether a call knows whose `id` is: the number may stand for any other.
    #[must_use]
    pub fn is_known(&self, id: u32) -> bool {
        !self.hides_owners || id != OVERFLOW_ID
    }
}

/// One mounted file system.
#[derive(Debug)]
pub struct Disk {
    /// The mount point.
    pub mount: String,
    /// The type, such as `ext4`.
    pub kind: String,
    /// Whether it stores files on a disk, and not in memory.
    pub is_disk: bool,
    /// The folder at the mount point, opened with `O_PATH`.
    pub folder: OwnedFd,
}

/// What a report is told in addition to what it reads. `None` is what is not known.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// How many units of systemd failed.
    pub failed_units: Option<usize>,
    /// Whether the clock is synchronized with another.
    pub is_clock_synchronized: Option<bool>,
    /// Whether an update waits for a restart of the host.
    pub needs_reboot: Option<bool>,
    /// When the certificates in the folders that the tool may read end; `None` if it may read none.
    pub certificates: Option<CertificateEnds>,
}

/// When certificates end.
#[derive(Clone, Debug, Default)]
pub struct CertificateEnds {
    /// How many were looked at.
    pub seen: u64,
    /// How many have ended.
    pub ended: u64,
    /// How many end within [`DAYS_LEFT_FEW`] days.
    pub soon: u64,
    /// The one that ends first: its path, and the days that it has left.
    pub first: Option<(String, i64)>,
    /// How many files that may be certificates could not be opened.
    pub unreadable: u64,
    /// Whether there are more than were looked at.
    pub is_cut: bool,
}

impl CertificateEnds {
    /// Counts the certificate in the file `path`.
    pub fn add(&mut self, path: &str, days_left: i64) {
        self.seen = self.seen.saturating_add(1);
        self.ended = self.ended.saturating_add(u64::from(days_left < 0));
        self.soon = self.soon.saturating_add(u64::from((0..DAYS_LEFT_FEW).contains(&days_left)));
        if self.first.as_ref().is_none_or(|(_, days)| days_left < *days) {
            self.first = Some((path.to_owned(), days_left));
        }
    }
}

/// The host as one call sees it.
pub struct HostView<'a> {
    pub(super) host: &'a Host,
    pub(super) facts: HostFacts,
    pub(super) proc: &'a dyn ProcFiles,
    not_seen: RefCell<BTreeSet<String>>,
}

impl std::fmt::Debug for HostView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostView").field("not_seen", &self.not_seen).finish_non_exhaustive()
    }
}

impl<'a> HostView<'a> {
    /// The view of one call, which reads through `proc`.
    #[must_use]
    pub fn new(host: &'a Host, proc: &'a dyn ProcFiles, facts: HostFacts) -> Self {
        Self { host, facts, proc, not_seen: RefCell::default() }
    }

    /// A file of figures as text; empty, and noted as not seen, if it cannot be read.
    pub(super) fn figures(&self, name: &str) -> String {
        self.text(name, FIGURE_BYTES_MAX)
    }

    /// At most `most` bytes of a file as text; empty, and noted as not seen, if it cannot be read.
    pub(super) fn text(&self, name: &str, most: usize) -> String {
        let Ok(bytes) = self.proc.file(name, most) else {
            self.note(&format!("/proc/{name}"));
            return String::new();
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Notes that the result does not contain `what`.
    pub(super) fn note(&self, what: &str) {
        self.not_seen.borrow_mut().insert(what.to_owned());
    }

    /// What was noted.
    pub(super) fn not_seen(&self) -> Value {
        json!(*self.not_seen.borrow())
    }

    /// Adds the owner to `entry`: its uid, and its name if the host knows one. An owner that this
    /// call cannot know is noted as not seen.
    pub(super) fn put_user(&self, entry: &mut Map<String, Value>, uid: u32) {
        if !self.host.is_known(uid) {
            self.note("owners");
            return;
        }
        entry.insert("uid".to_owned(), json!(uid));
        if let Some(name) = self.host.users.get(&uid) {
            entry.insert("user".to_owned(), json!(name));
        }
    }
}
