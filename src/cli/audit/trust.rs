//! `par audit trust`: accepts the log at an address as it is now.

use super::given;
use crate::cli::exit::{self, Fail};
use crate::cli::remote::known;
use crate::cli::show;
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct Trust {
    /// URL of a server, or the `data/` folder of a home
    address: String,
    /// Verifier key of the log, as `par audit key` prints it on that host
    #[arg(long, value_name = "VKEY")]
    key: String,
}

impl Trust {
    /// Accepts the log at an address as it is now and forgets what was known of it.
    pub(super) fn run(&self) -> Result<u8, Fail> {
        let key = given::verifier(&self.key)?;
        let address = match std::fs::canonicalize(&self.address) {
            Ok(folder) if folder.is_dir() => folder.display().to_string(),
            _ => self.address.trim_end_matches('/').to_owned(),
        };
        known::remember(&address, &key, None)?;
        show::note(&format!("{address}: the log of {} is now trusted as it is", key.name()));
        Ok(exit::OK)
    }
}
