//! `par backup`: copies a home without the signing keys.

use super::copy::{copy_file, copy_tree, copy_tree_without, digests, folder, write_new};
use super::list::{FORMAT, LIST, List};
use crate::cli::exit::{self, Fail};
use crate::cli::{audit, compose, show};
use crate::config::Config;
use crate::ledger::{self, Files, Reader};
use crate::types::clock::Wall;
use crate::types::text;
use clap::Args;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct Backup {
    /// Folder to write to, which must not exist yet
    folder: PathBuf,
}

impl Backup {
    /// Copies a home, even while a server runs: etc/ without the keys of models, and from data/ the
    /// ledger, the bundles and the pepper. It omits the signing keys, state.db, which is rebuilt,
    /// and workspace/.
    pub(in crate::cli) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let at = |e: io::Error| Fail::failed(format!("{}: {e}", self.folder.display()));
        DirBuilder::new().mode(0o700).create(&self.folder).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Fail::usage(format!(
                "{} exists already, and a backup never changes one that was made before: name a new folder",
                self.folder.display()
            )),
            _ => at(e),
        })?;
        let (data, to) = (&config.home.data, self.folder.join("data"));
        folder(&to, 0o700).map_err(at)?;
        // Keys of models are not evidence, and are made again by a login.
        copy_tree_without(&config.home.etc, &self.folder.join("etc"), Some(&config.home.credentials()))
            .map_err(Fail::failed)?;
        if data.join("bundles").is_dir() {
            copy_tree(&data.join("bundles"), &to.join("bundles")).map_err(Fail::failed)?;
        }
        if data.join("before").is_dir() {
            copy_tree(&data.join("before"), &to.join("before")).map_err(Fail::failed)?;
        }
        copy_file(&data.join("pepper"), &to.join("pepper")).map_err(Fail::failed)?;
        ledger::copy(&compose::files(config), &to).map_err(Fail::failed)?;
        let report = ledger::audit(&Files::below(&to), &compose::PROJECTIONS, &[]);
        if !report.verdict.holds() {
            audit::summary(&report).iter().try_for_each(|line| show::line(line))?;
            return Err(Fail::new(
                exit::UNVERIFIED,
                "the copy does not verify, so it is not a backup: run `par audit verify`",
            ));
        }
        let reader = Reader::open(&Files::below(&to).ledger()).map_err(Fail::failed)?;
        let log =
            reader.entry(0).map_err(Fail::failed)?.map(|genesis| genesis.header.log).unwrap_or_default();
        let list = List {
            t: FORMAT.to_owned(),
            log,
            size: report.entries,
            root: report.root.clone(),
            made_s: Wall::now().0 / 1_000_000,
            program: crate::types::VERSION.to_owned(),
            files: digests(&self.folder).map_err(at)?,
        };
        write_new(&self.folder.join(LIST), &serde_json::to_vec_pretty(&list).map_err(Fail::failed)?)
            .map_err(at)?;
        if is_json {
            show::json(&list)?;
        } else {
            let (files, root) = (list.files.len(), text::prefix(&list.root, 16));
            show::line(&format!(
                "{}: {} entries of par/{}, root {root}, in {files} files",
                self.folder.display(),
                list.size,
                list.log
            ))?;
            show::line(
                "  without the signing keys: a restore begins a new log. workspace/ is not included.",
            )?;
        }
        Ok(exit::OK)
    }
}
