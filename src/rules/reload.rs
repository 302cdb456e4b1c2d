//! Puts rules in force, at the start and while runs are under way.

use super::bundles::keep_bundle;
use super::error::RulesError;
use super::load::load_rules;
use super::secrets::{exchange_keys, load_secrets};
use crate::auth::Principal;
use crate::config::{Config, ConfigFaults, Home, ModelKeys, Models, RereadKeys, Shown};
use crate::gate::{Gate, Granted, Rules};
use crate::launcher::{Report, StartError};
use crate::ledger::payload::{
    LoadedPolicy, LoadedProgram, LoadedRunbook, LoadedScript, LoadedTool, MountNamed, PolicyLoadPayload,
    PolicyRefusePayload, SkippedFolder, ToolRefusal, ToolsLoadPayload,
};
use crate::ledger::{AppendError, Draft};
use crate::runbooks::Runbook;
use crate::sandbox::Launcher;
use crate::secrets::Finder;
use crate::tools::Manifest;
use crate::types::{limits, text};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The entries that record which rules come into force: `policy.load`, then `tools.load`.
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
    let runbook = |book: &Runbook| LoadedRunbook { name: book.name.clone(), sha256: book.sha256 };
    let runbooks: Vec<LoadedRunbook> = rules.bundle.runbooks().iter().map(runbook).collect();
    PolicyLoadPayload {
        digest: rules.bundle.digest(),
        policies: rules.bundle.policies().map(policy).collect(),
        was: None,
        difference: None,
        power: None,
        not_loaded: (!broken.is_empty()).then(|| broken.to_vec()),
        runbooks: Some(runbooks).filter(|all| !all.is_empty()),
    }
}

