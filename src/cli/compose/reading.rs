//! Reads a ledger's files, and says what is wrong for a person if that is not possible.

use crate::cli::exit::Fail;
use crate::config::Config;
use crate::ledger::{Files, Reader};
use rustix::fs::stat;
use std::io::ErrorKind;
use std::path::Path;

/// Opens the ledger for reading.
pub(in crate::cli) fn reader(config: &Config) -> Result<Reader, Fail> {
    check_readable(&config.home.data)?;
    let files = super::files(config);
    if is_new(&files) {
        return Err(Fail::failed(NOTHING));
    }
    Reader::open(&files.ledger()).map_err(Fail::failed)
}

/// Says that the home has no ledger yet.
pub(in crate::cli) const NOTHING: &str =
    "nothing is recorded yet: the ledger begins with the first run, key or start of a server";

/// Whether the home never had a ledger: no file of one exists, and neither does its high-water mark.
pub(in crate::cli) fn is_new(files: &Files) -> bool {
    ![files.ledger(), files.high_water(), files.state(), files.index()].iter().any(|path| path.exists())
}

/// Checks that this user may read `data/`. To another user, its files would only look missing.
pub(in crate::cli) fn check_readable(data: &Path) -> Result<(), Fail> {
    match std::fs::read_dir(data) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            let owner = stat(data).ok().and_then(|stat| owner(stat.st_uid));
            let who = owner.unwrap_or_else(|| "its owner".to_owned());
            let at = data.display();
            Err(Fail::failed(format!("{at}: {e}: only {who} can read it: run it as {who} or with sudo")))
        }
        _ => Ok(()),
    }
}

fn owner(uid: u32) -> Option<String> {
    nix::unistd::User::from_uid(uid.into()).ok()?.map(|user| user.name)
}
