//! Signs checkpoints with the log key and the key of the current epoch.

use super::epoch::{self, SUCCESSOR};
use super::key::{Epoch, SigningKeyError, at, erase, install, read_log_key, write_new};
use super::note::{Checkpoint, Note, VerifierKey};
use crate::ledger::files::KeyFiles;
use crate::ledger::payload::{GenesisPayload, KeyEpochPayload, PreviousLog};
use crate::ledger::tree::Head;
use crate::types::limits;
use ed25519_dalek::SigningKey;

/// The two signing keys, in memory.
#[derive(Clone)]
pub(in crate::ledger) struct Signer {
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

impl Signer {
    /// Begins a log: reads its key, creates the key of epoch 1, and makes the log's id from both.
    pub(in crate::ledger) fn begin(files: KeyFiles, now_us: u64) -> Result<(Self, String), SigningKeyError> {
        let log = read_log_key(&files.log)?;
        let epoch = Epoch::begin(1, 0, now_us).map_err(at(&files.epoch))?;
        // No entry exists yet, so no older key has signed anything.
        for stale in [&files.epoch, &files.next].into_iter().filter(|path| path.exists()) {
            erase(stale).map_err(at(stale))?;
        }
        write_new(&files.epoch, epoch.line().as_bytes()).map_err(at(&files.epoch))?;
        let id = epoch::log_id(log.verifying_key().as_bytes(), epoch.key.verifying_key().as_bytes());
        Ok((Self { files, origin: epoch::origin(&id), log, epoch }, id))
    }

    /// Continues log `id`. `key_of` reads the epoch key that an entry names; `newest` is the newest
    /// checkpoint.
    ///
    /// Finishes a change of epochs that a crash interrupted, in the direction that the ledger
    /// records. Refuses keys that do not belong to the ledger: a copy of the files without the
    /// epoch key cannot continue a log.
    pub(in crate::ledger) fn resume(
        files: KeyFiles,
        id: &str,
        key_of: impl Fn(u64) -> Option<String>,
        newest: &Note,
    ) -> Result<Self, SigningKeyError> {
        let log = read_log_key(&files.log)?;
        let origin = epoch::origin(id);
        if !newest.is_signed_by(&VerifierKey::new(origin.clone(), &log)) {
            return Err(SigningKeyError::OtherLog(files.log));
        }
        let is_of_ledger = |epoch: &Epoch| {
            let name = VerifierKey::new(epoch::epoch_name(&origin, epoch.number), &epoch.key).to_string();
            key_of(epoch.since) == Some(name)
        };
        if files.next.exists() {
            match Epoch::read(&files.next) {
                Ok(next) if is_of_ledger(&next) => install(&files)?,
                // Its entry was never written, so the previous key is in force.
                _ => erase(&files.next).map_err(at(&files.next))?,
            }
        }
        let epoch = Epoch::read(&files.epoch)?;
        let name = epoch::epoch_name(&origin, epoch.number);
        if !is_of_ledger(&epoch) || !newest.is_signed_by(&VerifierKey::new(name, &epoch.key)) {
            return Err(SigningKeyError::OtherEpoch(files.epoch));
        }
        Ok(Self { files, origin, log, epoch })
    }

    /// The payload of the genesis entry. It pins the keys, and names the previous log if there is
    /// one.
    pub(in crate::ledger) fn genesis(&self, before: Option<PreviousLog>) -> GenesisPayload {
        GenesisPayload {
            origin: self.origin.clone(),
            log_key: VerifierKey::new(self.origin.clone(), &self.log).to_string(),
            epoch_key: self.epoch_key().to_string(),
            program: crate::types::VERSION.to_owned(),
            before,
        }
    }

    fn epoch_key(&self) -> VerifierKey {
        VerifierKey::new(epoch::epoch_name(&self.origin, self.epoch.number), &self.epoch.key)
    }

    /// The signed checkpoint of `head`.
    pub(in crate::ledger) fn checkpoint(&self, head: Head) -> String {
        self.sign(head, Vec::new())
    }

    fn sign(&self, head: Head, extensions: Vec<String>) -> String {
        let text = Checkpoint { origin: self.origin.clone(), head, extensions }.text();
        let epoch = epoch::epoch_name(&self.origin, self.epoch.number);
        Note::sign(text, &[(&self.origin, &self.log), (&epoch, &self.epoch.key)]).to_string()
    }

    /// Whether the epoch has reached its maximum age.
    pub(in crate::ledger) fn is_due(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.epoch.began_us) >= limits::EPOCH_MS_MAX * 1_000
    }

    /// The next epoch, beginning after `head`, and the payload of its entry. Its key is on disk
    /// before anything names it. [`Signer::install`] completes the change once the entry is
    /// durable.
    pub(in crate::ledger) fn next(
        &self,
        head: Head,
        now_us: u64,
    ) -> Result<(Self, KeyEpochPayload), SigningKeyError> {
        let epoch = Epoch::begin(self.epoch.number + 1, head.size, now_us).map_err(at(&self.files.next))?;
        if self.files.next.exists() {
            match Epoch::read(&self.files.next) {
                // This is the key in force. It could not be renamed when it was made, and this is
                // the only copy.
                Ok(there) if there.key.as_bytes() == self.epoch.key.as_bytes() => self.install()?,
                // A key whose entry was never written.
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

    /// Erases the previous epoch's key and renames this one to its place.
    pub(in crate::ledger) fn install(&self) -> Result<(), SigningKeyError> {
        install(&self.files)
    }
}
