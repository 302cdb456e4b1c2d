//! Checks that tools may read what their manifests grant and policies permit: what they may not
//! read, a search passes over.
//!
//! # Layout
//!
//! * `reader`: whether a user may read a path
//! * `tools_user`: the user that tools run as, and how it gets a group

mod reader;
mod tools_user;

use super::check::Checks;
use super::question::{PathQuestion, sample};
use crate::auth::Role;
use crate::cli::policy::{resource, role_subject};
use crate::cli::show;
use crate::config::Config;
use crate::gate::Rules;
use crate::policy::Ruling;
use crate::tools::{Builtin, CodeTree, Manifest, ResourceSpec, Runner};
use crate::types::text;
use reader::{Closed, UserRights};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tools_user::ToolsUser;

const CHECK: &str = "unix rights";
/// How far below a granted folder files are examined.
const DEPTH_MAX: usize = 2;
/// Paths examined below one granted folder.
const PATHS_MAX: usize = 2_000;
/// Paths named on one line.
const NAMED_MAX: usize = 12;

/// Names each path that a tool is granted and may not read, with what mends it.
pub(super) fn examine(config: &Config, rules: &Rules, checks: &mut Checks) {
    let Some(user) = ToolsUser::of(config) else { return };
    for (group, why) in user.shared_and_refused() {
        checks.warn(CHECK, format!("all tools are in the group {group}, which {why}"));
    }
    let mut closed: BTreeMap<PathBuf, (Option<u32>, Vec<&str>)> = BTreeMap::new();
    for manifest in rules.catalog.manifests() {
        for (path, Closed { group }) in unreadable(manifest, &user.reader(manifest)) {
            if is_permitted(config, rules, manifest, &path) {
                closed.entry(path).or_insert((group, Vec::new())).1.push(&manifest.name);
            }
        }
    }
    if closed.is_empty() {
        return checks.ok(CHECK, format!("{} may read what tools are granted", user.name));
    }
    // One line for what one change mends.
    let mut mends: BTreeMap<(Option<u32>, Vec<&str>), Vec<PathBuf>> = BTreeMap::new();
    for (path, what) in closed {
        mends.entry(what).or_default().push(path);
    }
    for ((group, tools), paths) in mends {
        let name = group.map(|gid| user.group(gid));
        let by = name.as_ref().map_or_else(String::new, |name| format!(" (group {name})"));
        let list = paths.iter().take(NAMED_MAX).map(|path| path.display().to_string());
        let more = paths.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        checks.warn(
            CHECK,
            format!(
                "the user `{}` has no right to read {} that {} may be asked for: {}{more}{by}: {}",
                user.name,
                show::counted(paths.len() as u64, "path"),
                tools.join(", "),
                list.collect::<Vec<_>>().join(", "),
                user.mend(name.as_deref(), &tools)
            ),
        );
    }
}

/// What would let the tools of `manifests` read `path`, one line for each change.
pub(super) fn mends<'a>(
    config: &Config,
    manifests: impl Iterator<Item = &'a Manifest>,
    path: &Path,
) -> Vec<String> {
    let Some(user) = ToolsUser::of(config) else { return Vec::new() };
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut closed: BTreeMap<Option<u32>, Vec<&str>> = BTreeMap::new();
    for manifest in manifests {
        let reader = user.reader(manifest);
        let above = real.ancestors().skip(1).find_map(|folder| reader.enters(folder).err());
        if let Some(Closed { group }) = above.or_else(|| reader.examine(&real).err()) {
            closed.entry(group).or_default().push(&manifest.name);
        }
    }
    let line = |(group, tools): (Option<u32>, Vec<&str>)| {
        let name = group.map(|gid| user.group(gid));
        text::visible_line(&user.mend(name.as_deref(), &tools))
    };
    closed.into_iter().map(line).collect()
}

/// The paths that the tool is granted and may not read. Below a folder that is closed, nothing is
/// looked at.
fn unreadable(manifest: &Manifest, reader: &UserRights) -> Vec<(PathBuf, Closed)> {
    let mut found = Vec::new();
    // These open folders, and of a file they need only its size.
    let lists_only = matches!(manifest.runner, Runner::Builtin(Builtin::ListDir | Builtin::LargestPaths));
    let code = manifest.trees.iter().map(CodeTree::path);
    for root in manifest.read.iter().map(PathBuf::as_path).chain(code) {
        let above = root.ancestors().skip(1).find_map(|folder| Some((folder, reader.enters(folder).err()?)));
        if let Some((folder, closed)) = above {
            found.push((folder.to_owned(), closed));
            continue;
        }
        let mut left = PATHS_MAX;
        let mut next = vec![(root.to_owned(), 0)];
        while let Some((path, depth)) = next.pop() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(1);
            let is_folder = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
            if lists_only && !is_folder {
                continue;
            }
            if let Err(closed) = reader.examine(&path) {
                found.push((path, closed));
                continue;
            }
            if is_folder && depth < DEPTH_MAX {
                let items = std::fs::read_dir(&path).into_iter().flatten().flatten();
                next.extend(items.map(|item| (item.path(), depth + 1)));
            }
        }
    }
    found
}

/// Whether the rules let an operator use the tool there. A path that they deny need not be
/// readable.
fn is_permitted(config: &Config, rules: &Rules, manifest: &Manifest, path: &Path) -> bool {
    let ResourceSpec::Path { argument } = &manifest.resource else { return true };
    let Some(path) = path.to_str() else { return true };
    let Ok(call) = sample(rules, manifest, argument, path) else { return true };
    let subject = role_subject(Role::Operator);
    let asked = PathQuestion { config, rules, subject: &subject };
    !matches!(asked.ask(&call, &resource(config, &call)), Ruling::Deny { .. })
}
