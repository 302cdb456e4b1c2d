//! `par audit hash`: the placeholder under which a secret appears on the ledger.

use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::Config;
use clap::Args;
use serde_json::json;
use std::io::Read as _;

#[derive(Debug, Args)]
pub(in crate::cli) struct Hash {
    /// Secret value; `-` reads it from standard input, which keeps it out of the shell's history
    value: String,
}

impl Hash {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let value = match self.value.as_str() {
            "-" => {
                let mut bytes = Vec::new();
                std::io::stdin().lock().read_to_end(&mut bytes).map_err(Fail::failed)?;
                bytes.trim_ascii().to_vec()
            }
            text => text.trim_ascii().as_bytes().to_vec(),
        };
        if value.is_empty() {
            return Err(Fail::usage("the value is empty"));
        }
        let secrets = compose::secrets(config, Some(&compose::model_keys(config)?))?;
        let (digest, clean) = (secrets.now().digest(&value), secrets.clean(value));
        let cleaned = String::from_utf8_lossy(&clean);
        let name =
            cleaned.strip_prefix("[secret:").and_then(|rest| rest.split_once(':')).map(|(name, _)| name);
        // A value that is not known as a whole was not replaced as a whole either.
        let name = name.filter(|name| *cleaned == format!("[secret:{name}:{digest}]"));
        let shown = if clean.found().is_none() { None } else { Some(cleaned.as_ref()) };
        if is_json {
            show::json(&json!({ "digest": digest, "name": name, "replaced": shown }))?;
        } else {
            show::line(&format!("digest    {digest}"))?;
            show::line(&format!("name      {}", name.unwrap_or("none: no named secret has this value")))?;
            match shown {
                Some(cleaned) => show::line(&format!("replaced  {cleaned}"))?,
                None => show::line(&format!(
                    "replaced  no; a secret named NAME would be shown as [secret:NAME:{digest}]"
                ))?,
            }
        }
        Ok(exit::OK)
    }
}
