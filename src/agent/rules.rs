//! Loading tools and policies, at the start and while runs are under way.

use super::bundles::keep_bundle;
use super::run::Agent;
use super::secrets::load_secrets;
use crate::auth::Principal;
use crate::config::{Config, ConfigError, Home, Shown, trusted};
use crate::gate::{Granted, Rules};
use crate::ledger::payload::{
    LoadedPolicy, LoadedProgram, LoadedScript, LoadedTool, MountNamed, PolicyLoadPayload,
    PolicyRefusePayload, SkippedFolder, ToolRefusal, ToolsLoadPayload,
};
use crate::ledger::{AppendError, Draft};
use crate::policy::{Bundle, Folder, Folders, Groups, Labels, PolicyError, Source, Suite};
use crate::sandbox::{Report, StartError};
use crate::secrets::Finder;
use crate::tools::{Catalog, CatalogError, Places};
use crate::types::{limits, text};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why rules were not loaded: one reason for each fault, with its place where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesError(pub Vec<String>);

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for RulesError {}

/// What manifests are resolved against.
#[must_use]
pub fn places(config: &Config) -> Places {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Places { names: config.paths.clone(), private: vec![real(&config.home.etc), real(&config.home.data)] }
}

/// The folders of `[paths]`, for cases of the bundle's own tests.
#[must_use]
pub fn folders(config: &Config) -> Folders {
    let folder = |path: &PathBuf| Folder {
        lexical: path.clone(),
        real: std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
    };
    config.paths.iter().map(|(name, path)| (name.clone(), folder(path))).collect()
}

/// Loads tools and policies of a home, and runs the policies' own tests: one that fails refuses the load.
/// Blocking.
pub fn load_rules(config: &Config) -> Result<Rules, RulesError> {
    let rules = load_unproven(config)?;
    match rules.bundle.prove(&rules.catalog, &folders(config)) {
        failures if failures.is_empty() => Ok(rules),
        failures => {
            let told = failures.iter().map(ToString::to_string);
            let mend = "the policies' own tests refuse the load: change the policy or the case";
            Err(RulesError(told.chain([mend.to_owned()]).collect()))
        }
    }
}

/// Loads tools and policies of a home for a server. Where the tools are whole and the policies are not, the rules are
/// closed: nothing runs, and an administrator can look at the server and mend it. Blocking.
pub fn load_or_close(config: &Config) -> Result<Rules, RulesError> {
    let error = match load_rules(config) {
        Ok(rules) => return Ok(rules),
        Err(error) => error,
    };
    let catalog = load_catalog(config).map_err(|_| error.clone())?;
    let bundle = Bundle::closed(&catalog, error.0.clone()).map_err(|_| error)?;
    Ok(Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) })
}

/// Loads tools and policies of a home, and their tests, which are not run: to look at, not to decide by.
/// Blocking.
pub fn load_unproven(config: &Config) -> Result<Rules, RulesError> {
    load_rules_of(config, &config.home.etc.join("policies"))
}

/// The same with the policies of another folder; where it does not say what carries which label, the home does.
/// Blocking.
pub fn load_rules_of(config: &Config, folder: &Path) -> Result<Rules, RulesError> {
    let one = |reason: String| RulesError(vec![reason]);
    let all = |errors: Vec<PolicyError>| RulesError(errors.iter().map(ToString::to_string).collect());
    let catalog = load_catalog(config).map_err(|e| one(e.to_string()))?;
    let mut sources = self::sources(folder, "policies", "cedar").map_err(one)?;
    sources.extend(source_if_there(&folder.join("links.toml")).map_err(one)?);
    let names = config.paths.keys().cloned().collect();
    let mut entities = folder.join("entities.toml");
    if entities.symlink_metadata().is_err() {
        entities = config.home.etc.join("policies/entities.toml");
    }
    let labels = match source_if_there(&entities).map_err(one)? {
        Some(source) => Labels::parse(&source, &names).map_err(all)?,
        None => Labels::default(),
    };
    let bundle = Bundle::load(&sources, &catalog, &names).and_then(|bundle| bundle.with_labels(labels));
    let tests = match folder.join("tests") {
        tests if tests.exists() => self::sources(&tests, "policies/tests", "toml").map_err(one)?,
        _ => Vec::new(),
    };
    let suite = Suite::parse(&tests).map_err(all)?;
    let bundle = bundle.map_err(all)?.with_suite(suite).with_groups(Groups::new(config.groups.clone()));
    match bundle.unknown_groups() {
        none if none.is_empty() => {}
        unknown => return Err(all(unknown)),
    }
    Ok(Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) })
}

