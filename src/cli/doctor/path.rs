//! `par doctor path`: which layer refuses a path, for each tool.

use super::question::{PathQuestion, sample};
use super::rights;
use crate::auth::{Role, Subject};
use crate::call::{FileKind, Object, PathObject};
use crate::cli::exit::{self, Fail};
use crate::cli::policy::{key_subject, resource, role_subject};
use crate::cli::table::{Cell, Column, Screen, Sheet};
use crate::cli::{compose, key, show};
use crate::config::Config;
use crate::gate::{Rules, UNNAMED_CHILD};
use crate::launcher::{Report, Spec};
use crate::policy::{Resource, Ruling};
use crate::sandbox::{self, Launcher, PrepareError};
use crate::tools::{Manifest, ResourceSpec, ValidCall};
use crate::types::text;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct Of {
    /// File or folder to check
    path: PathBuf,
    /// Decide as for this key (its id or name) or for this role
    #[arg(long = "as", value_name = "KEY", default_value = "operator")]
    who: String,
}

/// What each layer says for one tool.
struct ToolRow {
    tool: String,
    /// The folder of its manifest that contains the path.
    root: Option<PathBuf>,
    unix: Unix,
    answer: Ruling,
    /// Paths inside the folder that a call leaves out.
    left_out: Vec<String>,
}

/// What the tool's user may do with the object, according to the sandbox.
enum Unix {
    /// The path is in none of the tool's folders.
    NotAsked,
    MayRead,
    /// The path does not exist.
    Absent,
    MayNotRead,
    /// The sandbox refuses to prepare such a call.
    Refused(String),
}

impl Of {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let path = std::path::absolute(&self.path).map_err(Fail::usage)?;
        let path = path.to_str().ok_or_else(|| Fail::usage("the path is not UTF-8"))?.to_owned();
        // First, while this process has one thread.
        let seed = sandbox::start(&Spec::from_config(config)).map_err(Fail::failed)?;
        let report = seed.report().clone();
        let rules = compose::load_unproven(config)?;
        let subject = subject(config, &self.who)?;
        let looked = compose::runtime()?.block_on(async {
            let launcher = seed.connect().map_err(Fail::failed)?;
            let mut looked = Vec::new();
            for manifest in rules.catalog.manifests() {
                if let ResourceSpec::Path { argument } = &manifest.resource {
                    match sample(&rules, manifest, argument, &path) {
                        Ok(call) => looked.push((look(&launcher, config, &rules, &call).await, call)),
                        Err(why) => {
                            show::note(&format!("par: `{}` is left out: {}", manifest.name, why.reason))
                        }
                    }
                }
            }
            Ok::<_, Fail>(looked)
        })?;
        let asked = PathQuestion { config, rules: &rules, subject: &subject };
        let rows = looked.into_iter().map(|(object, call)| asked.row(&call, object));
        let rows = rows.collect::<Result<Vec<ToolRow>, Fail>>()?;
        let writers: Vec<(&str, PathBuf)> =
            rules.catalog.manifests().flat_map(|m| writes(m, &path)).collect();
        if is_json {
            rows.iter().try_for_each(|row| show::json(&row.json(&report)))?;
        } else {
            print(&rows, &writers, &report)?;
            let closed = rows.iter().filter(|row| matches!(row.unix, Unix::MayNotRead));
            let closed = closed.filter_map(|row| rules.catalog.find(&row.tool).map(|tool| &**tool));
            let mends = rights::mends(config, closed, Path::new(&path));
            mends.iter().try_for_each(|mend| show::line(&format!("  {mend}")))?;
        }
        let says = |is: fn(&ToolRow) -> bool| rows.iter().any(is);
        Ok(match () {
            () if says(|row| row.refused_by().is_none() && matches!(row.answer, Ruling::Allow { .. })) => {
                exit::OK
            }
            () if says(|row| row.refused_by().is_none()) => exit::WAITING,
            () => exit::DENIED,
        })
    }
}

