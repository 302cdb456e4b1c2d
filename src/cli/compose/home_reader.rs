//! A reader of a home's files that passes damage on to the server of the home.

use super::ledger::files;
use super::reading::{NOTHING, check_readable, is_new};
use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::Config;
use crate::http::admin::{self, AdminError, Operation};
use crate::ledger::Reader;
use serde_json::json;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Reads the ledger of a home. When it is dropped, the server of the home hears of the first entry
/// that a read found damaged, whatever became of the command.
#[derive(Debug)]
pub(in crate::cli) struct HomeReader {
    reader: Reader,
    data: PathBuf,
}

impl HomeReader {
    /// Opens the ledger for reading.
    pub(in crate::cli) fn open(config: &Config) -> Result<Self, Fail> {
        check_readable(&config.home.data)?;
        let files = files(config);
        if is_new(&files) {
            return Err(Fail::failed(NOTHING));
        }
        let reader = Reader::open(&files.ledger()).map_err(Fail::failed)?;
        Ok(Self { reader, data: config.home.data.clone() })
    }
}

impl Deref for HomeReader {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Drop for HomeReader {
    fn drop(&mut self) {
        if let Some(seq) = self.reader.met_damage() {
            pass_on(&self.data, seq);
        }
    }
}

/// Tells a server that runs on the home about an entry that does not verify, so that it verifies it
/// now and not at its next round.
pub(in crate::cli) fn pass_on(data: &Path, seq: u64) {
    let asked = json!({ "op": Operation::LedgerCheck.as_str(), "entry": seq });
    match admin::call(data, &asked) {
        Err(AdminError::NotRunning) => {}
        Ok(_) => show::note("par: the server of this home was told and verifies the entry now"),
        Err(why) => show::note(&format!(
            "par: the server of this home does not know this ({why}): it finds out at its next round, or at once if it \
             is restarted"
        )),
    }
}
