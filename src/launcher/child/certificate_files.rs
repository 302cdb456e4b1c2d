//! The certificates in the folders that a report may read: where servers of this host keep them.

use super::certificates::days_left;
use super::walk::read_names;
use crate::launcher::tool::Root;
use crate::tools::builtin::host::CertificateEnds;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd as _, OwnedFd};

/// Names of one folder that are looked at.
const NAMES_MAX: usize = 4_096;
/// Files that are opened: a child may have few descriptors.
const FILES_MAX: usize = 24;
/// Endings of files with a certificate.
const ENDS: [&str; 3] = [".pem", ".crt", ".cer"];
/// Names of files with all the certificates that a host trusts: not those of its servers.
const BUNDLES: [&str; 3] = ["ca-certificates", "ca-bundle", "tls-ca-bundle"];
/// The certificate in a folder for one name, as certbot and others write it.
const IN_FOLDER: &str = "cert.pem";

/// Files that may hold a certificate, open for reading, with their paths.
pub(crate) struct CertificateFiles {
    files: Vec<(String, OwnedFd)>,
    unreadable: u64,
    is_cut: bool,
}

impl CertificateFiles {
    /// Opens what `roots` hold; `None` if none of them can be read. Links are followed, and those
    /// that lead out of the tool's folders lead nowhere.
    pub(crate) fn open(roots: &[Root]) -> Option<Self> {
        let mut all = Self { files: Vec::new(), unreadable: 0, is_cut: false };
        let mut has_read = false;
        for root in roots {
            let folder = openat(&root.fd, ".", FOLDER, Mode::empty());
            let Ok((names, folder)) = folder.and_then(|at| Ok((read_names(&at, NAMES_MAX)?, at))) else {
                all.unreadable = all.unreadable.saturating_add(1);
                continue;
            };
            has_read = true;
            all.is_cut |= names.len() > NAMES_MAX;
            for name in &names {
                all.entry(&folder, &root.canonical, name);
            }
        }
        has_read.then_some(all)
    }

    fn entry(&mut self, folder: &OwnedFd, path: &str, name: &CStr) {
        let Ok(text) = name.to_str() else { return };
        let below = format!("{text}/{IN_FOLDER}");
        let is_named = ENDS.iter().any(|end| text.ends_with(end));
        let is_bundle = BUNDLES.iter().any(|bundle| text.starts_with(bundle));
        let place = match (is_named, is_bundle) {
            (_, true) => return,
            (true, false) => text,
            (false, false) => below.as_str(),
        };
        let file = match openat(folder, place, FILE, Mode::empty()) {
            Ok(file) => file,
            Err(e) => {
                // Any other error: nothing is there, or a link leads out of the tool's folders.
                self.unreadable = self.unreadable.saturating_add(u64::from(e == Errno::ACCESS));
                return;
            }
        };
        if fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile) {
            if self.files.len() == FILES_MAX {
                self.is_cut = true;
            } else {
                self.files.push((format!("{path}/{place}"), file));
            }
        }
    }

    /// When they end.
    pub(crate) fn ends(self) -> CertificateEnds {
        let (unreadable, is_cut) = (self.unreadable, self.is_cut);
        let mut ends = CertificateEnds { unreadable, is_cut, ..CertificateEnds::default() };
        for (path, file) in self.files {
            if let Some(days) = days_left(file.as_fd()) {
                ends.add(&path, days);
            }
        }
        ends
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
