//! The home that a command works with.

use crate::cli::exit::Fail;
use crate::config::{Config, Home};

/// The configuration of a home that was made.
pub(in crate::cli) fn load(home: Home) -> Result<Config, Fail> {
    Config::load(made(home)?).map_err(Fail::usage)
}

/// The home, if it was made; else how to make one.
pub(in crate::cli) fn made(home: Home) -> Result<Home, Fail> {
    if !home.is_made() {
        let root = home.root.display();
        return Err(Fail::usage(format!(
            "there is no home in `{root}`: make one with `par init --home {root}`"
        )));
    }
    Ok(home)
}
