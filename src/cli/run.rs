//! `par run`: sends a message to the server of this home, or runs it in this process if none runs.

use super::exit::Fail;
use super::remote::Server;
use super::{compose, local, query, reply, sessions, show, tool};
use crate::agent::{RunLimits, RunRequest};
use crate::config::Home;
use crate::policy::Door;
use crate::types::json::parse_strict;
use crate::types::{Ceiling, limits};
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct Run {
    /// Message to the agent; `-` reads it from standard input
    message: String,
    /// Allow at most this many tool calls [default and maximum: 32]
    #[arg(long, value_name = "N")]
    calls_max: Option<u32>,
    /// Let the run use only these tools, for example `read_file,tail_file` [default: every tool
    /// that the caller may use]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Hold the answer to the JSON Schema in this file: the answer is then one JSON value
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Go on with this session: its id, or `latest`. The run knows what the earlier ones read
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Send the message to the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or
    /// ~/.config/par/key; needs no home here [env: PAR_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

impl Run {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let message = match self.message.as_str() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(Fail::failed)?;
                text
            }
            text => text.to_owned(),
        };
        let schema = self.schema.as_deref().map(read_schema).transpose()?;
        if let Some(url) = self.url.clone().or_else(|| home.server_url()) {
            let server = Server::at(&url)?;
            let (made, printed) = server.run_live(&self.body(&message, schema, &server)?, is_json)?;
            return reply::print_rest(&made, &printed, is_json);
        }
        match Server::of_home(&home)? {
            Some(server) => {
                let (made, printed) = server.run_live(&self.body(&message, schema, &server)?, is_json)?;
                tool::note_unknown(&home, &made);
                reply::print_rest(&made, &printed, is_json)
            }
            None => {
                let config = compose::load(home)?;
                let (home, mut notes) = (config.home.clone(), Vec::new());
                let asked = RunRequest {
                    message,
                    limits: RunLimits { calls_max: self.calls_max },
                    tools: ceiling(self.tools.as_deref()),
                    response_schema: schema,
                    ..RunRequest::default()
                };
                let named = self.session.clone();
                let (made, printed) = local::run_here(config, "run", !is_json, async |agent, by| {
                    let session = named.map(|named| sessions::meant_here(agent, by, named)).transpose()?;
                    let made = agent.run(by, Door::LOCAL, RunRequest { session, ..asked }).await?;
                    notes = tool::hidden_in(agent, by, &made, &home);
                    Ok(made)
                })?;
                notes.iter().for_each(|note| show::note(note));
                reply::print_rest(&made, &printed, is_json)
            }
        }
    }

    /// The command that a message of one word is the name of: probably it was meant. A `--` before
    /// the word sends it.
    pub(super) fn meant<'a>(&self, mut commands: impl Iterator<Item = &'a str>) -> Option<String> {
        let word = self.message.as_str();
        if query::has_separator() {
            return None;
        }
        match word {
            "list" | "show" | "rerun" => Some(format!("par runs {word}")),
            _ => commands.any(|name| name == word).then(|| format!("par {word}")),
        }
    }

    fn body(&self, message: &str, schema: Option<Value>, server: &Server) -> Result<Value, Fail> {
        let mut members = Map::from_iter([("message".to_owned(), json!(message))]);
        if let Some(calls) = self.calls_max {
            members.insert("limits".to_owned(), json!({ "calls_max": calls }));
        }
        if self.tools.is_some() {
            members.insert("tools".to_owned(), json!(ceiling(self.tools.as_deref())));
        }
        members.extend(schema.map(|schema| ("response_schema".to_owned(), schema)));
        if let Some(named) = &self.session {
            members.insert("session".to_owned(), json!(sessions::meant(server, named)?));
        }
        Ok(Value::Object(members))
    }
}

/// Reads the schema for the answer.
fn read_schema(file: &Path) -> Result<Value, Fail> {
    let at = |what: String| Fail::usage(format!("{}: {what}", file.display()));
    let most = limits::RESPONSE_SCHEMA_BYTES_MAX * 4;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|e| at(e.to_string()))?;
    if bytes.len() > most {
        return Err(at(format!("it is longer than {most} bytes")));
    }
    parse_strict(&bytes, limits::JSON_DEPTH_MAX).map_err(|e| at(format!("it is not JSON: {e}")))
}

/// The ceiling of a `--tools` option; `--tools ''` names no tool.
pub(super) fn ceiling(given: Option<&[String]>) -> Ceiling {
    let named = |names: &[String]| Ceiling::of(names.iter().filter(|name| !name.is_empty()).cloned());
    given.map_or(Ceiling::OPEN, named)
}
