//! `par config`: shows or checks the configuration.

use super::exit::{self, Fail};
use super::table::{Column, Screen, Sheet};
use super::{compose, show};
use crate::config::Config;
use crate::secrets::Secrets;
use clap::Subcommand;
use serde_json::json;

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
            Self::Check => {
                let model_key = compose::model_key(&config)?;
                let rules = compose::load_rules(&config)?;
                // Built and dropped, so that what is missing is reported now and not at the next
                // start.
                let secrets = match std::fs::read_dir(&config.home.data) {
                    Ok(_) => compose::secrets(&config, model_key.as_ref())?,
                    // A user who cannot read data/ cannot start a server either; the rest is still
                    // checked.
                    Err(_) => Secrets::default(),
                };
                drop(compose::provider(&config, model_key, &secrets)?);
                let (tools, policies) = (rules.catalog.manifests().count(), rules.bundle.policies().count());
                if is_json {
                    show::json(&json!({ "ok": true, "tools": tools, "policies": policies }))?;
                } else {
                    show::line(&format!("ok: {tools} tools, {policies} policies"))?;
                }
            }
        }
        Ok(exit::OK)
    }
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
