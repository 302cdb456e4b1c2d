//! Users of this host.

use crate::cli::exit::Fail;

/// A user of this host, with the group that is its own.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct HostUser {
    pub(in crate::cli) uid: u32,
    pub(in crate::cli) gid: u32,
}

/// The user of this host that `name` names, or that has this number; a number that nobody has stands for
/// itself and the group of the same number.
pub(in crate::cli) fn user(name: &str) -> Result<HostUser, Fail> {
    use nix::unistd::{Uid, User};
    let number = name.parse::<u32>().ok();
    let found = match number {
        Some(uid) => User::from_uid(Uid::from_raw(uid)),
        None => User::from_name(name),
    };
    match found {
        Ok(Some(user)) => Ok(HostUser { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        Ok(None) => number
            .map(|uid| HostUser { uid, gid: uid })
            .ok_or_else(|| Fail::usage(format!("this host has no user `{name}`"))),
        Err(e) => Err(Fail::failed(format!("the user `{name}` cannot be looked up: {e}"))),
    }
}
