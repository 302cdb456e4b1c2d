//! `par launcher`: the same as the binary `par-launcher`, for service units of an earlier release.

use crate::cli::exit::Fail;
use crate::config::Home;
use crate::launcher::ServeOptions;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct Launcher {
    /// Descriptor of the accepted connection [default: the one that the service manager passed]
    #[arg(long, value_name = "N")]
    fd: Option<i32>,
    /// User that the front runs as, a name or a uid; any other peer is refused
    #[arg(long, value_name = "USER")]
    front_user: String,
    /// Write a journal of orders and ends to this folder, which only this user may access
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl Launcher {
    pub(in crate::cli) fn run(&self, home: Home) -> Result<u8, Fail> {
        let Self { fd, front_user, journal } = self;
        let command = ServeOptions { fd: *fd, front_user: front_user.clone(), journal: journal.clone() };
        command.run(home).map_err(|refused| Fail::new(refused.code, refused.reason))
    }
}
