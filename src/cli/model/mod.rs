//! `par model`: lists the models of the configuration, stores their keys, and tries them.
//!
//! Keys are read and written by the process of the person who runs the command, never by a server.
//!
//! # Layout
//!
//! * `typed`: a key, typed on the terminal without echo
//! * `store`: the files of keys
//! * `used`: what models used, as the ledger has it
//! * `login`, `test`, `status`: the commands

mod typed;
mod store;
mod used;
mod login;
mod test;
mod status;

use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::{Config, NamedModel};
use crate::types::text;
use clap::Subcommand;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// List the models of the configuration, in the order in which they are asked
    List,
    /// Show whether models can be reached, where their keys are, and what they used in 24 hours
    Status {
        /// Name of the model [default: every model]
        name: Option<String>,
    },
    /// Send one short request to a model, outside any run, and show the outcome
    Test {
        /// Name of the model
        name: String,
    },
    /// Ask for the key of a model on the terminal, and store it in etc/credentials/
    Login(login::ModelLogin),
    /// Remove the stored key of a model
    Logout {
        /// Name of the model
        name: String,
    },
}

impl ModelCommand {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::List => status::list(config, is_json)?,
            Self::Status { name: None } => status::status(config, config.models.all.iter(), is_json)?,
            Self::Status { name: Some(name) } => {
                status::status(config, std::iter::once(find(config, name)?), is_json)?;
            }
            Self::Test { name } => return test::test(config, find(config, name)?, is_json),
            Self::Login(login) => login.run(config, find(config, &login.name)?, is_json)?,
            Self::Logout { name } => logout(find(config, name)?, is_json)?,
        }
        Ok(exit::OK)
    }
}

/// The model of this name, or what was probably meant.
fn find<'a>(config: &'a Config, name: &str) -> Result<&'a NamedModel, Fail> {
    config.models.find(name).ok_or_else(|| {
        let shown = text::visible_line(name);
        let meant = match config.models.nearest(name) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`par model list` lists the models".to_owned(),
        };
        Fail::usage(format!("no model is named `{shown}`: {meant}"))
    })
}

fn logout(model: &NamedModel, is_json: bool) -> Result<(), Fail> {
    let file = login::file(model)?;
    store::remove(file)?;
    if is_json {
        return show::json(&json!({ "name": model.name, "removed": file }));
    }
    show::line(&format!("removed {}", file.display()))?;
    show::note("par: a running server uses the key until `par reload`");
    Ok(())
}
