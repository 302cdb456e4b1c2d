//! `par launcher`: the other half of `par serve --launcher`, one process per connection of the front.

use super::exit::Fail;
use super::house;
use crate::config::{Config, Home, accepted_connection};
use crate::sandbox;
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Launcher {
    /// The descriptor of the accepted connection [default: the one that the service manager passed]
    #[arg(long, value_name = "N")]
    fd: Option<i32>,
    /// Whom the front runs as: a name or a uid. Any other peer is refused
    #[arg(long, value_name = "USER")]
    front_user: String,
}

impl Launcher {
    pub(super) fn run(&self, home: Home) -> Result<u8, Fail> {
        let none =
            || Fail::usage("no connection was passed: start it by par-launcher.socket, or give --fd N");
        let fd = self.fd.or_else(accepted_connection).ok_or_else(none)?;
        let front = house::user(&self.front_user)?.uid;
        // Its own reading of the files, without any secret: nothing that decides comes from the front.
        let config = Config::load_keyless(home).map_err(Fail::usage)?;
        sandbox::attend(&house::spec(&config), fd, front).map_err(Fail::failed)
    }
}
