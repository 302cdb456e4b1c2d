//! Why a text is not a note or a checkpoint, or is not one of this log.

/// Why a note, a checkpoint, or what an entry says of one, cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// More bytes than a note may have.
    #[error("the note is longer than {0} bytes")]
    TooLong(usize),
    /// A character that no note holds.
    #[error("the note holds a control character")]
    ControlCharacter,
    /// A text without an empty line and signature lines.
    #[error("the note has no signatures")]
    Unsigned,
    /// Signature lines that could be written otherwise.
    #[error("the note's signature lines are malformed")]
    SignatureLines,
    /// A note whose text says something else.
    #[error("the note is no checkpoint")]
    NoCheckpoint,
    /// The name of a log is made of other keys.
    #[error("the keys are those of `{is}`, and not of `{named}`")]
    OtherKeys {
        /// The log that the keys make.
        is: String,
        /// The log that was named.
        named: String,
    },
    /// The first epoch key has another name.
    #[error("the key of epoch 1 is called `{0}`")]
    FirstKeyName(String),
    /// What is said to be the first epoch key.
    #[error("the key of epoch 1 is no verifier key")]
    FirstKey,
    /// A genesis entry of another log.
    #[error("the genesis entry is that of `{0}`")]
    OtherGenesis(String),
    /// A member of the genesis entry.
    #[error("the genesis entry's `{0}` is no verifier key")]
    GenesisKey(&'static str),
    /// A payload that cannot be read.
    #[error("its payload cannot be read: {0}")]
    Payload(#[from] serde_json::Error),
    /// A seal that stands at another entry.
    #[error("its seal is of {0} entries")]
    SealSize(u64),
    /// A seal that is not what its entry says.
    #[error("its seal names another epoch or key")]
    SealKey,
    /// A seal with more lines, or fewer.
    #[error("a seal names one successor")]
    Successor,
    /// A successor that is not a key.
    #[error("the seal's successor is no verifier key")]
    SuccessorKey,
    /// A seal out of its turn.
    #[error("the seal of epoch {number} is followed by `{by}`")]
    OutOfTurn {
        /// The epoch that the seal ends.
        number: u64,
        /// The key that it names.
        by: String,
    },
    /// One of the seals of a proof or a ledger.
    #[error("the seal of epoch {0}: {1}")]
    Seal(u64, #[source] Box<Self>),
    /// A checkpoint of another log.
    #[error("the checkpoint is of `{is}`, and not of `{asked}`")]
    OtherLog {
        /// The log that it is of.
        is: String,
        /// The log that was asked about.
        asked: String,
    },
    /// A checkpoint that the log key did not sign.
    #[error("the log key did not sign the checkpoint")]
    LogKey,
    /// A checkpoint that the key of its epoch did not sign.
    #[error("`{0}` did not sign the checkpoint")]
    EpochKey(String),
    /// A checkpoint of size 0.
    #[error("the checkpoint is of no entry")]
    Empty,
    /// A line in the place of a cosignature.
    #[error("it answered what is no signature line")]
    NoSignatureLine,
    /// A cosignature that does not verify.
    #[error("the line of `{0}` is no signature of this checkpoint")]
    Cosignature(String),
    /// A consistency proof with more hashes than a witness takes.
    #[error("the consistency proof has {0} hashes")]
    ProofLength(usize),
    /// An `anchor` entry without size and root.
    #[error("it does not say what was anchored: {0}")]
    NothingAnchored(#[source] serde_json::Error),
    /// An `anchor` entry that speaks of entries after it, or of none.
    #[error("it says that {0} entries were anchored before it")]
    AnchoredSize(u64),
    /// An `anchor` entry before any key is known.
    #[error("there are no keys to check its note with")]
    NoKeys,
    /// An `anchor` entry whose note is of another tree.
    #[error("its note is of another tree than it says")]
    OtherTree,
    /// An `anchor` entry without its witness's key.
    #[error("its `witness` is no witness's key")]
    NoWitness,
    /// An `anchor` entry whose cosignature is somebody else's.
    #[error("its cosignature is not that of the witness that it names")]
    OtherWitness,
}
