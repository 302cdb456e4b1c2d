//! The home that a command works with.

use super::callers::os_users;
use crate::cli::exit::Fail;
use crate::config::{Config, Home};

/// Loads the configuration of an existing home.
pub(in crate::cli) fn load(home: Home) -> Result<Config, Fail> {
    let config = Config::load(made(home)?).map_err(Fail::usage)?;
    // A server needs it only once a call waits: an unknown role is refused before anything starts.
    os_users(&config)?;
    Ok(config)
}

/// Returns the home if it exists; otherwise the error says how to make one.
pub(in crate::cli) fn made(home: Home) -> Result<Home, Fail> {
    if !home.is_made() {
        let root = home.root.display();
        return Err(Fail::usage(format!("no home in `{root}`: create one with `par init --home {root}`")));
    }
    Ok(home)
}
