//! The keys that sign checkpoints, and why each is trusted. Pure: no disk, no clock.
//!
//! Two keys sign: the *log key*, which never changes, and the *epoch key*, which is replaced each
//! day and then erased. The log's id is made from the log key and the first epoch key, so whoever
//! knows the id can check both. Each later epoch key is named in a checkpoint that the previous one
//! signed, its *seal*. An intruder who takes over a host later finds no key that could sign the
//! past again.

use super::error::CheckpointError;
use super::note::{Checkpoint, Note, VerifierKey};
use crate::ledger::payload::{GenesisPayload, KeyEpochPayload};
use crate::types::{Digest, digest};

/// The log's id: the first 16 bytes, in hex, of SHA-256("par/log/1\0" ‖ log key ‖ key of epoch 1).
#[must_use]
pub fn log_id(log: &[u8; 32], first: &[u8; 32]) -> String {
    let id = Digest::sha256_parts(&[b"par/log/1\0", log, first]);
    digest::hex(id.0.first_chunk::<16>().map_or(&[][..], |head| head))
}

/// The name that a log signs with.
#[must_use]
pub fn origin(log: &str) -> String {
    format!("par/{log}")
}

/// The name that the key of epoch `number` signs with. Numbers begin at 1.
#[must_use]
pub fn epoch_name(origin: &str, number: u64) -> String {
    format!("{origin}/epoch/{number}")
}

/// The line of a seal that names the next epoch's key.
pub(super) const SUCCESSOR: &str = "successor ";

/// The keys of a log up to some entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    log: VerifierKey,
    /// For each epoch, the entry that began it and its key.
    keys: Vec<(u64, VerifierKey)>,
}

impl Epochs {
    /// The first keys of a log. The log's name must match the id made from them.
    pub fn new(log: VerifierKey, first: VerifierKey) -> Result<Self, CheckpointError> {
        let name = origin(&log_id(log.public(), first.public()));
        let of = first.name().strip_suffix(&epoch_name("", 1)).unwrap_or_default();
        if log.name() != name && !of.is_empty() && of != log.name() {
            return Err(CheckpointError::ForeignKey { key: log.name().to_owned(), log: of.to_owned() });
        }
        if log.name() != name {
            return Err(CheckpointError::OtherKeys { is: name, named: log.name().to_owned() });
        }
        if first.name() != epoch_name(&name, 1) {
            return Err(CheckpointError::FirstKeyName(first.name().to_owned()));
        }
        Ok(Self { log, keys: vec![(0, first)] })
    }

    /// The keys that the genesis entry of log `log` pins in its payload.
    pub fn from_genesis(log: &str, payload: &[u8]) -> Result<Self, CheckpointError> {
        let pinned: GenesisPayload = serde_json::from_slice(payload)?;
        let log_key = verifier("log_key", &pinned.log_key)?;
        let epochs = Self::new(log_key, verifier("epoch_key", &pinned.epoch_key)?)?;
        if epochs.log.name() != origin(log) || pinned.origin != epochs.log.name() {
            return Err(CheckpointError::OtherGenesis(epochs.log.name().to_owned()));
        }
        Ok(epochs)
    }

    /// Follows the `key.epoch` entry `seq` with this payload. Returns the seal of the epoch that
    /// ends; the caller still compares its root.
    pub fn follow(&mut self, seq: u64, payload: &[u8]) -> Result<Checkpoint, CheckpointError> {
        let begun: KeyEpochPayload = serde_json::from_slice(payload)?;
        let mut next = self.clone();
        let seal = next.seal(&begun.seal)?;
        if seal.head.size != seq {
            return Err(CheckpointError::SealSize(seal.head.size));
        }
        if begun.epoch != next.number() || begun.key != next.current().to_string() {
            return Err(CheckpointError::SealKey);
        }
        *self = next;
        Ok(seal)
    }

    /// Accepts the seal of the newest epoch, and begins the next epoch with the key that the seal
    /// names.
    pub fn seal(&mut self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let seal = self.check(&Note::parse(note)?)?;
        let since = self.keys.last().map_or(0, |(since, _)| *since);
        let [successor] = seal.extensions.as_slice() else {
            return Err(CheckpointError::Successor);
        };
        let key = successor.strip_prefix(SUCCESSOR).and_then(VerifierKey::parse);
        let key = key.ok_or(CheckpointError::SuccessorKey)?;
        if seal.head.size <= since || key.name() != epoch_name(self.log.name(), self.number() + 1) {
            return Err(CheckpointError::OutOfTurn { number: self.number(), by: key.name().to_owned() });
        }
        self.keys.push((seal.head.size, key));
        Ok(seal)
    }

    /// The keys of a log, from the key of epoch 1 and the seals of the finished epochs.
    pub fn follow_seals(log: VerifierKey, first: &str, seals: &[String]) -> Result<Self, CheckpointError> {
        let first = VerifierKey::parse(first).ok_or(CheckpointError::FirstKey)?;
        let mut epochs = Self::new(log, first)?;
        for seal in seals {
            let number = epochs.number();
            epochs.seal(seal).map_err(|what| CheckpointError::Seal(number, Box::new(what)))?;
        }
        Ok(epochs)
    }

