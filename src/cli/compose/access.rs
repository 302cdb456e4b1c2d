//! Whether this user may read the files of a home.

use crate::cli::exit::Fail;
use rustix::fs::stat;
use std::io::ErrorKind;
use std::path::Path;

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
