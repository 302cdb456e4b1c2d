//! `par audit hash`: by which words the record tells a value that stands nowhere in it.

use crate::cli::exit::{self, Fail};
use crate::cli::{compose, show};
use crate::config::Config;
use clap::Args;
use serde_json::json;
use std::io::Read as _;

#[derive(Debug, Args)]
pub(in crate::cli) struct Hash {
    /// The value; `-` reads it from standard input, which leaves it in no shell's history
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
        let secrets = compose::secrets(config, compose::model_key(config)?.as_ref())?;
        let (digest, clean) = (secrets.now().digest(&value), secrets.clean(value));
        let told = String::from_utf8_lossy(&clean);
        let name = told.strip_prefix("[secret:").and_then(|rest| rest.split_once(':')).map(|(name, _)| name);
        // What is no known value as a whole was not replaced as one either.
        let name = name.filter(|name| *told == format!("[secret:{name}:{digest}]"));
        let shown = if clean.found().is_none() { None } else { Some(told.as_ref()) };
        if is_json {
            show::json(&json!({ "digest": digest, "name": name, "replaced": shown }))?;
        } else {
            show::line(&format!("digest    {digest}"))?;
            show::line(&format!("name      {}", name.unwrap_or("none: no secret of this value is named")))?;
            match shown {
                Some(told) => show::line(&format!("replaced  {told}"))?,
                None => {
                    show::line(&format!("replaced  by nothing now; once named NAME: [secret:NAME:{digest}]"))?
                }
            }
        }
        Ok(exit::OK)
    }
}
