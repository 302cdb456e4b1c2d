//! `par policy fmt`.

use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::Config;
use crate::policy::{SourceFile, formatted};
use crate::rules;
use clap::Args;
use serde_json::json;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

#[derive(Debug, Args)]
pub(in crate::cli) struct Fmt {
    /// Write nothing; list the files that need formatting and exit with 1 if there are any
    #[arg(long)]
    check: bool,
}

impl Fmt {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let folder = config.home.etc.join("policies");
        let sources = rules::policy_sources(config).map_err(Fail::usage)?;
        // All files are parsed before any is written: one that is not Cedar stops the command.
        let mut changed: Vec<(&SourceFile, String)> = Vec::new();
        for source in &sources {
            let text = formatted(source).map_err(Fail::usage)?;
            if text != source.text {
                changed.push((source, text));
            }
        }
        for (source, text) in changed.iter().filter(|_| !self.check) {
            let path = folder.join(source.name.trim_start_matches("policies/"));
            replace(&path, text.as_bytes()).map_err(|e| Fail::failed(format!("{}: {e}", path.display())))?;
        }
        let names: Vec<&str> = changed.iter().map(|(source, _)| source.name.as_str()).collect();
        if is_json {
            show::json(&json!({ "changed": names, "written": !self.check }))?;
        } else {
            names.iter().try_for_each(|name| show::line(name))?;
        }
        Ok(if self.check && !names.is_empty() { exit::FAILED } else { exit::OK })
    }
}

/// Replaces the file with `bytes` atomically, and keeps its owner and mode.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A symbolic link would lead the write to a file outside the folder.
    let meta = std::fs::symlink_metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let fresh = path.with_extension("cedar.par-new");
    let written = write_fresh(&fresh, bytes, &meta).and_then(|()| std::fs::rename(&fresh, path));
    if written.is_err() {
        // A leftover is not loaded as a policy: its name does not end in `.cedar`.
        let _gone = std::fs::remove_file(&fresh);
        return written;
    }
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn write_fresh(fresh: &Path, bytes: &[u8], meta: &std::fs::Metadata) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(fresh)?;
    file.write_all(bytes)?;
    if (meta.uid(), meta.gid()) != (file.metadata()?.uid(), file.metadata()?.gid()) {
        std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(meta.mode() & 0o7777))?;
    file.sync_all()
}
