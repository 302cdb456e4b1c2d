//! `par model login`: asks for a key and stores it.

use super::store::{self, Readers};
use super::typed;
use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::{Config, KeyPlace, NamedModel};
use crate::types::limits;
use clap::Args;
use serde_json::json;
use std::path::Path;

#[derive(Debug, Args)]
pub(in crate::cli) struct ModelLogin {
    /// Name of the model
    pub(super) name: String,
    /// Let only the owner of the file read it, and print the line with which the service manager
    /// passes the key to the service
    #[arg(long)]
    credential: bool,
}

impl ModelLogin {
    pub(super) fn run(&self, config: &Config, model: &NamedModel, is_json: bool) -> Result<(), Fail> {
        let file = file(model)?;
        let readers = if self.credential { Ok(Readers::Owner) } else { Readers::of(&config.home.data) };
        let readers = readers.map_err(|e| Fail::failed(format!("{}: {e}", config.home.data.display())))?;
        let key = typed::ask(&format!("Key of the model `{}` (it is not shown): ", model.name))?;
        store::write(file, &key, readers)?;
        let line = credential(model).map(|name| format!("LoadCredential={name}:{}", file.display()));
        let line = line.filter(|_| self.credential);
        if is_json {
            let mode = format!("{:04o}", readers.mode());
            show::json(&json!({ "name": model.name, "file": file, "mode": mode, "credential": line }))?;
        } else {
            show::line(&format!("stored in {}, mode {:04o}", file.display(), readers.mode()))?;
        }
        if key.expose().len() < limits::SECRET_BYTES_MIN {
            let least = limits::SECRET_BYTES_MIN;
            show::note(&format!("par: the key is shorter than {least} bytes: text is not searched for it"));
        }
        if let Some(why) = compose::key_in_clear(model) {
            show::note(&format!("par: {why}"));
        }
        match line {
            Some(line) if !is_json => {
                show::note("par: add this to a drop-in of the unit, then restart it:");
                show::line(&format!("[Service]\n{line}"))
            }
            Some(_) => Ok(()),
            None => {
                let name = &model.name;
                show::note(&format!(
                    "par: run `par reload` if a server is running, then `par model test {name}`"
                ));
                Ok(())
            }
        }
    }
}

/// The file in which a login stores the key. If `par.toml` names another place, the key belongs
/// there.
pub(super) fn file(model: &NamedModel) -> Result<&Path, Fail> {
    model.key.login().ok_or_else(|| {
        let setting = if model.table == "llm" { "llm.api_key_file".to_owned() } else { model.setting("key") };
        Fail::usage(match model.key.places().first() {
            Some(place) => format!(
                "`{setting}` says that the key of `{}` is in {place}: change it there, or remove the setting",
                model.name
            ),
            None => format!("`{setting}` says that `{}` needs no key: remove the setting first", model.name),
        })
    })
}

/// The credential of the service manager that a model's key may come from.
fn credential(model: &NamedModel) -> Option<&str> {
    model.key.places().iter().find_map(|place| match place {
        KeyPlace::Credential(name) => Some(name.as_str()),
        KeyPlace::File(_) | KeyPlace::Variable(_) => None,
    })
}
