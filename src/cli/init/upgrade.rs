//! `par init --upgrade`: brings the shipped files of an edited home up to date.

use super::files::make_folder;
use super::people::People;
use super::record::{self, ShippedRecord};
use super::shipped::shipped;
use super::unified::unified;
use crate::cli::exit::{self, Fail};
use crate::cli::new::Added;
use crate::cli::{compose, show};
use crate::config::{Config, Home};
use crate::policy::CaseFailure;
use crate::rules;
use crate::types::{Digest, text};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What is to be done with one shipped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShippedChange {
    /// This version ships it first: it is added.
    Add,
    /// It is as an earlier version shipped it: it is replaced.
    Update,
    /// It was edited, and this version ships another: the difference is shown.
    Differ,
    /// It was removed: it stays away.
    Removed,
    /// It is not there, and the home does not know whether it ever was: it is not added.
    Unknown,
    /// Edited here, and named to be replaced.
    Replace,
    /// Nothing.
    Current,
}

impl ShippedChange {
    fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Differ => "differs",
            Self::Removed => "removed",
            Self::Unknown => "absent",
            Self::Current => "current",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Add => "new in this version",
            Self::Update => "as shipped before; this version ships another",
            Self::Replace => "edited here; `--restore` takes the shipped file in its place",
            Self::Differ => "edited here, and this version ships another: take over what you want by hand",
            Self::Removed => "removed here, so it stays away; `--restore` adds it again",
            Self::Unknown => "not here, and this home has no record of it; `--restore` adds it",
            Self::Current => "",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Add | Self::Update | Self::Replace)
    }
}

/// One shipped file in this home.
struct ShippedFile {
    name: &'static str,
    text: &'static str,
    /// Where it is: a tool or a rule may have been switched on or off by renaming its file.
    path: PathBuf,
    /// The text there, if the file exists.
    here: Option<String>,
    change: ShippedChange,
}

/// Shows what an upgrade changes, and with `apply` does it.
pub(super) fn upgrade(home: &Home, restore: &[String], apply: bool, is_json: bool) -> Result<u8, Fail> {
    let config = compose::load(home.clone())?;
    let record = ShippedRecord::read(home)?;
    let people = record.as_ref().map_or_else(|| People::of_home(home), |record| record.people);
    let files = shipped(people);
    if let Some(unknown) = restore.iter().find(|name| !files.iter().any(|(known, _)| known == name)) {
        return Err(Fail::usage(format!(
            "`--restore {}`: no file of that name is shipped",
            text::visible_line(unknown)
        )));
    }
    let files = files
        .into_iter()
        .map(|(name, text)| ShippedFile::find(home, record.as_ref(), name, text, restore))
        .collect::<Result<Vec<_>, _>>()?;
    let left = if apply { write(&config, &files, people, record.as_ref())? } else { Vec::new() };
    print(home, &files, apply, &left, is_json)?;
    if left.is_empty() {
        return Ok(exit::OK);
    }
    let reasons = rules::case_reasons(&left).join("\npar: ");
    Err(Fail::rules(format!(
        "{reasons}\npar: what was shipped is written, and the cases above still fail: they are yours to mend, and \
         nothing is loaded until then. Change or remove each, or grant its tool again what it asks for, such as \
         a folder in `read` of the tool's manifest"
    )))
}

/// Writes the files and returns the cases that still fail.
///
/// A home that works is not made one that is refused. One that is refused already may stay so
/// because of cases in other files, or there would be no way out of it.
fn write(
    config: &Config,
    files: &[ShippedFile],
    people: People,
    before: Option<&ShippedRecord>,
) -> Result<Vec<CaseFailure>, Fail> {
    let was_refused = !rules::failing_cases(config).is_ok_and(|failures| failures.is_empty());
    let mut added = Added::default();
    for file in files.iter().filter(|file| file.change.writes()) {
        // A home of an earlier version has fewer folders.
        if let Some(folder) = file.path.parent() {
            make_folder(folder, 0o755).map_err(|e| Fail::failed(format!("{}: {e}", folder.display())))?;
        }
        match file.here {
            None => added.make(&file.path, file.text)?,
            Some(_) => added.change(&file.path, file.text)?,
        }
    }
    let written: Vec<&str> = files.iter().filter(|file| file.change.writes()).map(|file| file.name).collect();
    let is_others = |failure: &CaseFailure| !written.contains(&failure.place.file.as_str());
    let left = match rules::failing_cases(config) {
        Ok(left) if left.is_empty() => left,
        Ok(left) if was_refused && !written.is_empty() && left.iter().all(is_others) => left,
        Ok(left) => return Err(nothing_written(&rules::case_reasons(&left))),
        Err(e) => return Err(nothing_written(&e.0)),
    };
    let entries = files.iter().filter_map(|file| {
        let digest = match file.change {
            // What was shipped then: the difference stays until the file has it.
            ShippedChange::Differ | ShippedChange::Removed => {
                before.and_then(|record| record.digest(file.name))
            }
            ShippedChange::Unknown => None,
            ShippedChange::Add | ShippedChange::Update | ShippedChange::Replace | ShippedChange::Current => {
                Some(Digest::sha256(file.text.as_bytes()))
            }
        };
        digest.map(|digest| (file.name.to_owned(), digest))
    });
    let record = ShippedRecord { people, digests: entries.collect() };
    let path = record::path(&config.home);
    match path.exists() {
        true => added.change(&path, &record.text())?,
        false => added.make(&path, &record.text())?,
    }
    drop(added.keep());
    Ok(left)
}

