//! Who may call: the keys of a home, and the user of this process.

use crate::agent::Requesters;
use crate::auth::{self, Authority, Principal, Role};
use crate::cli::exit::{self, Fail};
use crate::config::Config;
use crate::ledger::Ledger;

/// The role of commands that run without a server.
pub(super) fn local_role(config: &Config) -> Result<Role, Fail> {
    Role::parse(&config.local_role).ok_or_else(|| {
        Fail::usage(format!(
            "{}: `auth.local_role`: unknown role `{}`, expected one of viewer, operator, approver, admin",
            config.home.file().display(),
            config.local_role
        ))
    })
}

/// The principals under which waiting runs resume.
pub(in crate::cli) fn requesters(config: &Config, authority: Authority) -> Result<Requesters, Fail> {
    Ok(Requesters { authority, local: local_role(config)? })
}

/// Opens the keys of a home.
pub(in crate::cli) fn authority(config: &Config, ledger: Ledger) -> Result<Authority, Fail> {
    Authority::open(ledger, &config.home.data.join("pepper")).map_err(Fail::usage)
}

/// The user of this process, with the configured role.
pub(in crate::cli) fn local_principal(config: &Config) -> Result<Principal, Fail> {
    auth::local(&config.home.data, local_role(config)?).map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))
}
