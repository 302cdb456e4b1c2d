//! Why a text is not a valid note or checkpoint, or does not belong to this log.

/// Why a note, a checkpoint, or the entry of one is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The note is longer than a note may be.
    #[error("the note is longer than {0} bytes")]
    TooLong(usize),
    /// The note holds a character that notes must not contain.
    #[error("the note holds a control character")]
    ControlCharacter,
    /// The text has no empty line followed by signature lines.
    #[error("the note has no signatures")]
    Unsigned,
    /// The signature lines are not in their one form.
    #[error("the note's signature lines are malformed")]
    SignatureLines,
    /// The note's text is not a checkpoint.
    #[error("the note is not a checkpoint")]
    NoCheckpoint,
    /// The log's name is not made from these keys.
    #[error("the keys belong to `{is}`, not to `{named}`")]
    OtherKeys {
        /// The log that the keys belong to.
        is: String,
        /// The log that was named.
        named: String,
    },
    /// The key is of another log than the first epoch key.
    #[error("the key belongs to `{key}`, and this is of `{log}`")]
    ForeignKey {
        /// The log that the key belongs to.
        key: String,
        /// The log that the first epoch key names.
        log: String,
    },
    /// The first epoch key has another name.
    #[error("the key of epoch 1 has the wrong name `{0}`")]
    FirstKeyName(String),
    /// The text given as the first epoch key is not a key.
    #[error("the key of epoch 1 is not a valid verifier key")]
    FirstKey,
    /// The genesis entry belongs to another log.
    #[error("the genesis entry belongs to another log, `{0}`")]
    OtherGenesis(String),
    /// A member of the genesis entry is not a key.
    #[error("the genesis entry's `{0}` is not a valid verifier key")]
    GenesisKey(&'static str),
    /// The payload cannot be parsed.
    #[error("its payload cannot be parsed: {0}")]
    Payload(#[from] serde_json::Error),
    /// The seal has another size than its entry's position.
    #[error("its seal covers {0} entries, not all those before it")]
    SealSize(u64),
    /// The seal does not match its entry.
    #[error("its seal names another epoch or key")]
    SealKey,
    /// The seal does not have exactly one extension line.
    #[error("the seal does not name exactly one successor")]
    Successor,
    /// The successor in a seal is not a key.
    #[error("the seal's successor is not a valid verifier key")]
    SuccessorKey,
    /// The seal names a key that cannot be next.
    #[error("the seal of epoch {number} names `{by}`, which cannot follow it")]
    OutOfTurn {
        /// The epoch that the seal ends.
        number: u64,
        /// The key that it names.
        by: String,
    },
    /// A seal in a proof or a ledger is not valid.
    #[error("the seal of epoch {0}: {1}")]
    Seal(u64, #[source] Box<Self>),
    /// The checkpoint belongs to another log.
    #[error("the checkpoint belongs to `{is}`, not to `{asked}`")]
    OtherLog {
        /// The log that the checkpoint belongs to.
        is: String,
        /// The log that was expected.
        asked: String,
    },
    /// The log key did not sign the checkpoint.
    #[error("the log key did not sign the checkpoint")]
    LogKey,
    /// The key of its epoch did not sign the checkpoint.
    #[error("`{0}` did not sign the checkpoint")]
    EpochKey(String),
    /// The checkpoint has size 0.
    #[error("the checkpoint covers no entries")]
    Empty,
    /// The line is not a cosignature.
    #[error("the answer is not a signature line")]
    NoSignatureLine,
    /// The cosignature does not verify.
    #[error("the line of `{0}` is not a valid signature of this checkpoint")]
    Cosignature(String),
    /// The consistency proof has more hashes than a witness accepts.
    #[error("the consistency proof has {0} hashes, more than a witness accepts")]
    ProofLength(usize),
    /// The `anchor` entry has no size and root.
    #[error("it does not say what was anchored: {0}")]
    NothingAnchored(#[source] serde_json::Error),
    /// The `anchor` entry claims more entries than there are before it, or none.
    #[error("its anchored size {0} is not between 1 and its own number")]
    AnchoredSize(u64),
    /// The `anchor` entry comes before any key.
    #[error("there are no keys to check its note with")]
    NoKeys,
    /// The note of the `anchor` entry has another tree head than the entry.
    #[error("its note has another size or root than the entry")]
    OtherTree,
    /// The `anchor` entry has a cosignature but no valid witness key.
    #[error("its `witness` is not a valid witness key")]
    NoWitness,
    /// The cosignature of the `anchor` entry is by another witness.
    #[error("its cosignature is not by the witness that it names")]
    OtherWitness,
}