fn tools_load(rules: &Rules, report: &Report) -> ToolsLoadPayload {
    let described = |m: &Arc<Manifest>| (m.summary.clone(), m.input_shown().to_string());
    let bytes = rules.catalog.manifests().map(described).map(|(summary, input)| summary.len() + input.len());
    let is_described = bytes.sum::<usize>() <= limits::TOOLS_DESCRIBED_BYTES_MAX;
    let tools = rules.catalog.manifests().map(|m| {
        let (summary, input) = is_described.then(|| described(m)).unzip();
        LoadedTool {
            name: m.name.clone(),
            digest: m.digest,
            script: Some(m.script().map(|s| LoadedScript { name: s.name().to_owned(), sha256: s.digest() })),
            summary,
            input,
        }
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

/// Refuses a launcher that read other manifests than the front: the files changed in between.
pub fn check_launcher(rules: &Rules, report: &Report) -> Result<(), RulesError> {
    let own: BTreeMap<&str, String> = rules.tools().collect();
    let its: BTreeMap<&str, String> =
        report.tools.iter().map(|tool| (tool.tool.as_str(), tool.sha256.clone())).collect();
    let names = own.keys().chain(its.keys());
    match names.into_iter().find(|name| own.get(*name) != its.get(*name)) {
        None => Ok(()),
        Some(name) => {
            Err(RulesError(vec![format!("the launcher read another manifest for `{name}`: load again")]))
        }
    }
}

/// Exchanges the rules in force for those in `etc/`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reloader {
    gate: Gate,
    launcher: Launcher,
    home: Home,
    /// The keys that the providers of models use.
    model_keys: ModelKeys,
    /// The configuration at the start of the process.
    shown: Arc<[Shown]>,
    /// Its models: they are asked until the process ends.
    models: Arc<Models>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Why nothing was exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration, a tool or a policy has a fault.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// No launcher could be started for the new tools.
    #[error(transparent)]
    Launcher(StartError),
    /// The new bundle could not be stored.
    #[error("data/bundles: {0}")]
    Keep(#[source] std::io::Error),
    /// The exchange could not be recorded.
    #[error(transparent)]
    Ledger(AppendError),
}

impl Reloader {
    /// Exchanges the rules that `gate` decides by and `launcher` runs, and the keys that providers
    /// use, for those in the home of `config`, the configuration that the process started with.
    #[must_use]
    pub fn new(gate: Gate, launcher: Launcher, model_keys: ModelKeys, config: &Config) -> Self {
        let (home, shown) = (config.home.clone(), config.shown.clone().into());
        let models = Arc::new(config.models.clone());
        Self { gate, launcher, home, model_keys, shown, models, turn: Arc::default() }
    }

    /// Reloads tools, scripts, policies, groups, bounds on approvals, named secrets and keys of
    /// models, starts a new launcher that tests itself, records what comes into force, and puts all
    /// of it in force at once. Calls under way end in the old launcher; those that are not decided
    /// yet are denied and may be asked again. On an error nothing changes.
    ///
    /// `by` asked for it, through that power; `None` is a signal. Returns what changed, after it is
    /// durable: `policy` and `was` (digests), `policies` and `tools` (each `added`, `removed`,
    /// `changed`), `runbooks`, `groups`, `labels`, `secrets`, `model_keys` (names of models whose
    /// key was `added`, `replaced` or `removed`, and `not_taken`: name → the settings that have
    /// changed too), `refused`, `accepted` (tools that the launcher before refused), `not_loaded`
    /// (keys of `par.toml` that take effect at the next start), `ledger`.
    ///
    /// A refused reload is recorded too, with the reason.
    pub async fn reload(&self, by: Option<(&Principal, Granted)>) -> Result<Value, ReloadError> {
        // The second of two concurrent reloads sees what the first did.
        let _turn = self.turn.lock().await;
        let who = by.as_ref().map(|(by, _)| by.id());
        let done = self.load(by).await;
        if let Err(error) = &done
            && !matches!(error, ReloadError::Ledger(_))
        {
            // It may repeat what is in the files.
            let cleaned = self.gate.secrets().clean(error.to_string());
            let reason = text::prefix(&cleaned, limits::REFUSAL_BYTES_MAX);
            let draft = Draft {
                principal: who,
                policy: Some(self.gate.rules().bundle.digest()),
                ..Draft::new(PolicyRefusePayload { reason: reason.to_owned() })
            };
            let _receipt = self.gate.ledger().append_one(draft).await.map_err(ReloadError::Ledger)?;
        }
        done
    }

    async fn load(&self, by: Option<(&Principal, Granted)>) -> Result<Value, ReloadError> {
        let (this, known) = (self.clone(), self.gate.secrets().now());
        let loaded = tokio::task::spawn_blocking(move || this.load_anew(&known)).await;
        let Loaded { rules, finder, reread, open_max, not_loaded } =
            loaded.map_err(|e| RulesError(vec![e.to_string()]))??;
        let renewal = self.launcher.renew().await.map_err(ReloadError::Launcher)?;
        check_launcher(&rules, renewal.report())?;
        let old = self.gate.rules();
        let refused = |report: &Report| -> BTreeSet<String> {
            report.refused.iter().map(|one| one.tool.clone()).collect()
        };
        let now_refused = refused(renewal.report());
        let accepted: Vec<String> =
            refused(&self.launcher.report()).into_iter().filter(|tool| !now_refused.contains(tool)).collect();
        let mut summary = Map::from_iter([
            ("policy".to_owned(), json!(rules.bundle.digest().hex())),
            ("was".to_owned(), json!(old.bundle.digest().hex())),
            ("refused".to_owned(), json!(renewal.report().refused)),
            ("accepted".to_owned(), json!(accepted)),
            ("not_loaded".to_owned(), json!(not_loaded)),
            ("model_keys".to_owned(), keys_changed(&reread)),
            ("secrets".to_owned(), json!(!finder.finds_same_as(&self.gate.secrets().now()))),
        ]);
        let difference = old.difference(&rules);
        summary.extend(json!(difference).as_object().cloned().unwrap_or_default());
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
            // Before a key can be sent, what comes back is searched for it.
            self.gate.secrets().exchange(finder);
            exchange_keys(&self.model_keys, &reread.keys, self.gate.secrets());
            self.gate.bound_open_approvals(open_max.0, open_max.1);
            renewal.install();
        };
        let exchanged = self.gate.exchange(rules, drafts, in_force).await;
        let receipts = exchanged.map_err(ReloadError::Ledger)?;
        summary.insert("ledger".to_owned(), json!(receipts.first().map(crate::ledger::Receipt::seq)));
        Ok(Value::Object(summary))
    }
}

/// What a reload puts in force.
struct Loaded {
    rules: Rules,
    finder: Finder,
    reread: RereadKeys,
    /// Open approval requests of a key or user, and of a run.
    open_max: (u64, u64),
    /// The keys of `par.toml` that changed without taking effect.
    not_loaded: Vec<String>,
}

/// What became of the keys of models that have changed; `null` if none has.
fn keys_changed(reread: &RereadKeys) -> Value {
    let RereadKeys { added, replaced, removed, not_taken, .. } = reread;
    let is_same = [added, replaced, removed].iter().all(|names| names.is_empty()) && not_taken.is_empty();
    match is_same {
        true => Value::Null,
        false => {
            json!({ "added": added, "replaced": replaced, "removed": removed, "not_taken": not_taken })
        }
    }
}

impl Reloader {
    fn load_anew(&self, known: &Finder) -> Result<Loaded, RulesError> {
        let config = Config::load(self.home.clone())
            .map_err(|e: ConfigFaults| RulesError(e.0.iter().map(ToString::to_string).collect()))?;
        let values = |shown: &[Shown]| -> BTreeMap<String, String> {
            shown.iter().map(|one| (one.key.clone(), one.value.clone())).collect()
        };
        let (old, new) = (values(&self.shown), values(&config.shown));
        let is_loaded = |key: &str| match key.split_once('.') {
            Some(("approvals", name)) => name.starts_with("open_"),
            Some((table, _)) => ["groups", "secrets", "secret_patterns"].contains(&table),
            None => false,
        };
        let is_other = |key: &&String| old.get(*key) != new.get(*key) && !is_loaded(key);
        let mut changed: Vec<String> = old.keys().chain(new.keys()).filter(is_other).cloned().collect();
        changed.sort_unstable();
        changed.dedup();
        // The launcher's view and the names in policies depend on them.
        if let Some(key) = changed.iter().find(|key| key.starts_with("paths.")) {
            let reason = format!("`{key}` has changed: restart the server to apply it");
            return Err(RulesError(vec![reason]));
        }
        // A key goes only where it was meant to go.
        let reread = self.model_keys.reread(&self.models, &config.models, &config.home);
        let reread = reread.map_err(|e| RulesError(vec![e.to_string()]))?;
        Ok(Loaded {
            rules: load_rules(&config)?,
            finder: load_secrets(&config, Some(&reread.keys), known)?,
            reread,
            open_max: (config.open_key_max, config.open_run_max),
            not_loaded: changed,
        })
    }
}