/// The tools of a home. A secret that one is to be given is named in the configuration.
fn load_catalog(config: &Config) -> Result<Catalog, CatalogError> {
    let catalog = Catalog::load(&config.home.etc.join("tools.d"), &places(config))?;
    for manifest in catalog.manifests() {
        if let Some(name) = manifest.secrets.iter().find(|name| !config.secrets.contains_key(*name)) {
            let reason = format!("`{name}` is not in `[secrets]` of par.toml");
            return Err(CatalogError::Manifest(manifest.refuse("secrets =", &reason)));
        }
    }
    Ok(catalog)
}

/// A file beside the policies that may be left out: what carries which label, which templates are linked.
fn source_if_there(path: &Path) -> Result<Option<Source>, String> {
    // Not by the error of reading: a link that leads nowhere is a fault.
    if path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    read_source(path, "policies").map(Some)
}

fn sources(folder: &Path, name: &str, ending: &str) -> Result<Vec<Source>, String> {
    let files = trusted::list(folder, ending).map_err(|e| format!("{}: {e}", folder.display()))?;
    files.iter().map(|path| read_source(path, name)).collect()
}

fn read_source(path: &Path, name: &str) -> Result<Source, String> {
    let refuse = |e: &dyn fmt::Display| format!("{}: {e}", path.display());
    let bytes = trusted::read(path).map_err(|e| refuse(&e))?;
    let text = String::from_utf8(bytes).map_err(|_| refuse(&"is not UTF-8"))?;
    let file = path.file_name().map(PathBuf::from).unwrap_or_default();
    Ok(Source { name: format!("{name}/{}", file.display()), text })
}

/// The policy files of a home, as they are. Blocking.
pub fn policy_sources(config: &Config) -> Result<Vec<Source>, String> {
    sources(&config.home.etc.join("policies"), "policies", "cedar")
}

/// The entries that tell which rules come into force: `policy.load`, then `tools.load`.
#[must_use]
pub fn load_drafts(rules: &Rules, report: &Report) -> Vec<Draft> {
    under(rules, Draft::new(policy_load(rules)), Draft::new(tools_load(rules, report)))
}

fn under(rules: &Rules, policy: Draft, tools: Draft) -> Vec<Draft> {
    let digest = Some(rules.bundle.digest());
    vec![Draft { policy: digest, ..policy }, Draft { policy: digest, ..tools }]
}

fn policy_load(rules: &Rules) -> PolicyLoadPayload {
    let broken = rules.bundle.broken();
    let policy = |(id, origin): (&str, String)| LoadedPolicy { id: id.to_owned(), origin };
    PolicyLoadPayload {
        digest: rules.bundle.digest(),
        policies: rules.bundle.policies().map(policy).collect(),
        was: None,
        difference: None,
        power: None,
        not_loaded: (!broken.is_empty()).then(|| broken.to_vec()),
    }
}

