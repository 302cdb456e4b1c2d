//! The signing keys on disk: the log key, and the epoch key that is replaced and erased.

use super::epoch::{self, SUCCESSOR};
use super::note::{Checkpoint, Note, VerifierKey};
use super::payload::{Before, GenesisPayload, KeyEpochPayload};
use super::{Files, Head, Stored};
use crate::types::{digest, limits};
use ed25519_dalek::SigningKey;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Makes a log key: a file of 32 secret bytes, mode 0600, synced. Fails where the file is there.
pub fn make(path: &Path) -> io::Result<()> {
    write_new(path, random()?.as_ref())
}

/// A file's name, and the secret bytes in it.
pub type Seed = (&'static str, Zeroizing<Vec<u8>>);

/// The seeds that lie below `files`, each by the name of its file: what must never be told. One that is not there yet is
/// left out.
pub fn seeds(files: &Files) -> Result<Vec<Seed>, String> {
    let KeyFiles { log, epoch, next } = files.keys();
    let mut seeds = Vec::new();
    if log.exists() {
        seeds.push(("log.key", Zeroizing::new(read_log_key(&log)?.to_bytes().to_vec())));
    }
    for (name, path) in [("epoch.key", epoch), ("epoch.next", next)] {
        // A change of epochs may be moving it: looked at again. What a crash left torn is no key, and the opening of
        // the ledger ends it or says so.
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

/// Writes a file that is not there yet, mode 0600, and syncs it and its folder.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

/// Overwrites a file with zeros, synced, and removes it: what stays on a device that does not write in place
/// is out of reach from here.
fn erase(path: &Path) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    file.write_all(&vec![0; length])?;
    file.sync_all()?;
    std::fs::remove_file(path)?;
    sync_folder(path)
}

fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |e| format!("{}: {e}", path.display())
}

/// Where the keys lie.
#[derive(Clone, Debug)]
pub(super) struct KeyFiles {
    /// 32 secret bytes, the seed of the log key.
    pub(super) log: PathBuf,
    /// The epoch key in force.
    pub(super) epoch: PathBuf,
    /// The one that is about to be.
    pub(super) next: PathBuf,
}

/// An epoch's secret half, and which one it is.
#[derive(Clone)]
struct Epoch {
    number: u64,
    /// The entry that began it.
    since: u64,
    /// When, in microseconds since 1970.
    began_us: u64,
    key: SigningKey,
}

impl Epoch {
    fn begin(number: u64, since: u64, began_us: u64) -> io::Result<Self> {
        Ok(Self { number, since, began_us, key: SigningKey::from_bytes(&*random()?) })
    }

    /// One line: number, entry, time, and the seed in hex.
    fn line(&self) -> Zeroizing<String> {
        let seed = Zeroizing::new(digest::hex(self.key.as_bytes()));
        Zeroizing::new(format!("{} {} {} {}\n", self.number, self.since, self.began_us, *seed))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let line = Zeroizing::new(std::fs::read_to_string(path).map_err(at(path))?);
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next()?.parse().ok();
        let epoch = (|| Some((number()?, number()?, number()?)))();
        let seed = words.next().and_then(crate::types::Digest::from_hex);
        match (epoch, seed) {
            (Some((number, since, began_us)), Some(seed)) => {
                Ok(Self { number, since, began_us, key: SigningKey::from_bytes(&seed.0) })
            }
            _ => Err(format!("{}: is no epoch key", path.display())),
        }
    }
}

/// Signs checkpoints with the log key and the key of the epoch.
#[derive(Clone)]
pub(super) struct Signer {
    files: KeyFiles,
    origin: String,
    log: SigningKey,
    epoch: Epoch,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({}, epoch {})", self.origin, self.epoch.number)
    }
}

fn read_log_key(path: &Path) -> Result<SigningKey, String> {
    let mut seed = Zeroizing::new([0_u8; 32]);
    let mut file = std::fs::File::open(path).map_err(at(path))?;
    file.read_exact(seed.as_mut()).map_err(at(path))?;
    match file.read(&mut [0]).map_err(at(path))? {
        0 => Ok(SigningKey::from_bytes(&seed)),
        _ => Err(format!("{}: is longer than a log key, 32 bytes", path.display())),
    }
}

impl Signer {
    /// Begins a log: reads its key, makes the key of epoch 1, and with both the log's id.
    pub(super) fn begin(files: KeyFiles, now_us: u64) -> Result<(Self, String), String> {
        let log = read_log_key(&files.log)?;
        let epoch = Epoch::begin(1, 0, now_us).map_err(at(&files.epoch))?;
        // Without an entry there is nothing that an older one could have signed.
        for stale in [&files.epoch, &files.next].into_iter().filter(|path| path.exists()) {
            erase(stale).map_err(at(stale))?;
        }
        write_new(&files.epoch, epoch.line().as_bytes()).map_err(at(&files.epoch))?;
        let id = epoch::log_id(log.verifying_key().as_bytes(), epoch.key.verifying_key().as_bytes());
        Ok((Self { files, origin: epoch::origin(&id), log, epoch }, id))
    }

