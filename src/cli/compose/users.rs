//! Users of this host.

use crate::cli::exit::Fail;
use crate::config::{Config, closed_to_others};
use std::os::unix::fs::MetadataExt as _;

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

/// The users in `[auth.os_users]` who cannot reach the sockets of this home, and why.
pub(in crate::cli) fn unreachable(config: &Config) -> Option<String> {
    let why = closed_to_others(&config.home.data)?;
    let owner = std::fs::metadata(&config.home.data).ok()?.uid();
    let is_other = |name: &&String| user(name).is_ok_and(|user| user.uid != 0 && user.uid != owner);
    let others: Vec<&str> = config.os_users.keys().filter(is_other).map(String::as_str).collect();
    let has = if others.len() == 1 { "has" } else { "have" };
    (!others.is_empty()).then(|| format!("`auth.os_users`: {} {has} no way in: {why}", others.join(", ")))
}