fn tools_load(rules: &Rules, report: &Report) -> ToolsLoadPayload {
    let tools = rules.catalog.manifests().map(|m| LoadedTool {
        name: m.name.clone(),
        digest: m.digest,
        script: Some(m.script().map(|s| LoadedScript { name: s.name().to_owned(), sha256: s.digest() })),
    });
    let skipped = report
        .skipped
        .iter()
        .map(|one| SkippedFolder { tool: one.tool.clone(), path: one.path.display().to_string() });
    let refused =
        report.refused.iter().map(|one| ToolRefusal { tool: one.tool.clone(), reason: one.reason.clone() });
    let programs = report
        .programs
        .iter()
        .map(|one| LoadedProgram { tool: one.tool.clone(), sha256: one.sha256.clone() });
    let mounted = report.mounted.iter().map(|one| MountNamed { path: one.path.clone(), of: one.of.clone() });
    ToolsLoadPayload {
        tools: tools.collect(),
        skipped_roots: skipped.collect(),
        refused: refused.collect(),
        programs: programs.collect(),
        layers: report.layers.clone(),
        missing: report.missing.clone(),
        mounted: Some(mounted.collect()),
        level: Some(report.level),
        protections: Some(report.protections.clone()),
        program_protections: Some(report.program_protections.clone()),
        lacking: Some(report.lacking.clone()),
        power: None,
    }
}

/// Refuses a launcher that read other manifests than the front: files that changed in between.
pub fn check_launcher(rules: &Rules, report: &Report) -> Result<(), RulesError> {
    let own: BTreeMap<&str, String> = rules.tools().collect();
    let its: BTreeMap<&str, String> =
        report.tools.iter().map(|tool| (tool.tool.as_str(), tool.sha256.clone())).collect();
    let names = own.keys().chain(its.keys());
    match names.into_iter().find(|name| own.get(*name) != its.get(*name)) {
        None => Ok(()),
        Some(name) => {
            Err(RulesError(vec![format!("the launcher read another manifest of `{name}`: load again")]))
        }
    }
}

/// Exchanges the rules of a running agent for those in `etc/`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reloader {
    agent: Agent,
    home: Home,
    /// The configuration that the process started with.
    shown: Arc<[Shown]>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Why everything stayed as it was.
