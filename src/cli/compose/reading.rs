//! Why the files of a ledger cannot be read, for a person.

use crate::cli::exit::Fail;
use crate::ledger::Files;
use rustix::fs::stat;
use std::io::ErrorKind;
use std::path::Path;

/// Says that the home has no ledger yet.
pub(in crate::cli) const NOTHING: &str =
    "nothing is recorded yet: the ledger begins with the first run, key or start of a server";

/// Whether the home never had a ledger: it has no file of one, and no high-water mark.
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
