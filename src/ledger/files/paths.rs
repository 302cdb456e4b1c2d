//! The path of each file of a ledger, and the limits that the configuration sets for them.

use super::names::{firsts, path_of};
use crate::store;
use crate::types::limits;
use std::path::{Path, PathBuf};

/// The files of a ledger, all in `data/`.
#[derive(Clone, Debug)]
pub struct Files {
    /// The data folder.
    pub data: PathBuf,
    /// Free space below which new runs are refused, in bytes.
    pub free_bytes_min: u64,
    /// Space reserved for results on a full disk, in bytes.
    pub reserve_bytes: u64,
    /// Maximum length of a segment's write-ahead log before it is cut, in bytes.
    pub wal_bytes_max: u64,
    /// The path of the log key, if it is not in the folder.
    pub log_key: Option<PathBuf>,
    /// When a segment is sealed, and when its payloads are dropped.
    pub rotation: Rotation,
}

/// When a segment is full, and how long payloads are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Bytes of headers and payloads after which a segment is sealed.
    pub segment_bytes_max: u64,
    /// Age of its first entry after which a segment is sealed, in milliseconds.
    pub segment_ms_max: Option<u64>,
    /// Age of a segment's seal after which its payloads are dropped, in milliseconds.
    pub payload_ms_max: Option<u64>,
}

impl Default for Rotation {
    fn default() -> Self {
        let segment_bytes_max = limits::SEGMENT_BYTES_MAX;
        Self { segment_bytes_max, segment_ms_max: None, payload_ms_max: None }
    }
}

impl Files {
    /// The files below `data`, with the default limits.
    #[must_use]
    pub fn below(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            free_bytes_min: limits::LEDGER_FREE_BYTES_MIN,
            reserve_bytes: limits::LEDGER_RESERVE_BYTES,
            wal_bytes_max: limits::WAL_BYTES_MAX,
            log_key: None,
            rotation: Rotation::default(),
        }
    }

    /// The first segment of the ledger.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.segment(0)
    }

    /// The file of the segment that begins with entry `first`.
    #[must_use]
    pub fn segment(&self, first: u64) -> PathBuf {
        path_of(&self.data, first)
    }

    /// The first entries of the segments on disk, in rising order.
    pub fn segments(&self) -> std::io::Result<Vec<u64>> {
        firsts(&self.data)
    }

    /// The projection, state.db.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.data.join("state.db")
    }

    /// The search index, index.db.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.data.join("index.db")
    }

    /// The high-water mark: size and root of the last commit.
    #[must_use]
    pub fn high_water(&self) -> PathBuf {
        self.data.join("high-water")
    }

    /// Size and root of the ledger when it was last verified up to its end. An older mark, or none,
    /// only leaves more to verify.
    #[must_use]
    pub fn verified(&self) -> PathBuf {
        self.data.join("verified")
    }

    /// The secret half of the log key: a credential of the service manager, or else a file in
    /// `data/`.
    #[must_use]
    pub fn log_key(&self) -> PathBuf {
        self.log_key.clone().unwrap_or_else(|| self.data.join("log.key"))
    }

    /// The file whose space is freed for results on a full disk.
    #[must_use]
    pub fn reserve(&self) -> PathBuf {
        self.data.join("reserve")
    }

    /// The state of the anchors.
    #[must_use]
    pub fn anchor(&self) -> PathBuf {
        self.data.join("anchor")
    }

    pub(in crate::ledger) fn keys(&self) -> KeyFiles {
        let file = |name| self.data.join(name);
        KeyFiles { log: self.log_key(), epoch: file("epoch.key"), next: file("epoch.next") }
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.data.join("lock")
    }

    /// The lengths of the write-ahead logs, in bytes: of all segments together, of state.db and of
    /// index.db.
    #[must_use]
    pub fn log_bytes(&self) -> [(&'static str, u64); 3] {
        let segments = self.segments().unwrap_or_default();
        let ledger = segments.into_iter().map(|first| store::log_bytes(&self.segment(first))).sum();
        [
            ("ledger", ledger),
            ("state", store::log_bytes(&self.state())),
            ("index", store::log_bytes(&self.index())),
        ]
    }

    /// Bytes free for an ordinary user on the file system of `data`.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        let fs = rustix::fs::statvfs(&self.data).ok()?;
        Some(fs.f_bavail.saturating_mul(fs.f_frsize))
    }
}

/// The paths of the signing keys.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct KeyFiles {
    /// 32 secret bytes, the seed of the log key.
    pub(in crate::ledger) log: PathBuf,
    /// The epoch key in force.
    pub(in crate::ledger) epoch: PathBuf,
    /// The epoch key that comes into force next.
    pub(in crate::ledger) next: PathBuf,
}