    /// Returns the checkpoint in `note` if it is signed by the log key and by the key of the epoch
    /// that its size belongs to.
    pub fn check(&self, note: &Note) -> Result<Checkpoint, CheckpointError> {
        let checkpoint = Checkpoint::parse(note.text())?;
        if checkpoint.origin != self.log.name() {
            let asked = self.log.name().to_owned();
            return Err(CheckpointError::OtherLog { is: checkpoint.origin, asked });
        }
        if !note.is_signed_by(&self.log) {
            return Err(CheckpointError::LogKey);
        }
        let of_size = |(since, _): &&(u64, VerifierKey)| *since < checkpoint.head.size;
        match self.keys.iter().rev().find(of_size) {
            Some((_, key)) if note.is_signed_by(key) => Ok(checkpoint),
            Some((_, key)) => Err(CheckpointError::EpochKey(key.name().to_owned())),
            None => Err(CheckpointError::Empty),
        }
    }

    /// The log key.
    #[must_use]
    pub fn log(&self) -> &VerifierKey {
        &self.log
    }

    /// The number of the newest epoch, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.keys.len() as u64
    }

    /// The key of the newest epoch.
    #[must_use]
    pub fn current(&self) -> &VerifierKey {
        // The list is never empty.
        self.keys.last().map_or(&self.log, |(_, key)| key)
    }
}

fn verifier(name: &'static str, text: &str) -> Result<VerifierKey, CheckpointError> {
    VerifierKey::parse(text).ok_or(CheckpointError::GenesisKey(name))
}

#[cfg(test)]
mod tests {
    use super::{Epochs, SUCCESSOR, epoch_name, log_id, origin};
    use crate::ledger::Head;
    use crate::ledger::checkpoint::{Checkpoint, Note, VerifierKey};
    use crate::types::Digest;
    use ed25519_dalek::SigningKey;

    struct Keys {
        origin: String,
        log: SigningKey,
        epochs: Vec<SigningKey>,
    }

    impl Keys {
        fn new() -> Self {
            let key = |byte| SigningKey::from_bytes(&[byte; 32]);
            let (log, epochs) = (key(1), vec![key(2), key(3), key(4)]);
            let id = log_id(log.verifying_key().as_bytes(), epochs[0].verifying_key().as_bytes());
            Self { origin: origin(&id), log, epochs }
        }

        fn verifier(&self, number: usize) -> VerifierKey {
            VerifierKey::new(epoch_name(&self.origin, number as u64), &self.epochs[number - 1])
        }

        fn epochs(&self) -> Epochs {
            let log = VerifierKey::new(self.origin.clone(), &self.log);
            Epochs::new(log, self.verifier(1)).expect("keys")
        }

        /// A checkpoint signed by the log key and by the key of epoch `number`.
        fn note(&self, size: u64, number: usize, successor: Option<usize>) -> Note {
            let name = epoch_name(&self.origin, number as u64);
            let extensions = successor.map(|next| format!("{SUCCESSOR}{}", self.verifier(next)));
            let head = Head { size, root: Digest::sha256(&size.to_be_bytes()) };
            let text = Checkpoint {
                origin: self.origin.clone(),
                head,
                extensions: extensions.into_iter().collect(),
            };
            Note::sign(text.text(), &[(&self.origin, &self.log), (&name, &self.epochs[number - 1])])
        }
    }

    #[test]
    fn each_epoch_signs_its_own_sizes_and_no_others() {
        let keys = Keys::new();
        let mut epochs = keys.epochs();
        epochs.seal(&keys.note(10, 1, Some(2)).to_string()).expect("first seal");
        epochs.seal(&keys.note(20, 2, Some(3)).to_string()).expect("second seal");
        for (size, number, is_right) in [
            (1, 1, true),
            (10, 1, true),
            (11, 1, false),
            (10, 2, false),
            (11, 2, true),
            (20, 2, true),
            (21, 3, true),
            (5, 3, false),
        ] {
            assert_eq!(epochs.check(&keys.note(size, number, None)).is_ok(), is_right, "{size} by {number}");
        }
    }

    #[test]
    fn epochs_are_contiguous_and_have_one_seal_each() {
        let keys = Keys::new();
        let mut epochs = keys.epochs();
        assert!(epochs.seal(&keys.note(10, 1, Some(3)).to_string()).is_err(), "one is left out");
        assert!(epochs.seal(&keys.note(10, 1, None).to_string()).is_err(), "no successor");
        assert!(epochs.seal(&keys.note(10, 2, Some(2)).to_string()).is_err(), "signed by its own successor");
        epochs.seal(&keys.note(10, 1, Some(2)).to_string()).expect("sealed");
        assert!(epochs.seal(&keys.note(12, 1, Some(2)).to_string()).is_err(), "sealed twice");
        assert!(epochs.seal(&keys.note(10, 1, Some(2)).to_string()).is_err(), "again");
        assert_eq!(epochs.number(), 2);
    }

    #[test]
    fn other_keys_are_another_log() {
        let keys = Keys::new();
        let log = VerifierKey::new(keys.origin.clone(), &keys.log);
        let other = VerifierKey::new(epoch_name(&keys.origin, 1), &keys.epochs[1]);
        assert!(Epochs::new(log, other).is_err(), "another first epoch key has another name");
        let foreign = VerifierKey::new(keys.origin.clone(), &keys.epochs[2]);
        assert!(Epochs::new(foreign, keys.verifier(1)).is_err());
    }
}
