//! Opens a ledger for reading, or says what is missing.

use super::access::check_readable;
use super::ledger::files;
use crate::cli::exit::Fail;
use crate::config::Config;
use crate::ledger::{Files, Reader};

/// Opens the ledger for reading.
pub(in crate::cli) fn reader(config: &Config) -> Result<Reader, Fail> {
    check_readable(&config.home.data)?;
    let files = files(config);
    if is_new(&files) {
        return Err(Fail::failed(NOTHING));
    }
    Reader::open(&files.ledger()).map_err(Fail::failed)
}

/// Says that the home has no ledger yet.
pub(in crate::cli) const NOTHING: &str =
    "nothing is recorded yet: the ledger begins with the first run, key or start of a server";

/// Whether the home never had a ledger: neither a file of one nor its high-water mark exists.
pub(in crate::cli) fn is_new(files: &Files) -> bool {
    ![files.ledger(), files.high_water(), files.state(), files.index()].iter().any(|path| path.exists())
}