/// The subject: an existing key, or a role.
fn subject(config: &Config, who: &str) -> Result<Subject, Fail> {
    match Role::parse(who) {
        Some(role) => Ok(role_subject(role)),
        None => key_subject(&key::find(config, who)?),
    }
}

/// What the sandbox finds with the rights of the tool.
async fn look(
    launcher: &Launcher,
    config: &Config,
    rules: &Rules,
    call: &ValidCall,
) -> Result<Object, PrepareError> {
    let places =
        config.paths.values().map(|path| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    let places = places.filter_map(|path| path.to_str().map(str::to_owned));
    let named = rules.bundle.named().iter().cloned().chain(places).collect();
    launcher.look(call.manifest(), call.canonical(), named).await
}

impl PathQuestion<'_> {
    fn row(&self, call: &ValidCall, object: Result<Object, PrepareError>) -> Result<ToolRow, Fail> {
        let manifest = call.manifest();
        let seen = resource(self.config, call);
        let real = match &seen {
            Resource::Path { canonical, .. } | Resource::Outside { lexical: canonical } => {
                Path::new(canonical)
            }
            Resource::Fixed { .. } | Resource::Id { .. } => {
                return Err(Fail::failed("the tool does not take a path"));
            }
        };
        // The sandbox may see further than the caller.
        let real = match &object {
            Ok(Object::Path(path)) => Path::new(&path.canonical),
            _ => real,
        };
        let root = manifest.read.iter().find(|root| real.starts_with(root)).cloned();
        let is_folder = matches!(&object, Ok(Object::Path(path)) if path.kind == FileKind::Folder);
        let reads_below = manifest.recursive && is_folder;
        let (unix, about, beneath) = match (object, &root) {
            (Ok(Object::Path(path)), _) => {
                let about = self.path(manifest, &path.canonical, &path.within);
                (Unix::MayRead, about, beneath(&path))
            }
            (Ok(Object::Absent { .. }), Some(_)) => (Unix::Absent, seen.clone(), Vec::new()),
            (Ok(_), Some(_)) => (Unix::MayNotRead, seen.clone(), Vec::new()),
            (Err(why), Some(_)) => (Unix::Refused(why.to_string()), seen.clone(), Vec::new()),
            (_, None) => (Unix::NotAsked, seen.clone(), Vec::new()),
        };
        let allows = |answer: &Ruling| matches!(answer, Ruling::Allow { .. });
        let in_folder = |canonical: &str, within: &[String]| {
            self.ask(call, &self.path(manifest, &format!("{canonical}/{UNNAMED_CHILD}"), within))
        };
        let mut answer = self.ask(call, &about);
        if let (Resource::Path { canonical, within }, true) = (&about, reads_below && allows(&answer)) {
            answer = in_folder(canonical, within);
        }
        let is_left_out = |(canonical, within): &(String, Vec<String>)| {
            let itself = self.ask(call, &self.path(manifest, canonical, within));
            !allows(&itself) || !allows(&in_folder(canonical, within))
        };
        let left_out = beneath.into_iter().filter(is_left_out).map(|(canonical, _)| canonical).collect();
        Ok(ToolRow { tool: manifest.name.clone(), root, unix, answer, left_out })
    }

    /// A path as policies see it: with the `@names` that contain it, or outside.
    fn path(&self, manifest: &Manifest, canonical: &str, within: &[String]) -> Resource {
        if !manifest.read.iter().any(|root| Path::new(canonical).starts_with(root)) {
            return Resource::Outside { lexical: canonical.to_owned() };
        }
        let holds = |folder: &PathBuf| {
            let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
            Path::new(canonical).starts_with(&real) || within.iter().any(|name| Path::new(name) == real)
        };
        let names: &BTreeMap<String, PathBuf> = &self.config.paths;
        let names = names.iter().filter(|(_, folder)| holds(folder)).map(|(name, _)| format!("@{name}"));
        Resource::Path {
            canonical: canonical.to_owned(),
            within: within.iter().cloned().chain(names).collect(),
        }
    }
}