#[derive(Debug)]
pub enum ReloadError {
    /// The configuration, a tool or a policy is at fault.
    Rules(RulesError),
    /// No launcher could be started for the new tools.
    Launcher(StartError),
    /// The new bundle could not be kept.
    Keep(std::io::Error),
    /// It could not be recorded.
    Ledger(AppendError),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(e) => e.fmt(f),
            Self::Launcher(e) => e.fmt(f),
            Self::Keep(e) => write!(f, "data/bundles: {e}"),
            Self::Ledger(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {}

impl From<RulesError> for ReloadError {
    fn from(error: RulesError) -> Self {
        Self::Rules(error)
    }
}

impl Reloader {
    /// Reloads `agent` from the home of `config`, which the process started with.
    #[must_use]
    pub fn new(agent: Agent, config: &Config) -> Self {
        Self { agent, home: config.home.clone(), shown: config.shown.clone().into(), turn: Arc::default() }
    }

    /// Loads tools, scripts, policies, groups and named secrets anew, has a new launcher test itself, records what comes
    /// into force, and puts all of it in force at once. Calls under way end where they are; those that are
    /// not decided yet are denied and may be asked again. On an error everything stays as it was.
    ///
    /// `by` asked for it, by that power; `None` is a signal. Returns what changed, after it is durable: `policy` and
    /// `was` (digests), `policies` and `tools` (each `added`, `removed`, `changed`), `groups`, `labels`, `secrets`, `refused`,
    /// `not_loaded` (keys of `par.toml` that count from the next start), `ledger`.
    ///
    /// What was refused is recorded too, with the reason.
    pub async fn reload(&self, by: Option<(&Principal, Granted)>) -> Result<Value, ReloadError> {
        // Of two at once the second sees what the first did.
        let _turn = self.turn.lock().await;
        let who = by.as_ref().map(|(by, _)| by.id());
        let done = self.load(by).await;
        if let Err(error) = &done
            && !matches!(error, ReloadError::Ledger(_))
        {
            // It may repeat what stands in the files.
            let told = self.agent.secrets().clean(error.to_string());
            let reason = text::prefix(&told, limits::REFUSAL_BYTES_MAX);
            let draft = Draft {
                principal: who,
                policy: Some(self.agent.gate().rules().bundle.digest()),
                ..Draft::new(PolicyRefusePayload { reason: reason.to_owned() })
            };
            let _receipt = self.agent.ledger().append_one(draft).await.map_err(ReloadError::Ledger)?;
        }
        done
    }

    async fn load(&self, by: Option<(&Principal, Granted)>) -> Result<Value, ReloadError> {
        let (home, shown) = (self.home.clone(), self.shown.clone());
        let known = self.agent.secrets().now();
        let loaded = tokio::task::spawn_blocking(move || load_anew(home, &shown, &known)).await;
        let (rules, finder, not_loaded) = loaded.map_err(|e| RulesError(vec![e.to_string()]))??;
        let renewal = self.agent.launcher().renew().await.map_err(ReloadError::Launcher)?;
        check_launcher(&rules, renewal.report())?;
        let old = self.agent.gate().rules();
        let mut told = Map::from_iter([
            ("policy".to_owned(), json!(rules.bundle.digest().hex())),
            ("was".to_owned(), json!(old.bundle.digest().hex())),
            ("refused".to_owned(), json!(renewal.report().refused)),
            ("not_loaded".to_owned(), json!(not_loaded)),
            ("secrets".to_owned(), json!(!finder.finds_what(&self.agent.secrets().now()))),
        ]);
        let difference = old.difference(&rules);
        told.extend(json!(difference).as_object().cloned().unwrap_or_default());
        let power = by.as_ref().map(|(_, power)| power.record());
        let policy = PolicyLoadPayload {
            was: Some(old.bundle.digest()),
            difference: Some(difference),
            power: power.clone(),
            ..policy_load(&rules)
        };
        let tools = ToolsLoadPayload { power, ..tools_load(&rules, renewal.report()) };
        let mut drafts = under(&rules, Draft::new(policy), Draft::new(tools));
        for draft in &mut drafts {
            draft.principal = by.as_ref().map(|(by, _)| by.id());
        }
        let (data, bundle) = (self.home.data.clone(), rules.bundle.clone());
        let kept = tokio::task::spawn_blocking(move || keep_bundle(&data, &bundle)).await;
        kept.map_err(std::io::Error::other).and_then(|kept| kept).map_err(ReloadError::Keep)?;
        let in_force = || {
            self.agent.secrets().exchange(finder);
            renewal.install();
        };
        let exchanged = self.agent.gate().exchange(rules, drafts, in_force).await;
        let receipts = exchanged.map_err(ReloadError::Ledger)?;
        told.insert("ledger".to_owned(), json!(receipts.first().map(crate::ledger::Receipt::seq)));
        Ok(Value::Object(told))
    }
}

/// Rules, secrets, and the keys of `par.toml` that changed without being loaded.
fn load_anew(
    home: Home,
    started: &[Shown],
    known: &Finder,
) -> Result<(Rules, Finder, Vec<String>), RulesError> {
    let config = Config::load(home).map_err(|e: ConfigError| RulesError(vec![e.to_string()]))?;
    let values = |shown: &[Shown]| -> BTreeMap<String, String> {
        shown.iter().map(|one| (one.key.clone(), one.value.clone())).collect()
    };
    let (old, new) = (values(started), values(&config.shown));
    let is_loaded =
        |key: &str| matches!(key.split_once('.'), Some(("groups" | "secrets" | "secret_patterns", _)));
    let is_other = |key: &&String| old.get(*key) != new.get(*key) && !is_loaded(key);
    let mut changed: Vec<String> = old.keys().chain(new.keys()).filter(is_other).cloned().collect();
    changed.sort_unstable();
    changed.dedup();
    // The launcher's view and the names of policies hang on them.
    if let Some(key) = changed.iter().find(|key| key.starts_with("paths.")) {
        let reason = format!("`{key}` has changed, which counts from the next start only: restart");
        return Err(RulesError(vec![reason]));
    }
    Ok((load_rules(&config)?, load_secrets(&config, None, known)?, changed))
}
