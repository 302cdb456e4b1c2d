//! `par audit index`: checks and rebuilds the index that a server answers queries from.

use crate::cli::exit::{self, Fail};
use crate::cli::progress::Busy;
use crate::cli::{compose, show};
use crate::config::Config;
use crate::ledger::Index;
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub(in crate::cli) struct IndexOf {
    /// Discard the index and build it again from the first entry
    #[arg(long)]
    rebuild: bool,
}

impl IndexOf {
    /// Works next to a running server too, which then uses the result.
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let files = compose::files(config);
        let what = if self.rebuild { "rebuilding the index" } else { "checking the index" };
        let busy = Busy::new(|| what.to_owned());
        let index = if self.rebuild { Index::rebuild(&files) } else { Index::open(&files) };
        let index = index.map_err(Fail::failed)?;
        let found = index.complete().map_err(Fail::failed)?;
        drop(busy);
        if is_json {
            show::json(&json!({ "covered": found.covered, "unsound": found.unsound }))?;
        } else {
            let blocks = found.covered.div_ceil(256);
            let (entries, blocks) = (show::counted(found.covered, "entry"), show::counted(blocks, "block"));
            show::line(&format!("index.db covers {entries} in {blocks}"))?;
            for block in &found.unsound {
                let (first, last) = (block * 256, block * 256 + 255);
                show::line(&format!(
                    "! block {block} (entries {first} to {last}) did not match the ledger and was rebuilt"
                ))?;
            }
        }
        Ok(exit::OK)
    }
}
