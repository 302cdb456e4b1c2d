//! `par audit`: verifies, searches, proves and exports the ledger, one file for each subcommand.
//!
//! Verify and show read the files themselves and need no server. Only export, redact and renew
//! change the ledger.
//!
//! # Layout
//!
//! * `given`: keys, checkpoints and files that a person gives
//! * `unfinished`: a file that gets its name once it is complete
//! * `summary`: the result of a verification
//! * `source`: where entries are read from
//! * `row`: entries as rows
//! * `journal`: launchers' journals compared with the ledger
//! * `follow`: new entries as they come
//! * `card`: one entry for a person
//! * `entries`: `par audit show`
//! * `evidence`: keys, checkpoints and proofs
//! * `verify`, `export`, `index`, `hash`, `redact`, `renew`, `trust`: a subcommand each

mod given;
mod unfinished;
mod summary;
mod source;
mod row;
mod journal;
mod verify;
mod follow;
mod card;
mod entries;
mod evidence;
mod trust;
mod export;
mod index;
mod hash;
mod redact;
mod renew;

pub(super) use given::note;
pub(super) use summary::summary;

use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::config::Home;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Verify every entry, the chain, the tree, every signature, every payload and state.db
    Verify(verify::Verify),
    /// Show the newest entries, those that match a query, or one entry by its number
    Show(entries::Show),
    /// Export all entries, or those that match a query, to one file; the ledger records the export
    Export(export::Take),
    /// Bring the query index up to date and check it completely
    Index(index::IndexOf),
    /// Print the log's verifier key
    Key,
    /// Print the newest signed checkpoint
    Checkpoint,
    /// Write a proof of an entry or of a whole run, which anyone can check
    Prove(evidence::Prove),
    /// Check a proof; needs only the file and the log's key
    CheckProof(evidence::CheckProof),
    /// Erase payloads permanently from every file in data/; the entries stay in the chain
    Redact(redact::Redact),
    /// Print the placeholder that stands for a secret in the ledger
    Hash(hash::Hash),
    /// Set a damaged log aside, unchanged, and begin a new one
    Renew(renew::Renew),
    /// Accept the log at an address as it is now, after a change that you expected
    Trust(trust::Trust),
}

impl Audit {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        match self {
            // Some subcommands need no home.
            Self::CheckProof(proof) => proof.run(is_json),
            Self::Trust(trust) => trust.run(),
            Self::Verify(verify::Verify { export: Some(path), key, .. }) => {
                export::verify(path, key.as_deref(), is_json)
            }
            Self::Hash(hash) => hash.run(&compose::load(home)?, is_json),
            Self::Redact(redact) => redact.run(&compose::load(home)?, is_json),
            Self::Renew(renew) => renew.run(&compose::load(home)?, is_json),
            Self::Verify(asked) => asked.run(&compose::load(home)?, is_json),
            Self::Show(show) => show.run(home, is_json),
            Self::Export(take) => take.run(&compose::load(home)?),
            Self::Index(index) => index.run(&compose::load(home)?, is_json),
            Self::Key => evidence::key(&compose::load(home)?, is_json),
            Self::Checkpoint => evidence::checkpoint(&compose::load(home)?, is_json),
            Self::Prove(prove) => prove.run(&compose::load(home)?),
        }
    }
}
