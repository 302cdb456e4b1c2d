//! `par config`: shows or checks the configuration.

use super::exit::{self, Fail};
use super::table::{Column, Screen, Sheet};
use super::{compose, show, tool};
use crate::config::{Config, NamedModel};
use crate::ledger::Lock;
use crate::llm::ProviderKind;
use crate::secrets::Secrets;
use clap::Subcommand;
use serde_json::json;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

#[derive(Debug, Subcommand)]
pub(super) enum Configuration {
    /// Print every key with its value and its source
    Show,
    /// Check configuration, model settings, secrets, tools and policies, without starting anything
    Check,
}

impl Configuration {
    pub(super) fn run(&self, config: Config, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::Show => show_keys(&config, is_json)?,
            Self::Check => check(&config, is_json)?,
        }
        Ok(exit::OK)
    }
}

/// Loads what a start loads, and starts nothing.
fn check(config: &Config, is_json: bool) -> Result<(), Fail> {
    let model_keys = compose::model_keys(config)?;
    let rules = compose::load_rules(config)?;
    // Built and dropped, so that what is missing is reported now and not at the next start.
    let secrets = match std::fs::read_dir(&config.home.data) {
        Ok(_) => compose::secrets(config, Some(&model_keys))?,
        // A user who cannot read data/ cannot start a server either; the rest is still checked.
        Err(_) => Secrets::default(),
    };
    drop(compose::provider(config, &model_keys, &secrets)?);
    config.models.asked().try_for_each(check_ca_file)?;
    // Opening a file would make it; a start makes it if its folder exists.
    match config.anchoring.place.strip_prefix("file:").map(Path::new) {
        Some(file) if !file.exists() => check_folder(file)?,
        _ => drop(compose::open_anchor(config)?),
    }
    let mut notes = notes(config);
    notes.extend(tool::unpermitted(&rules));
    let (tools, policies) = (rules.catalog.manifests().count(), rules.bundle.policies().count());
    if is_json {
        return show::json(&json!({ "ok": true, "tools": tools, "policies": policies, "notes": notes }));
    }
    notes.iter().try_for_each(|note| show::line(&format!("note  {note}")))?;
    show::line(&format!("ok: {tools} tools, {policies} policies"))
}

/// Each request of a model would fail without the certificates that it trusts.
fn check_ca_file(model: &NamedModel) -> Result<(), Fail> {
    let Some(file) = &model.ca_file else { return Ok(()) };
    let unread = |e| Fail::usage(format!("`{}`: {}: {e}", model.setting("ca_file"), file.display()));
    std::fs::read(file).map(drop).map_err(unread)
}

fn check_folder(file: &Path) -> Result<(), Fail> {
    match file.parent() {
        Some(folder) if folder.is_dir() => Ok(()),
        _ => Err(Fail::usage(format!("`[ledger]`: {}: its folder does not exist", file.display()))),
    }
}

/// What a start accepts and has no effect: folders that do not exist, users that this host does not
/// have.
fn notes(config: &Config) -> Vec<String> {
    let missing = config.paths.iter().filter(|(_, path)| !path.is_dir());
    let paths = missing.map(|(name, path)| format!("`paths.{name}`: {} is not a folder", path.display()));
    let users = config.groups.iter().flat_map(|(group, users)| users.iter().map(move |user| (group, user)));
    let unknown = users.filter_map(|(group, user)| {
        let name = user.strip_prefix("os:")?;
        compose::user(name).err().map(|e| format!("`groups.{group}`: `{user}`: {e}"))
    });
    paths
        .chain(unknown)
        .chain(compose::unreachable(config))
        .chain(taken(config))
        .chain(keyless(config))
        .chain(in_clear(config))
        .collect()
}

/// That another program listens where a server of this home would.
fn taken(config: &Config) -> Option<String> {
    if Lock::holder(&compose::files(config)).is_some() {
        return None;
    }
    let is_taken = TcpListener::bind(config.listen).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
    let listen = config.listen;
    is_taken
        .then(|| format!("`server.listen`: another program listens on {listen}: a server cannot start there"))
}

/// The models without a key. Some servers want none.
fn keyless(config: &Config) -> Vec<String> {
    let wants = |model: &&NamedModel| {
        !matches!(compose::wire(model), Ok(ProviderKind::Offline | ProviderKind::Ollama) | Err(_))
    };
    // `key = "none"` names no place: its server wants none.
    let models = config.models.asked().filter(wants).filter(|model| !model.key.places().is_empty());
    let keyless = models.filter(|model| matches!(config.model_key(model), Ok(None)));
    keyless
        .map(|model| {
            format!("model `{0}` has no key; if its server wants one: `par model login {0}`", model.name)
        })
        .collect()
}

/// The models whose key others could read on the network.
fn in_clear(config: &Config) -> Vec<String> {
    let keyed = config.models.asked().filter(|model| matches!(config.model_key(model), Ok(Some(_))));
    keyed.filter_map(compose::key_in_clear).collect()
}

fn show_keys(config: &Config, is_json: bool) -> Result<(), Fail> {
    if is_json {
        return config
            .shown
            .iter()
            .try_for_each(|s| show::json(&json!({ "key": s.key, "value": s.json(), "from": s.from })));
    }
    let mut table = Sheet::new(&[Column::Whole("key"), Column::Words("value"), Column::Cut("from")]);
    config.shown.iter().for_each(|s| {
        table.push(vec![s.key.clone().into(), s.value.clone().into(), s.from.clone().into()]);
    });
    table.print(&Screen::stdout())
}
