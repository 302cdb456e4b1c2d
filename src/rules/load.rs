//! Loads the tools, policies and runbooks of a home.

use super::error::{FileError, RulesError};
use crate::config::{Config, trusted};
use crate::gate::Rules;
use crate::policy::{
    Bundle, CaseFailure, Folders, Groups, Labels, NamedFolder, PolicyError, SourceFile, Suite,
};
use crate::runbooks::{RunbookFault, RunbookFile, RunbookTools, Runbooks};
use crate::tools::{Catalog, CatalogError, ManifestFaults, Places};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders that manifests are resolved against.
#[must_use]
pub fn places(config: &Config) -> Places {
    Places::from_config(config)
}

/// The folders of `[paths]`, for cases of the bundle's own tests.
#[must_use]
pub fn folders(config: &Config) -> Folders {
    let folder = |path: &PathBuf| NamedFolder {
        lexical: path.clone(),
        real: std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
    };
    config.paths.iter().map(|(name, path)| (name.clone(), folder(path))).collect()
}

/// Loads the tools and policies of a home, and runs the policies' own tests: a failing test refuses
/// the load. Blocking.
pub fn load_rules(config: &Config) -> Result<Rules, RulesError> {
    let rules = load_unproven(config)?;
    match failing(config, &rules) {
        failures if failures.is_empty() => Ok(rules),
        failures => {
            let mend = "the policies' own tests failed, so nothing is loaded: change the policy or the case";
            Err(RulesError(case_reasons(&failures).into_iter().chain([mend.to_owned()]).collect()))
        }
    }
}

/// Loads the tools and policies of a home, and returns the cases that fail, in the order of the
/// files. Blocking.
pub fn failing_cases(config: &Config) -> Result<Vec<CaseFailure>, RulesError> {
    load_unproven(config).map(|rules| failing(config, &rules))
}

fn failing(config: &Config, rules: &Rules) -> Vec<CaseFailure> {
    rules.bundle.prove(&rules.catalog, &folders(config))
}

/// One reason for each case that failed, and one for all cases that make no call for the same
/// reason: without one tool, each of its cases fails.
#[must_use]
pub fn case_reasons(failures: &[CaseFailure]) -> Vec<String> {
    let mut no_call: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in failures.iter().filter(|failure| failure.makes_no_call()) {
        *no_call.entry(&failure.why).or_default() += 1;
    }
    let mut reasons = Vec::new();
    for failure in failures {
        let same = if failure.makes_no_call() { no_call.remove(&*failure.why) } else { Some(1) };
        reasons.extend(same.map(|same| match same {
            1 => failure.to_string(),
            same => format!("{failure}; {} more cases fail for this reason", same - 1),
        }));
    }
    reasons
}

/// Loads the tools and policies of a home for a server. If the tools load and the policies do not,
/// the rules are closed: nothing runs, and an administrator can inspect and repair the server.
/// Blocking.
pub fn load_or_close(config: &Config) -> Result<Rules, RulesError> {
    let error = match load_rules(config) {
        Ok(rules) => return Ok(rules),
        Err(error) => error,
    };
    let catalog = load_catalog(config).map_err(|_| error.clone())?;
    let bundle = Bundle::closed(&catalog, error.0.clone()).map_err(|_| error)?;
    Ok(Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) })
}

/// Loads the tools and policies of a home, and their tests without running them: for display, not
/// for decisions. Blocking.
pub fn load_unproven(config: &Config) -> Result<Rules, RulesError> {
    load_rules_of(config, &config.home.etc.join("policies"))
}

/// Does the same with the policies of another folder; without labels there, those of the home
/// apply. An error has the faults of all files. Blocking.
pub fn load_rules_of(config: &Config, folder: &Path) -> Result<Rules, RulesError> {
    let catalog = load_catalog(config);
    let mut faults: Vec<String> = match &catalog {
        Ok(_) => Vec::new(),
        Err(CatalogError::Manifests(faults)) => faults.0.iter().map(ToString::to_string).collect(),
        Err(e @ CatalogError::Folder(..)) => return Err(RulesError(vec![e.to_string()])),
    };
    let files = RuleFiles::read(config, folder).map_err(|e| RulesError(vec![e.to_string()]))?;
    let names = config.paths.keys().cloned().collect();
    let mut add = |errors: Vec<PolicyError>| faults.extend(errors.iter().map(ToString::to_string));
    // Without the tools, only the form of policies can be checked.
    let bundle = match &catalog {
        Ok(catalog) => Bundle::load(&files.policies, catalog, &names).map_err(&mut add).ok(),
        Err(_) => {
            add(Bundle::syntax_faults(&files.policies));
            None
        }
    };
    let labels = files.entities.as_ref().map(|source| Labels::parse(source, &names)).transpose();
    let labels = labels.map_err(&mut add).ok();
    let suite = Suite::parse(&files.tests).map_err(&mut add).ok();
    let labelled = |bundle: Bundle, labels: Option<Labels>| bundle.with_labels(labels.unwrap_or_default());
    let bundle = bundle.zip(labels).and_then(|(bundle, labels)| labelled(bundle, labels).map_err(add).ok());
    let (Ok(catalog), Some(bundle), Some(suite), true) = (catalog, bundle, suite, faults.is_empty()) else {
        return Err(RulesError(faults));
    };
    let all = |errors: Vec<PolicyError>| RulesError(errors.iter().map(ToString::to_string).collect());
    let bundle = bundle.with_suite(suite).with_groups(Groups::new(config.groups.clone()));
    match bundle.unknown_groups() {
        none if none.is_empty() => {}
        unknown => return Err(all(unknown)),
    }
    check_expiry(config, &bundle)?;
    let bundle = bundle.with_runbooks(load_runbooks(config, &catalog)?);
    Ok(Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) })
}

