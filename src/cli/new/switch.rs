//! `par tool enable` and `par tool disable`: a tool and what belongs to it are renamed.
//!
//! A file of `etc/` that ends in `.disabled` is not read. With a manifest `NAME.toml` go the policy
//! files that name no other tool, each with its cases. In the others, the policies and cases about
//! the tool alone become comments, and it is taken out of lists of tools.

use super::added::Added;
use super::parts::{ACTION, PartsOf};
use crate::auth::{Role, Source, Subject};
use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::Config;
use crate::gate::Rules;
use crate::policy::Session;
use crate::rules;
use crate::tools::{Class, check_id};
use crate::types::{KeyId, limits, nearest, text};
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The ending of a file that is off.
const OFF: &str = ".disabled";

/// A tool that was enabled or disabled.
#[derive(Debug)]
pub(in crate::cli) struct SwitchedTool {
    name: String,
    is_on: bool,
    files: Vec<PathBuf>,
    /// The roles that may call it now.
    roles: Vec<&'static str>,
    /// The policies that name it, with their places.
    policies: Vec<(String, String)>,
    risk: Option<(&'static str, &'static str)>,
}

/// Enables the tool, and checks the rules as a start would. If they do not load, nothing changes.
pub(in crate::cli) fn enable(config: &Config, name: &str) -> Result<SwitchedTool, Fail> {
    let manifest = manifest(config, name)?;
    let off = with_off(&manifest);
    if !off.is_file() {
        return Err(match manifest.is_file() {
            true => Fail::usage(format!("the tool `{name}` is enabled already")),
            false => unknown(config, name),
        });
    }
    let mut added = Added::default();
    added.rename(&off, &manifest)?;
    for file in policy_files(config, &format!("cedar{OFF}"))? {
        if actions(&read(&file)?).contains(name) {
            switch_with_cases(&mut added, &file, &without_off(&file))?;
        }
    }
    for (ending, kind) in [("cedar", PartsOf::Policies), ("toml", PartsOf::Cases)] {
        for file in policy_files(config, ending)? {
            let text = read(&file)?;
            let more = kind.with(&text, name);
            if more != text {
                added.change(&file, &more)?;
            }
        }
    }
    done(config, name, true, added)
}

/// Disables the tool, and checks the rules as a start would. If they do not load, nothing changes.
pub(in crate::cli) fn disable(config: &Config, name: &str) -> Result<SwitchedTool, Fail> {
    let manifest = manifest(config, name)?;
    if !manifest.is_file() {
        return Err(match with_off(&manifest).is_file() {
            true => Fail::usage(format!("the tool `{name}` is disabled already")),
            false => unknown(config, name),
        });
    }
    let mut added = Added::default();
    let only = BTreeSet::from([name.to_owned()]);
    for file in policy_files(config, "cedar")? {
        let text = read(&file)?;
        let actions = actions(&text);
        if actions == only {
            switch_with_cases(&mut added, &file, &with_off(&file))?;
        } else if actions.contains(name) {
            let less = PartsOf::Policies.without(&text, name);
            added.change(&file, &less)?;
        }
    }
    for file in policy_files(config, "toml")? {
        let text = read(&file)?;
        let less = PartsOf::Cases.without(&text, name);
        if less != text {
            added.change(&file, &less)?;
        }
    }
    added.rename(&manifest, &with_off(&manifest))?;
    done(config, name, false, added)
}

/// The names of the disabled tools that only read, sorted.
pub(in crate::cli) fn reading_tools_off(config: &Config) -> Result<Vec<String>, Fail> {
    let folder = config.home.etc.join("tools.d");
    let mut names: Vec<String> = Vec::new();
    for path in files(&folder, &format!("toml{OFF}"))? {
        let class = toml::from_str::<toml::Table>(&read(&path)?).ok();
        let class = class.as_ref().and_then(|manifest| manifest.get("class")?.as_str());
        if class == Some(Class::Read.as_str()) {
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".toml.disabled"));
            names.extend(name.map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

fn done(config: &Config, name: &str, is_on: bool, added: Added) -> Result<SwitchedTool, Fail> {
    let rules = rules::load_rules(config).map_err(|e| {
        Fail::usage(format!("{}\npar: nothing was changed: every file is as it was", e.0.join("\npar: ")))
    })?;
    let manifest = rules.catalog.find(name);
    let named = rules.bundle.policies().filter(|(id, _)| {
        rules.bundle.text(id).is_some_and(|text| text.contains(&format!("Action::\"{name}\"")))
    });
    let policies = named.map(|(id, origin)| (id.to_owned(), origin)).collect();
    let risk = manifest.map(|manifest| (manifest.class.as_str(), manifest.risk.as_str()));
    let roles = if is_on { roles(&rules, name) } else { Vec::new() };
    Ok(SwitchedTool { name: name.to_owned(), is_on, files: added.keep(), roles, policies, risk })
}

/// The roles that some call of the tool may be permitted to.
fn roles(rules: &Rules, name: &str) -> Vec<&'static str> {
    let session = Session {
        id: "enable".to_owned(),
        ceiling: rules.catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
        taint: BTreeSet::new(),
        seen: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 0,
        budget: i64::from(limits::CALLS_PER_RUN_MAX),
        risk: 0,
    };
    let may = |role: &Role| {
        let Some(id) = KeyId::parse("enable00") else { return false };
        let source = Source::Key { id, name: "enable".to_owned() };
        let subject = Subject { source, role: *role, user: None };
        let manifest = rules.catalog.find(name);
        manifest.is_some_and(|manifest| rules.bundle.may_offer(&subject, &session, manifest))
    };
    Role::ALL.into_iter().filter(may).map(Role::as_str).collect()
}

/// Renames a policy file, and its cases if they are there.
fn switch_with_cases(added: &mut Added, from: &Path, to: &Path) -> Result<(), Fail> {
    added.rename(from, to)?;
    let cases = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().replace(".cedar", ".toml");
        path.with_file_name("tests").join(name)
    };
    let (from, to) = (cases(from), cases(to));
    if from.is_file() { added.rename(&from, &to) } else { Ok(()) }
}

