//! What rules name that is not there: paths, users and keys. A rule may be written before its path
//! or its user exists, so these are notes; but a typo in a `forbid` looks the same, and leaves open
//! what it should close.

use crate::auth::known_keys;
use crate::cli::compose;
use crate::cli::init::is_shipped;
use crate::config::Config;
use crate::policy::{Bundle, NamedEntity};
use crate::types::nearest;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Entries of a folder that are compared with a name.
const ENTRIES_MAX: usize = 4_096;

/// Something that a rule names and that is not there.
pub(super) struct Missing {
    pub(super) named: NamedEntity,
    pub(super) meant: Option<String>,
}

impl Missing {
    pub(super) fn origin(&self) -> String {
        format!("{}:{}", self.named.file, self.named.line)
    }

    /// The note, after the name and its place.
    pub(super) fn words(&self, what: &str) -> String {
        let effect = if self.named.is_forbid { ", so the `forbid` covers nothing there" } else { "" };
        let meant = self.meant.as_ref().map(|meant| format!(": did you mean `{meant}`?"));
        format!("`{}` {what}{effect}{}", self.named.id, meant.unwrap_or_default())
    }
}

/// Absolute paths of rules that do not exist. A shipped file that is unchanged is left out: it
/// names what is not on every host.
pub(super) fn absent_paths(bundle: &Bundle) -> Vec<Missing> {
    let own = |named: &NamedEntity| {
        !bundle.file_text(&named.file).is_some_and(|text| is_shipped(&named.file, text))
    };
    let absolute = bundle.entities_named("Path").into_iter().filter(|named| named.id.starts_with('/'));
    let absent = |named: &NamedEntity| {
        std::fs::symlink_metadata(&named.id).is_err_and(|e| e.kind() == ErrorKind::NotFound)
    };
    absolute
        .filter(|named| own(named) && absent(named))
        .map(|named| Missing { meant: meant_path(Path::new(&named.id)), named })
        .collect()
}

/// The path that exists and differs from `path` in one name that is spelled alike.
fn meant_path(path: &Path) -> Option<String> {
    let there = path.ancestors().find(|above| above.is_dir())?;
    let mut below = path.strip_prefix(there).ok()?.components();
    let wrong = below.next()?.as_os_str().to_str()?;
    let entries = std::fs::read_dir(there).ok()?.take(ENTRIES_MAX);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    // The rest of the path tells names apart that are as near.
    let rest: PathBuf = below.collect();
    let with_rest = |name: &&String| there.join(name).join(&rest).symlink_metadata().is_ok();
    let whole: Vec<&String> = names.iter().filter(with_rest).collect();
    let name = nearest(wrong, whole.iter().map(|name| name.as_str()))?;
    let meant = if rest.as_os_str().is_empty() { there.join(name) } else { there.join(name).join(rest) };
    meant.to_str().map(str::to_owned)
}

/// Keys of rules that were never made, and users of rules that no key, group or user of this host
/// is. Nothing if the keys cannot be read: then it is not known.
pub(super) fn unknown_people(config: &Config, bundle: &Bundle) -> (Vec<Missing>, Vec<Missing>) {
    let Some((keys, key_users)) = known_keys(&compose::files(config)) else { return Default::default() };
    let members = config.groups.values().flatten().cloned();
    let on_host = config.os_users.iter().flat_map(|(name, user)| [format!("os:{name}"), user.user.clone()]);
    let users: BTreeSet<String> = key_users.into_iter().chain(members).chain(on_host).collect();
    let of_host = |id: &str| id.strip_prefix("os:").is_some_and(|name| compose::user(name).is_ok());
    let missing = |kind: &str, known: &BTreeSet<String>| {
        let unknown = bundle.entities_named(kind).into_iter();
        let unknown = unknown.filter(|named| !known.contains(&named.id) && !of_host(&named.id));
        let meant =
            |named: &NamedEntity| nearest(&named.id, known.iter().map(String::as_str)).map(str::to_owned);
        unknown.map(|named| Missing { meant: meant(&named), named }).collect()
    };
    (missing("User", &users), missing("ApiKey", &keys))
}
