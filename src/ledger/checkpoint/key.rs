//! The signing keys on disk: the log key, and the epoch key, which is replaced and erased.

use crate::ledger::files::{Files, KeyFiles};
use crate::types::{Digest, digest};
use ed25519_dalek::SigningKey;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Why a key cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    /// The file cannot be read, written or removed.
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, #[source] io::Error),
    /// The file does not hold an epoch key.
    #[error("{}: not a valid epoch key", .0.display())]
    NoEpochKey(PathBuf),
    /// The file is longer than a log key.
    #[error("{}: longer than a log key, which is 32 bytes", .0.display())]
    TooLong(PathBuf),
    /// The key belongs to another log.
    #[error("{}: not the log key of this ledger", .0.display())]
    OtherLog(PathBuf),
    /// The key belongs to another epoch or another ledger.
    #[error("{}: not the current epoch key of this ledger", .0.display())]
    OtherEpoch(PathBuf),
}

/// Creates a log key: a file of 32 secret bytes, mode 0600, synced. Fails if the file exists.
pub fn make(path: &Path) -> io::Result<()> {
    write_new(path, random()?.as_ref())
}

/// A file's name, and the secret bytes in it.
pub type Seed = (&'static str, Zeroizing<Vec<u8>>);

/// The secret seeds below `files`, each with the name of its file. They must never be shown. A file
/// that does not exist yet is left out.
pub fn seeds(files: &Files) -> Result<Vec<Seed>, SigningKeyError> {
    let KeyFiles { log, epoch, next } = files.keys();
    let mut seeds = Vec::new();
    if log.exists() {
        seeds.push(("log.key", Zeroizing::new(read_log_key(&log)?.to_bytes().to_vec())));
    }
    for (name, path) in [("epoch.key", epoch), ("epoch.next", next)] {
        // A change of epochs may be moving the file, so it is read again. A key that a crash left
        // incomplete is not a key; opening the ledger removes it or reports it.
        if let Some(epoch) = (0..3).find_map(|_| Epoch::read(&path).ok()) {
            seeds.push((name, Zeroizing::new(epoch.key.to_bytes().to_vec())));
        }
    }
    Ok(seeds)
}

fn random() -> io::Result<Zeroizing<[u8; 32]>> {
    let mut seed = Zeroizing::new([0_u8; 32]);
    getrandom::fill(seed.as_mut()).map_err(io::Error::other)?;
    Ok(seed)
}

/// Writes a new file with mode 0600, and syncs it and its folder. Fails if the file exists.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

/// Overwrites a file with zeros, synced, and removes it. Copies kept by a device that does not
/// write in place are out of reach.
pub(super) fn erase(path: &Path) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    file.write_all(&vec![0; length])?;
    file.sync_all()?;
    std::fs::remove_file(path)?;
    sync_folder(path)
}

pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> SigningKeyError {
    move |e| SigningKeyError::File(path.to_owned(), e)
}

/// An epoch's secret key, with its number and start.
#[derive(Clone)]
pub(super) struct Epoch {
    pub(super) number: u64,
    /// The number of entries when the epoch began.
    pub(super) since: u64,
    /// When the epoch began, in microseconds since 1970.
    pub(super) began_us: u64,
    pub(super) key: SigningKey,
}

impl Epoch {
    pub(super) fn begin(number: u64, since: u64, began_us: u64) -> io::Result<Self> {
        Ok(Self { number, since, began_us, key: SigningKey::from_bytes(&*random()?) })
    }

    /// One line: number, entry, time, and the seed in hex.
    pub(super) fn line(&self) -> Zeroizing<String> {
        let seed = Zeroizing::new(digest::hex(self.key.as_bytes()));
        Zeroizing::new(format!("{} {} {} {}\n", self.number, self.since, self.began_us, *seed))
    }

    pub(super) fn read(path: &Path) -> Result<Self, SigningKeyError> {
        let line = Zeroizing::new(std::fs::read_to_string(path).map_err(at(path))?);
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next()?.parse().ok();
        let epoch = (|| Some((number()?, number()?, number()?)))();
        let seed = words.next().and_then(Digest::from_hex);
        match (epoch, seed) {
            (Some((number, since, began_us)), Some(seed)) => {
                Ok(Self { number, since, began_us, key: SigningKey::from_bytes(&seed.0) })
            }
            _ => Err(SigningKeyError::NoEpochKey(path.to_owned())),
        }
    }
}

pub(super) fn read_log_key(path: &Path) -> Result<SigningKey, SigningKeyError> {
    let mut seed = Zeroizing::new([0_u8; 32]);
    let mut file = std::fs::File::open(path).map_err(at(path))?;
    file.read_exact(seed.as_mut()).map_err(at(path))?;
    match file.read(&mut [0]).map_err(at(path))? {
        0 => Ok(SigningKey::from_bytes(&seed)),
        _ => Err(SigningKeyError::TooLong(path.to_owned())),
    }
}

/// Replaces the current epoch key with the next one. The current one is overwritten first.
pub(super) fn install(files: &KeyFiles) -> Result<(), SigningKeyError> {
    if files.epoch.exists() {
        erase(&files.epoch).map_err(at(&files.epoch))?;
    }
    std::fs::rename(&files.next, &files.epoch).map_err(at(&files.next))?;
    sync_folder(&files.epoch).map_err(at(&files.epoch))
}