/// The runbooks of a home: none without the folder.
fn load_runbooks(config: &Config, catalog: &Catalog) -> Result<Runbooks, RulesError> {
    let folder = config.home.etc.join("runbooks.d");
    if folder.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(Runbooks::default());
    }
    let one = |error: FileError| RulesError(vec![error.to_string()]);
    let files = sources(&folder, "runbooks.d", "md").map_err(one)?;
    let files: Vec<RunbookFile> =
        files.into_iter().map(|SourceFile { name, text }| RunbookFile { name, text }).collect();
    let off = tools_off(config).map_err(one)?;
    let tools = RunbookTools { catalog, off: &off, paths: &config.paths };
    let all = |faults: Vec<RunbookFault>| RulesError(faults.iter().map(ToString::to_string).collect());
    Runbooks::parse(&files, &tools).map_err(all)
}

/// The names of the tools that are off: those of files `NAME.toml.disabled`.
fn tools_off(config: &Config) -> Result<BTreeSet<String>, FileError> {
    let folder = config.home.etc.join("tools.d");
    let files = trusted::list(&folder, "disabled")
        .map_err(|source| FileError::Read { path: folder.clone(), source })?;
    let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.strip_suffix(".toml.disabled")?.to_owned());
    Ok(files.iter().filter_map(name).collect())
}

/// Refuses rules whose approvals may be given after the payloads of their runs can be gone.
fn check_expiry(config: &Config, bundle: &Bundle) -> Result<(), RulesError> {
    let Some(most_s) = config.segments.payload_s_max else { return Ok(()) };
    let longer =
        bundle.policies().filter(|(id, _)| bundle.expires_s(id).is_some_and(|span_s| span_s > most_s));
    let reasons: Vec<String> = longer
        .map(|(id, origin)| {
            format!(
                "{origin}: the `@expires` of `{id}` is longer than `ledger.payload_s_max`, {most_s} s: an approval \
                 needs the payloads of its run until it is answered"
            )
        })
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(RulesError(reasons)) }
}

/// The tools of a home. A secret that a tool is given must be named in the configuration.
fn load_catalog(config: &Config) -> Result<Catalog, CatalogError> {
    let catalog = Catalog::load(&config.home.etc.join("tools.d"), &places(config))?;
    let mut faults = Vec::new();
    for manifest in catalog.manifests() {
        for name in manifest.secrets.iter().filter(|name| !config.secrets.contains_key(*name)) {
            let reason = format!("`{name}` is not in `[secrets]` of par.toml");
            faults.push(manifest.refuse("secrets =", &reason));
        }
    }
    if faults.is_empty() { Ok(catalog) } else { Err(ManifestFaults(faults).into()) }
}

/// The files of a folder of policies, unparsed.
struct RuleFiles {
    policies: Vec<SourceFile>,
    entities: Option<SourceFile>,
    tests: Vec<SourceFile>,
}

impl RuleFiles {
    fn read(config: &Config, folder: &Path) -> Result<Self, FileError> {
        let mut policies = sources(folder, "policies", "cedar")?;
        policies.extend(source_if_there(&folder.join("links.toml"))?);
        let mut entities = folder.join("entities.toml");
        if entities.symlink_metadata().is_err() {
            entities = config.home.etc.join("policies/entities.toml");
        }
        let tests = match folder.join("tests") {
            tests if tests.exists() => sources(&tests, "policies/tests", "toml")?,
            _ => Vec::new(),
        };
        Ok(Self { policies, entities: source_if_there(&entities)?, tests })
    }
}

/// An optional file next to the policies: labels, or links of templates.
fn source_if_there(path: &Path) -> Result<Option<SourceFile>, FileError> {
    // Checks the path itself, not the error of reading: a dangling link is a fault.
    if path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    read_source(path, "policies").map(Some)
}

fn sources(folder: &Path, name: &str, ending: &str) -> Result<Vec<SourceFile>, FileError> {
    let files = trusted::list(folder, ending)
        .map_err(|source| FileError::Read { path: folder.to_owned(), source })?;
    files.iter().map(|path| read_source(path, name)).collect()
}

fn read_source(path: &Path, name: &str) -> Result<SourceFile, FileError> {
    let bytes = trusted::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|_| FileError::NotUtf8 { path: path.to_owned() })?;
    let file = path.file_name().map(PathBuf::from).unwrap_or_default();
    Ok(SourceFile { name: format!("{name}/{}", file.display()), text })
}

/// The policy files of a home, unparsed. Blocking.
pub fn policy_sources(config: &Config) -> Result<Vec<SourceFile>, FileError> {
    sources(&config.home.etc.join("policies"), "policies", "cedar")
}