    /// Goes on with log `id`. `entry` reads an entry, `newest` is the newest checkpoint.
    ///
    /// A change of epochs that a crash interrupted is brought to its end, in the direction that the ledger
    /// says. Keys that are not those of the ledger are refused: with a copy of the files, but without the
    /// epoch key, nobody goes on with a log.
    pub(super) fn resume(
        files: KeyFiles,
        id: &str,
        entry: impl Fn(u64) -> Result<Stored, String>,
        newest: &Note,
    ) -> Result<Self, String> {
        let log = read_log_key(&files.log)?;
        let origin = epoch::origin(id);
        if !newest.is_signed_by(&VerifierKey::of(origin.clone(), &log)) {
            return Err(format!("{}: is not the key of this log", files.log.display()));
        }
        let is_of_ledger = |epoch: &Epoch| {
            let name = VerifierKey::of(epoch::epoch_name(&origin, epoch.number), &epoch.key).to_string();
            let Ok(stored) = entry(epoch.since) else { return false };
            let pinned = stored.payload().map(|pinned: GenesisPayload| pinned.epoch_key);
            let named = || stored.payload().map(|named: KeyEpochPayload| named.key);
            pinned.or_else(named) == Some(name)
        };
        if files.next.exists() {
            match Epoch::read(&files.next) {
                Ok(next) if is_of_ledger(&next) => install(&files)?,
                // Its entry was never written: the one before it is in force.
                _ => erase(&files.next).map_err(at(&files.next))?,
            }
        }
        let epoch = Epoch::read(&files.epoch)?;
        let name = epoch::epoch_name(&origin, epoch.number);
        if !is_of_ledger(&epoch) || !newest.is_signed_by(&VerifierKey::of(name, &epoch.key)) {
            return Err(format!(
                "{}: is not the epoch key of this ledger as it stands",
                files.epoch.display()
            ));
        }
        Ok(Self { files, origin, log, epoch })
    }

    /// The payload of the genesis entry: pins the keys, and names the log before, if there is one.
    pub(super) fn genesis(&self, before: Option<Before>) -> GenesisPayload {
        GenesisPayload {
            origin: self.origin.clone(),
            log_key: VerifierKey::of(self.origin.clone(), &self.log).to_string(),
            epoch_key: self.epoch_key().to_string(),
            program: crate::types::VERSION.to_owned(),
            before,
        }
    }

    fn epoch_key(&self) -> VerifierKey {
        VerifierKey::of(epoch::epoch_name(&self.origin, self.epoch.number), &self.epoch.key)
    }

    /// The signed checkpoint of `head`.
    pub(super) fn checkpoint(&self, head: Head) -> String {
        self.sign(head, Vec::new())
    }

    fn sign(&self, head: Head, extensions: Vec<String>) -> String {
        let text = Checkpoint { origin: self.origin.clone(), head, extensions }.text();
        let epoch = epoch::epoch_name(&self.origin, self.epoch.number);
        Note::sign(text, &[(&self.origin, &self.log), (&epoch, &self.epoch.key)]).to_string()
    }

    /// Whether the epoch is over.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.epoch.began_us) >= limits::EPOCH_MS_MAX * 1_000
    }

    /// The next epoch behind `head`, and the payload of the entry that begins it. Its key is on the disk
    /// before anything names it; [`Signer::install`] ends the change once the entry is durable.
    pub(super) fn next(&self, head: Head, now_us: u64) -> Result<(Self, KeyEpochPayload), String> {
        let epoch = Epoch::begin(self.epoch.number + 1, head.size, now_us).map_err(at(&self.files.next))?;
        if self.files.next.exists() {
            match Epoch::read(&self.files.next) {
                // The key in force, whose way to its place was barred when it was made: it is the only copy.
                Ok(there) if there.key.as_bytes() == self.epoch.key.as_bytes() => self.install()?,
                // One whose entry was never written.
                _ => erase(&self.files.next).map_err(at(&self.files.next))?,
            }
        }
        write_new(&self.files.next, epoch.line().as_bytes()).map_err(at(&self.files.next))?;
        let next = Self { epoch, ..self.clone() };
        let key = next.epoch_key().to_string();
        let seal = self.sign(head, vec![format!("{SUCCESSOR}{key}")]);
        let payload = KeyEpochPayload { epoch: next.epoch.number, key, seal };
        Ok((next, payload))
    }

    /// Erases the key of the epoch before, and puts this one in its place.
    pub(super) fn install(&self) -> Result<(), String> {
        install(&self.files)
    }
}

/// The key that is about to be takes the place of the one before it, which is overwritten first.
fn install(files: &KeyFiles) -> Result<(), String> {
    if files.epoch.exists() {
        erase(&files.epoch).map_err(at(&files.epoch))?;
    }
    std::fs::rename(&files.next, &files.epoch).map_err(at(&files.next))?;
    sync_folder(&files.epoch).map_err(at(&files.epoch))
}
