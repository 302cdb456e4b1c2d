//! Where each file of a ledger lies, and the bounds that the configuration sets for them.

use super::names::{firsts, path_of};
use crate::store;
use crate::types::limits;
use std::path::{Path, PathBuf};

/// The files of a ledger, all in `data/`.
#[derive(Clone, Debug)]
pub struct Files {
    /// The folder.
    pub data: PathBuf,
    /// Free space below which new runs are refused, in bytes.
    pub free_bytes_min: u64,
    /// What is held back for results on a full disk, in bytes.
    pub reserve_bytes: u64,
    /// Write-ahead log of a segment behind which it is cut, in bytes.
    pub wal_bytes_max: u64,
    /// The log key, where it is not in the folder.
    pub log_key: Option<PathBuf>,
    /// When a segment is sealed, and when its payloads go.
    pub rotation: Rotation,
}

/// When a segment is full, and how long payloads are kept.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Bytes of headers and payloads behind which a segment is sealed.
    pub segment_bytes_max: u64,
    /// Age of its first entry behind which a segment is sealed, in milliseconds.
    pub segment_ms_max: Option<u64>,
    /// Age of a segment's seal behind which its payloads are dropped, in milliseconds.
    pub payload_ms_max: Option<u64>,
}

impl Default for Rotation {
    fn default() -> Self {
        let segment_bytes_max = limits::SEGMENT_BYTES_MAX;
        Self { segment_bytes_max, segment_ms_max: None, payload_ms_max: None }
    }
}

impl Files {
    /// The files below `data`, with the default floor of free space.
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

    /// The truth: the first segment of it.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.segment(0)
    }

    /// The file of the segment that begins with entry `first`.
    #[must_use]
    pub fn segment(&self, first: u64) -> PathBuf {
        path_of(&self.data, first)
    }

    /// The first entries of the segments that are there, rising.
    pub fn segments(&self) -> std::io::Result<Vec<u64>> {
        firsts(&self.data)
    }

    /// The projection.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.data.join("state.db")
    }

    /// What queries look into.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.data.join("index.db")
    }

    /// Size and root of the last commit.
    #[must_use]
    pub fn high_water(&self) -> PathBuf {
        self.data.join("high-water")
    }

    /// The secret half of the log key: a credential of the service manager, else a file of `data/`.
    #[must_use]
    pub fn log_key(&self) -> PathBuf {
        self.log_key.clone().unwrap_or_else(|| self.data.join("log.key"))
    }

    /// Space for results on a full disk.
    #[must_use]
    pub fn reserve(&self) -> PathBuf {
        self.data.join("reserve")
    }

    /// How the anchors stand.
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

    /// The write-ahead logs that are there, in bytes: those of all segments together, of state.db and of index.db.
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

    /// Free bytes for an ordinary user under `data`.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        let fs = rustix::fs::statvfs(&self.data).ok()?;
        Some(fs.f_bavail.saturating_mul(fs.f_frsize))
    }
}

/// Where the keys lie.
#[derive(Clone, Debug)]
pub(in crate::ledger) struct KeyFiles {
    /// 32 secret bytes, the seed of the log key.
    pub(in crate::ledger) log: PathBuf,
    /// The epoch key in force.
    pub(in crate::ledger) epoch: PathBuf,
    /// The one that is about to be.
    pub(in crate::ledger) next: PathBuf,
}