fn nothing_written(reasons: &[String]) -> Fail {
    Fail::usage(format!(
        "{}\npar: nothing was upgraded: every file is as it was. `--restore FILE` takes a shipped file in place of \
         yours; a case of your own that does not hold with it has to be changed or removed first",
        reasons.join("\npar: ")
    ))
}

fn print(
    home: &Home,
    files: &[ShippedFile],
    apply: bool,
    left: &[CaseFailure],
    is_json: bool,
) -> Result<(), Fail> {
    let etc = home.etc.display();
    let difference = |file: &ShippedFile| match (file.change, &file.here) {
        (ShippedChange::Differ | ShippedChange::Replace, Some(here)) => {
            unified(&normal(file.name, here), file.text)
        }
        _ => String::new(),
    };
    if is_json {
        let list = files.iter().map(|file| {
            json!({ "file": file.name, "path": file.path, "state": file.change.as_str(),
                    "written": apply && file.change.writes(), "difference": difference(file) })
        });
        let (files, left) = (list.collect::<Vec<Value>>(), rules::case_reasons(left));
        return show::json(&json!({ "applied": apply, "files": files, "failing": left }));
    }
    let shown: Vec<&ShippedFile> =
        files.iter().filter(|file| file.change != ShippedChange::Current).collect();
    for file in &shown {
        show::line(&format!("{:<8} {:<40} {}", file.change.as_str(), file.name, file.change.meaning()))?;
        let hunks = difference(file);
        if !hunks.is_empty() {
            show::line(&format!("--- {}\n+++ shipped {}", file.path.display(), file.name))?;
            text::visible(hunks.trim_end()).lines().try_for_each(show::line)?;
        }
    }
    let writes = shown.iter().filter(|file| file.change.writes()).count() as u64;
    let files = show::counted(writes, "file");
    match (writes, apply) {
        (0, _) => show::line(&format!("{etc}: nothing to write")),
        (_, true) => show::line(&format!("{etc}: {files} written; `par reload` if a server runs")),
        (_, false) => {
            show::line(&format!("{etc}: {files} to write; `par init --upgrade --apply` writes them"))
        }
    }
}

impl ShippedFile {
    fn find(
        home: &Home,
        record: Option<&ShippedRecord>,
        name: &'static str,
        text: &'static str,
        restore: &[String],
    ) -> Result<Self, Fail> {
        let switched =
            name.strip_suffix(".disabled").map_or_else(|| format!("{name}.disabled"), str::to_owned);
        let [own, switched] = [home.etc.join(name), home.etc.join(switched)];
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let there = if is_there(&own) { Some(&own) } else { Some(&switched).filter(|path| is_there(path)) };
        let path = there.unwrap_or(&own).clone();
        let here = there.map(std::fs::read_to_string).transpose();
        let here = here.map_err(|e| Fail::failed(format!("{}: {e}", path.display())))?;
        let then = record.and_then(|record| record.digest(name));
        let now = Digest::sha256(text.as_bytes());
        let is_named = restore.iter().any(|one| one == name);
        let change = match &here {
            Some(here) => {
                let here = normal(name, here);
                let digest = Digest::sha256(here.as_bytes());
                match then {
                    _ if digest == now => ShippedChange::Current,
                    // The configuration is a person's: it is never replaced.
                    Some(then) if digest == then && name != "par.toml" => ShippedChange::Update,
                    _ if is_named && name != "par.toml" => ShippedChange::Replace,
                    Some(then) if then == now => ShippedChange::Current,
                    _ => ShippedChange::Differ,
                }
            }
            None if is_named => ShippedChange::Add,
            None if then.is_some() => ShippedChange::Removed,
            None if record.is_some() => ShippedChange::Add,
            None => ShippedChange::Unknown,
        };
        Ok(Self { name, text, path, here, change })
    }
}

/// The text of a file without what `par init` itself wrote into it: the sandbox level.
fn normal(name: &str, text: &str) -> String {
    let is_level = |line: &str| line.starts_with("minimum = \"");
    match name {
        "par.toml" => text
            .split_inclusive('\n')
            .map(|line| if is_level(line) { "minimum = \"\"\n" } else { line })
            .collect(),
        _ => text.to_owned(),
    }
}
