//! The folders of `[paths]`, and the objects that cases name by them.

use crate::policy::request::question::Resource;
use crate::tools::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders of `[paths]`, by their names without `@`.
pub type Folders = BTreeMap<String, NamedFolder>;

/// A folder of `[paths]`, as written and resolved.
#[derive(Clone, Debug)]
pub struct NamedFolder {
    /// As written.
    pub lexical: PathBuf,
    /// Without links; as written if the folder does not exist.
    pub real: PathBuf,
}

/// `@logs/syslog` with the real path of the folder.
pub(in crate::policy) fn expand(words: &str, folders: &Folders) -> Result<String, String> {
    let path = match words.strip_prefix('@') {
        None => words.to_owned(),
        Some(rest) => {
            let (name, below) =
                rest.split_once('/').map_or((rest, None), |(name, below)| (name, Some(below)));
            let folder = folders.get(name).ok_or_else(|| format!("`[paths]` has no `{name}`"))?;
            let folder = folder.lexical.display();
            below.map_or_else(|| folder.to_string(), |below| format!("{folder}/{below}"))
        }
    };
    let is_plain = path == "/"
        || path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(|name| !matches!(name, "" | "." | "..")));
    if is_plain {
        Ok(path)
    } else {
        Err(format!("`{words}` is neither a plain absolute path nor below a name of `[paths]`"))
    }
}

/// Where prepare would find `path`, if the only links on its way are those to a folder of
/// `[paths]`.
pub(in crate::policy) fn place(
    path: &str,
    manifest: &Manifest,
    folders: &Folders,
    named: &[String],
    within: &[String],
) -> Resource {
    let lexical = Path::new(path);
    let real = folders.values().find_map(|folder| {
        let below = lexical.strip_prefix(&folder.lexical).ok()?;
        Some(if below.as_os_str().is_empty() { folder.real.clone() } else { folder.real.join(below) })
    });
    let real = real.as_deref().unwrap_or(lexical);
    if !manifest.read.iter().any(|root| real.starts_with(root)) {
        return Resource::Outside { lexical: path.to_owned() };
    }
    let mut holds: BTreeSet<String> = within.iter().cloned().collect();
    holds.extend(named.iter().filter(|name| lexical.starts_with(name)).cloned());
    let is_in = |folder: &NamedFolder| {
        real.starts_with(&folder.real) || within.iter().any(|name| Path::new(name) == folder.lexical)
    };
    holds.extend(folders.iter().filter(|(_, folder)| is_in(folder)).map(|(name, _)| format!("@{name}")));
    let canonical = real.to_str().unwrap_or(path).to_owned();
    Resource::Path { canonical, within: holds.into_iter().collect() }
}