fn beneath(path: &PathObject) -> Vec<(String, Vec<String>)> {
    path.beneath.iter().map(|one| (one.canonical.clone(), one.within.clone())).collect()
}

/// Folders that the tool may change and that contain `path`.
fn writes<'a>(manifest: &'a Manifest, path: &str) -> Vec<(&'a str, PathBuf)> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let roots = manifest.write.iter().filter(|root| real.starts_with(&root.folder));
    roots.map(|root| (manifest.name.as_str(), root.folder.clone())).collect()
}

impl ToolRow {
    /// The layer that refuses first; `None` if none refuses or a person may still approve.
    fn refused_by(&self) -> Option<&'static str> {
        match (&self.unix, &self.answer) {
            (Unix::NotAsked, _) => Some("manifest"),
            (Unix::MayNotRead, _) => Some("unix rights"),
            (Unix::Refused(_), _) => Some("sandbox"),
            (Unix::Absent, _) => Some("nothing is there"),
            (Unix::MayRead, Ruling::Deny { .. }) => Some("policy"),
            (Unix::MayRead, Ruling::Allow { .. } | Ruling::NeedsApproval { .. }) => None,
        }
    }

    fn cells(&self, user: &str) -> Vec<Cell> {
        let unix = match &self.unix {
            Unix::NotAsked => "not asked".to_owned(),
            Unix::MayRead => "may read".to_owned(),
            Unix::Absent => "not there".to_owned(),
            Unix::MayNotRead => format!("{user} may not read"),
            Unix::Refused(reason) => reason.clone(),
        };
        let by = match self.answer.policies() {
            [] => "default".to_owned(),
            some => some.join(", "),
        };
        let root =
            self.root.as_ref().map_or_else(|| "in no folder".to_owned(), |root| root.display().to_string());
        let policy = format!("{} by {by}", self.answer.word());
        let first = self.refused_by().unwrap_or("–").to_owned();
        [self.tool.clone(), root, unix, policy, first].map(|cell| text::visible_line(&cell).into()).into()
    }

    fn json(&self, report: &Report) -> Value {
        let unix = match &self.unix {
            Unix::NotAsked => "not_asked",
            Unix::MayRead => "may_read",
            Unix::Absent => "absent",
            Unix::MayNotRead => "may_not_read",
            Unix::Refused(_) => "refused",
        };
        let reason = if let Unix::Refused(reason) = &self.unix { Some(reason) } else { None };
        json!({
            "tool": self.tool, "root": self.root, "unix": unix, "unix_user": user(report), "unix_reason": reason,
            "decision": self.answer.word(), "policies": self.answer.policies(),
            "left_out": self.left_out, "refused_by": self.refused_by(),
        })
    }
}

/// The user that tools run as.
fn user(report: &Report) -> &str {
    report.layers.iter().find(|layer| layer.starts_with("uid ")).map_or("this user", String::as_str)
}

fn print(rows: &[ToolRow], writers: &[(&str, PathBuf)], report: &Report) -> Result<(), Fail> {
    let mut table = Sheet::new(&[
        Column::Whole("tool"),
        Column::Cut("manifest"),
        Column::Words("unix rights"),
        Column::Words("policy"),
        Column::Words("refused by"),
    ]);
    rows.iter().for_each(|row| table.push(row.cells(user(report))));
    table.print(&Screen::stdout())?;
    for row in rows {
        for path in &row.left_out {
            show::line(&format!("  {} leaves out {}", row.tool, text::visible_line(path)))?;
        }
    }
    writers.iter().try_for_each(|(tool, folder)| {
        let folder = text::visible_line(&folder.display().to_string());
        show::line(&format!(
            "  {tool} may change files in {folder}: policies decide on its resource, not on the path"
        ))
    })
}
