//! Creates the folders and files of a home.

use super::people::People;
use super::record::{self, ShippedRecord};
use super::shipped::{DEMO, shipped};
use crate::cli::compose::HostUser;
use crate::cli::exit::Fail;
use crate::config::Home;
use crate::ledger::{self, Files};
use crate::{auth, launcher};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

pub(in crate::cli) fn set_owner(path: &Path, to: HostUser) -> Result<(), Fail> {
    // A symbolic link is never followed: another user may have put it there.
    std::os::unix::fs::lchown(path, Some(to.uid), Some(to.gid))
        .map_err(|e| Fail::failed(format!("{}: {e}", path.display())))
}

/// Describes on one line what was created.
pub(in crate::cli) fn made(home: &Home) -> String {
    format!(
        "Created {}: {} (par.toml, policies/, tools.d/, jobs.d/, runbooks.d/), data/ (ledger, keys), workspace/ (demo)",
        home.root.display(),
        home.etc.strip_prefix(&home.root).map_or(home.etc.display(), Path::display)
    )
}

/// Creates what is missing. Existing files stay unchanged.
pub(in crate::cli) fn make(home: &Home, people: People) -> Result<(), Fail> {
    let refuse = |path: &Path, e: io::Error| Fail::usage(format!("{}: {e}", path.display()));
    // The shipped cases test the shipped policies: next to other policies they would stop the load.
    let has_policies = home.etc.join("policies").exists();
    for (folder, mode) in [
        (home.root.clone(), 0o755),
        (home.etc.clone(), 0o755),
        (home.etc.join("policies"), 0o755),
        (home.etc.join("policies/tests"), 0o755),
        (home.etc.join("tools.d"), 0o755),
        (home.etc.join("jobs.d"), 0o755),
        (home.etc.join("runbooks.d"), 0o755),
        (home.data.clone(), 0o700),
    ] {
        make_folder(&folder, mode).map_err(|e| refuse(&folder, e))?;
    }
    make_workspace(&home.workspace).map_err(|e| refuse(&home.workspace, e))?;
    let is_apart = |name: &str| has_policies && name.starts_with("policies/tests/");
    let mut files = shipped(people);
    // Cases that stay out for that reason are recorded too: an upgrade takes them as removed.
    let record = record::path(home);
    make_file(&record, ShippedRecord::new(people, &files).text().as_bytes(), 0o644)
        .map_err(|e| refuse(&record, e))?;
    files.retain(|(name, _)| !is_apart(name));
    for (name, text) in files {
        let path = home.etc.join(name);
        make_file(&path, text.as_bytes(), 0o644).map_err(|e| refuse(&path, e))?;
    }
    let files = Files::below(&home.data);
    let (log_key, pepper) = (files.log_key(), home.data.join("pepper"));
    if !log_key.exists() {
        ledger::key::make(&log_key).map_err(|e| refuse(&log_key, e))?;
    }
    if !pepper.exists() {
        auth::make_pepper(&pepper).map_err(|e| refuse(&pepper, e))?;
    }
    Ok(())
}

/// Creates the workspace with the demo in it, owned by the user that tools run as.
///
/// An existing workspace is left alone, even if it is incomplete: tools write in it and may have
/// put a link where this process, which may be root, would follow it.
fn make_workspace(workspace: &Path) -> io::Result<()> {
    if workspace.is_dir() {
        return Ok(());
    }
    let mut made = vec![workspace.to_owned()];
    make_folder(workspace, 0o755)?;
    for (name, text) in DEMO {
        let path = workspace.join(name);
        let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            make_folder(folder, 0o755)?;
            made.push(folder.to_owned());
        }
        make_file(&path, text.as_bytes(), 0o644)?;
        made.push(path);
    }
    let Some((uid, gid)) = launcher::tool_owner() else { return Ok(()) };
    // Until now no other user could write there. The top folder changes hands last.
    made.iter().rev().try_for_each(|path| std::os::unix::fs::lchown(path, Some(uid), Some(gid)))
}

pub(super) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

fn make_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(mut file) => {
            file.write_all(bytes)?;
            file.sync_all()
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}
