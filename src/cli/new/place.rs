//! A file or folder of this host, as rules and cases name it.

use crate::cli::exit::Fail;
use crate::config::Config;
use std::path::{Path, PathBuf};

/// Items of one folder that are looked at for an example.
const LOOKED_AT_MAX: usize = 256;

/// A file or folder that exists.
pub(in crate::cli) struct FoundPlace {
    /// As it was given, without a slash at the end.
    pub(in crate::cli) written: String,
    /// The path on this host, without links.
    pub(in crate::cli) real: PathBuf,
    /// As a rule names it: the real path, or a whole name of `[paths]`.
    pub(in crate::cli) in_rule: String,
    /// Paths for cases: itself and, if it is a folder, something below it.
    pub(in crate::cli) in_cases: Vec<String>,
}

impl FoundPlace {
    /// Finds an absolute path, or `@` and a name of `[paths]` with folders below it.
    pub(in crate::cli) fn find(config: &Config, written: &str) -> Result<Self, Fail> {
        let trimmed = if written.len() > 1 { written.trim_end_matches('/') } else { written };
        let path = match trimmed.strip_prefix('@').map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
            Some((name, below)) => {
                let known = config.paths.get(name).ok_or_else(|| unknown(config, name))?;
                if below.is_empty() { known.clone() } else { known.join(below) }
            }
            None => PathBuf::from(trimmed),
        };
        if !path.is_absolute() {
            return Err(Fail::usage(format!("`{written}` is not an absolute path")));
        }
        let at = path.display();
        let real = std::fs::canonicalize(&path)
            .map_err(|e| Fail::usage(format!("`{written}`: {at}: {e}{}", mend(&e))))?;
        let is_name = trimmed.starts_with('@') && !trimmed.contains('/');
        let in_rule = if is_name { Some(trimmed.to_owned()) } else { real.to_str().map(str::to_owned) };
        let in_rule = in_rule.ok_or_else(|| Fail::usage(format!("`{written}` is not UTF-8")))?;
        let mut in_cases = vec![in_rule.clone()];
        if real.is_dir() {
            in_cases.push(format!("{in_rule}/any"));
        }
        Ok(Self { written: trimmed.to_owned(), real, in_rule, in_cases })
    }

    /// A file to try a call on: itself, or the first regular file that is found in the folder.
    pub(super) fn example(&self) -> String {
        match self.real.is_dir() {
            true => first_file(&self.real, 3).unwrap_or_else(|| self.real.join("FILE")),
            false => self.real.clone(),
        }
        .display()
        .to_string()
    }
}

/// What to do about a path that cannot be resolved.
fn mend(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            ". A rule is about what is there, because links in it are followed now: make it first, or name another \
             folder"
        }
        _ => "",
    }
}

/// The first regular file in `folder`, or in a folder at most `depth` levels below it.
fn first_file(folder: &Path, depth: usize) -> Option<PathBuf> {
    let items = std::fs::read_dir(folder).into_iter().flatten().flatten().take(LOOKED_AT_MAX);
    let kinds = items.filter_map(|item| Some((item.file_type().ok()?, item.path())));
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for (kind, path) in kinds {
        match (kind.is_file(), kind.is_dir()) {
            (true, _) => files.push(path),
            (_, true) => folders.push(path),
            _ => {}
        }
    }
    folders.sort();
    let below = || depth.checked_sub(1).and_then(|left| folders.iter().find_map(|one| first_file(one, left)));
    files.into_iter().min().or_else(below)
}

fn unknown(config: &Config, name: &str) -> Fail {
    let names: Vec<String> = config.paths.keys().map(|name| format!("`@{name}`")).collect();
    Fail::usage(format!("`@{name}` is not in `[paths]` of par.toml; the names are {}", names.join(", ")))
}
