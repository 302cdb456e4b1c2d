//! `par audit`: one file for each subcommand. Verify and show read the files themselves and need no server.
//!
//! Here the ledger is verified, read, proven and exported; a redaction and a renewal are the only commands
//! that change it.
//!
//! # Layout
//!
//! `given`: keys, checkpoints and files that a person gives · `summary`: what a verification found · `row`:
//! an entry in columns · `journal`: launchers' journals held against the ledger · `verify` · `follow`:
//! entries as they come · `entries`: `par audit show` · `evidence`: keys, checkpoints and proofs · `trust` ·
//! `export` · `index` · `hash` · `redact` · `renew`.

mod given;
mod summary;
mod row;
mod journal;
mod verify;
mod follow;
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

use crate::cli::exit::Fail;
use crate::cli::remote::Server;
use crate::cli::{compose, query};
use crate::config::Home;
use crate::ledger::Filter;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Check every entry, the chain, the tree, every signature, every payload and state.db
    Verify(verify::Verify),
    /// Show entries: all, those that match a query, or one by its number
    Show(entries::Show),
    /// Write entries into one file, all or those that match a query; the ledger records it
    Export(export::Take),
    /// Bring the index of queries up to date, and look at all of it
    Index(index::IndexOf),
    /// Print the log's verifier key
    Key,
    /// Print the newest signed checkpoint
    Checkpoint,
    /// Write a proof of an entry, or of a whole run, that a stranger can check
    Prove(evidence::Prove),
    /// Check such a proof: needs the file and the log's key, and nothing else
    CheckProof(evidence::CheckProof),
    /// Erase payloads for good: their words leave every file of data/, their place in the chain stays
    Redact(redact::Redact),
    /// Tell by which words a secret value is found in the record, where it is replaced
    Hash(hash::Hash),
    /// Set a damaged log aside as it is, and begin another one behind it
    Renew(renew::Renew),
    /// Take the log at an address as it is now, where it is rightly not the one that was met
    Trust(trust::Trust),
}

impl Audit {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        match self {
            // What needs no home is asked without one.
            Self::CheckProof(proof) => proof.run(is_json),
            Self::Trust(trust) => trust.run(),
            Self::Verify(verify::Verify { export: Some(path), key, .. }) => {
                export::verify(path, key.as_deref(), is_json)
            }
            Self::Hash(hash) => hash.run(&compose::load(home)?, is_json),
            Self::Redact(redact) => redact.run(&compose::load(home)?, is_json),
            Self::Renew(renew) => renew.run(&compose::load(home)?, is_json),
            Self::Verify(asked) => asked.run(&compose::load(home)?, is_json),
            Self::Show(entries::Show { url: Some(url), query, limit, follow, .. }) => {
                let query = query::join(query);
                Filter::parse(&query).map_err(Fail::usage)?;
                follow::server(&Server::at(url)?.met()?, &query, *limit, *follow, &follow::Out { is_json })
            }
            Self::Show(show) => show.run(&compose::load(home)?, is_json),
            Self::Export(take) => take.run(&compose::load(home)?),
            Self::Index(index) => index.run(&compose::load(home)?, is_json),
            Self::Key => evidence::key(&compose::load(home)?, is_json),
            Self::Checkpoint => evidence::checkpoint(&compose::load(home)?, is_json),
            Self::Prove(prove) => prove.run(&compose::load(home)?),
        }
    }
}
