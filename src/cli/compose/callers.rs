//! Who may call: the keys of a home, and the user of this process.

use crate::auth::{self, Authority, OsUsers, Principal, Role};
use crate::cli::exit::{self, Fail};
use crate::config::Config;
use crate::ledger::Ledger;

/// The users of this host who may use PAR without a key.
pub(in crate::cli) fn os_users(config: &Config) -> Result<OsUsers, Fail> {
    OsUsers::resolve(&config.local_role, &config.os_users)
        .map_err(|e| Fail::usage(format!("{}: {e}", config.home.file().display())))
}

/// Opens the keys of a home.
pub(in crate::cli) fn authority(config: &Config, ledger: Ledger) -> Result<Authority, Fail> {
    let users = os_users(config)?;
    Authority::open(ledger, &config.home.data.join("pepper"), users).map_err(Fail::usage)
}

/// The user of this process, who must own the home; without `role`, in the configured role.
pub(in crate::cli) fn local_principal(config: &Config, role: Option<Role>) -> Result<Principal, Fail> {
    let local = auth::local_user(&config.home.data, &os_users(config)?, role);
    local.map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))
}