fn manifest(config: &Config, name: &str) -> Result<PathBuf, Fail> {
    if check_id(name).is_err() {
        return Err(Fail::usage(format!("`{}` is not the name of a tool", text::visible_line(name))));
    }
    Ok(config.home.etc.join(format!("tools.d/{name}.toml")))
}

fn unknown(config: &Config, name: &str) -> Fail {
    let folder = config.home.etc.join("tools.d");
    let mut known: Vec<String> = Vec::new();
    for path in files(&folder, "toml").into_iter().chain(files(&folder, &format!("toml{OFF}"))).flatten() {
        let name = path.file_name().and_then(|name| name.to_str()?.split('.').next());
        known.extend(name.map(str::to_owned));
    }
    let meant = nearest(name, known.iter().map(String::as_str));
    let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
    Fail::usage(format!("no tool is named `{name}`{meant}"))
}

/// The files of policies or of their cases with this ending, sorted.
fn policy_files(config: &Config, ending: &str) -> Result<Vec<PathBuf>, Fail> {
    let folder = config.home.etc.join("policies");
    let folder = if ending == "toml" { folder.join("tests") } else { folder };
    files(&folder, ending)
}

fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, Fail> {
    let ending = format!(".{ending}");
    let mut found = Vec::new();
    if folder.is_dir() {
        let items =
            std::fs::read_dir(folder).map_err(|e| Fail::failed(format!("{}: {e}", folder.display())))?;
        let paths = items.flatten().map(|item| item.path());
        let is_wanted = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(&ending))
        };
        found.extend(paths.filter(is_wanted));
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, Fail> {
    std::fs::read_to_string(path).map_err(|e| Fail::failed(format!("{}: {e}", path.display())))
}

fn with_off(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OFF);
    name.into()
}

fn without_off(path: &Path) -> PathBuf {
    path.with_extension("")
}

/// The tools and powers that a policy file names.
fn actions(text: &str) -> BTreeSet<String> {
    let names = text.split(ACTION).skip(1).filter_map(|rest| rest.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

impl SwitchedTool {
    /// Shows what was renamed and what the tool now allows.
    pub(in crate::cli) fn print(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let shown =
            |path: &PathBuf| path.strip_prefix(&config.home.root).unwrap_or(path).display().to_string();
        let files: Vec<String> = self.files.iter().map(shown).collect();
        if is_json {
            let policies: Map<String, _> =
                self.policies.iter().map(|(id, origin)| (id.clone(), json!(origin))).collect();
            let (class, risk) = self.risk.unzip();
            show::json(&json!({ "tool": self.name, "enabled": self.is_on, "files": files, "class": class,
                                "risk": risk, "roles": self.roles, "policies": policies }))?;
            return Ok(exit::OK);
        }
        files.iter().try_for_each(|file| show::line(&format!("now {file}")))?;
        self.lines().iter().try_for_each(|line| show::line(line))?;
        show::line("par reload    # if a server runs")?;
        Ok(exit::OK)
    }

    /// Its name.
    pub(in crate::cli) fn name(&self) -> &str {
        &self.name
    }

    /// What the tool now allows.
    pub(in crate::cli) fn lines(&self) -> Vec<String> {
        let name = &self.name;
        let Some((class, risk)) = self.risk.filter(|_| self.is_on) else {
            return vec![format!("{name} is off: no one may call it, and no model is offered it")];
        };
        let who = match self.roles.is_empty() {
            true => format!(
                "no rule permits it yet: `par policy new --who operator --may {name} --on …` writes one"
            ),
            false => format!(
                "callers with the role {} may use it, as far as the rules permit",
                self.roles.join(" or ")
            ),
        };
        let mut lines = vec![format!("{name} is on: class {class}, risk {risk}; {who}")];
        lines.extend(self.policies.iter().map(|(id, origin)| format!("  {id}  {origin}")));
        lines
    }
}
