//! `par launcher`: the other half of `par serve --launcher`, one process per connection of the front.

use super::exit::Fail;
use super::house;
use crate::config::{Config, Home, accepted_connection};
use crate::sandbox;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Launcher {
    /// The descriptor of the accepted connection [default: the one that the service manager passed]
    #[arg(long, value_name = "N")]
    fd: Option<i32>,
    /// Whom the front runs as: a name or a uid. Any other peer is refused
    #[arg(long, value_name = "USER")]
    front_user: String,
    /// Keep a journal of orders and ends in this folder, which is this user's alone
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl Launcher {
    pub(super) fn run(&self, home: Home) -> Result<u8, Fail> {
        let none =
            || Fail::usage("no connection was passed: start it by par-launcher.socket, or give --fd N");
        let fd = self.fd.or_else(accepted_connection).ok_or_else(none)?;
        let front = house::user(&self.front_user)?.uid;
        // Its own reading of the files, without any secret: nothing that decides comes from the front.
        let config = Config::load(home).map_err(Fail::usage)?;
        let spec = sandbox::Spec { journal: self.journal.clone(), ..house::spec(&config) };
        sandbox::attend(&spec, fd, front).map_err(Fail::failed)
    }
}
