//! Users of this host.

use crate::cli::exit::Fail;

/// A user of this host and its primary group.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct HostUser {
    pub(in crate::cli) uid: u32,
    pub(in crate::cli) gid: u32,
}

/// Looks up a user by name or number. A number without a user stands for itself and for the group
/// of the same number.
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
            .ok_or_else(|| Fail::usage(format!("unknown user `{name}` on this host"))),
        Err(e) => Err(Fail::failed(format!("cannot look up the user `{name}`: {e}"))),
    }
}
