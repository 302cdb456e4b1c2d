//! A step of a runbook: a line with a call.
//!
//! ```text
//! step = 1*DIGIT ". `" call "`" [ text ]
//! ```
//!
//! The call is one of `calls`, on one line and without a backquote in it. A string that begins with
//! `@` and is the path that the call is about starts with a folder of `[paths]`. `{service}` in a
//! string stands for the service that the phrase names.

use super::calls::{ArgumentNames, WrittenCall, written_calls};
use super::front::SERVICE;
use super::source::RunbookTools;
use crate::tools::{ProposedCall, ResourceSpec};
use crate::types::json::parse_strict;
use crate::types::limits;
use serde_json::{Map, Value};

/// A step: a call, and the operator's words about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunbookStep {
    /// The number, as written.
    pub number: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// What the operator says about it; may be empty.
    pub says: String,
    /// Whether the tool is on. The arguments of a tool that is off or not there are not checked.
    pub is_on: bool,
    call: WrittenCall,
}

/// The names of the required arguments of each tool, in order.
struct RequiredArguments<'a>(&'a RunbookTools<'a>);

impl ArgumentNames for RequiredArguments<'_> {
    /// For a tool that is off, the argument's number: a call of it is proposed to no one.
    fn name(&self, tool: &str, at: usize) -> Option<String> {
        let Some(manifest) = self.0.catalog.find(tool) else { return Some((at + 1).to_string()) };
        Some(manifest.input.get("required")?.get(at)?.as_str()?.to_owned())
    }
}

/// The number of a step and the rest of the line after the first backquote, if the line begins as a
/// step does.
fn head(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.trim_start().split_once(". `")?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some((number, rest))
}

/// Whether a line begins as a step does.
pub(super) fn is_step(line: &str) -> bool {
    head(line).is_some()
}

/// Whether a line that is not a step has a call of a known tool in backquotes.
pub(super) fn hides_a_call(line: &str, tools: &RunbookTools<'_>) -> Option<String> {
    let spans = line.split('`').skip(1).step_by(2);
    let mut names = spans.filter_map(|span| span.split_once('(')).map(|(name, _)| name.trim());
    names.find(|name| tools.knows(name)).map(str::to_owned)
}

impl RunbookStep {
    /// Reads a line: `None` if it is not a step, an error if it begins as one and is not.
    pub(super) fn read(
        text: &str,
        line: usize,
        tools: &RunbookTools<'_>,
        service: Option<&str>,
    ) -> Option<Result<Self, String>> {
        let (number, rest) = head(text)?;
        Some(Self::parse(number, rest, line, tools, service))
    }

    fn parse(
        number: &str,
        rest: &str,
        line: usize,
        tools: &RunbookTools<'_>,
        service: Option<&str>,
    ) -> Result<Self, String> {
        let form = "a step is ``1. `tool(name=value)` words``, with exactly one call";
        let (written, says) = rest.split_once('`').ok_or(form)?;
        let calls = written_calls(written, &RequiredArguments(tools)).ok_or(form)?;
        let [call] = calls.as_slice() else { return Err(form.to_owned()) };
        if let Some(why) = tools.mistyped(&call.tool) {
            return Err(why);
        }
        if let Some(second) = hides_a_call(says, tools) {
            return Err(format!(
                "a step has exactly one call, and this line calls `{second}` too: make it a step of its own"
            ));
        }
        let call = placed(call, tools)?;
        let is_on = tools.catalog.find(&call.tool).is_some();
        let step = Self { number: number.to_owned(), line, says: says.trim_end().to_owned(), is_on, call };
        if is_on {
            let WrittenCall { tool, arguments } = step.call(service);
            let proposed = ProposedCall { id: "runbook".to_owned(), tool, arguments };
            let valid = tools.catalog.validate(proposed, |_| true).map_err(|invalid| invalid.reason)?;
            drop(valid);
        }
        Ok(step)
    }

    /// The name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.call.tool
    }

    /// Whether the call needs a service to be named.
    #[must_use]
    pub fn needs_service(&self) -> bool {
        self.call.arguments.contains(SERVICE)
    }

    /// The call, with this service. A service is made of letters, digits and `._@-`, so it is the
    /// same in JSON.
    #[must_use]
    pub fn call(&self, service: Option<&str>) -> WrittenCall {
        let arguments = match service {
            Some(service) => self.call.arguments.replace(SERVICE, service),
            None => self.call.arguments.clone(),
        };
        WrittenCall { arguments, ..self.call.clone() }
    }

    /// The line as a run gets it: with the path that a name of a folder stands for.
    pub(super) fn given(&self, service: Option<&str>) -> String {
        let WrittenCall { tool, arguments } = self.call(service);
        let members: Map<String, Value> = serde_json::from_str(&arguments).unwrap_or_default();
        let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}. `{tool}({})`{}", self.number, members.join(", "), self.says)
    }
}

/// The call with the folder of `[paths]` that its path begins with.
fn placed(call: &WrittenCall, tools: &RunbookTools<'_>) -> Result<WrittenCall, String> {
    let Some(manifest) = tools.catalog.find(&call.tool) else { return Ok(call.clone()) };
    let ResourceSpec::Path { argument } = &manifest.resource else { return Ok(call.clone()) };
    // As the catalog reads it: a name that is written twice is a mistake.
    let arguments = parse_strict(call.arguments.as_bytes(), limits::JSON_DEPTH_MAX);
    let Value::Object(mut members) = arguments.map_err(|e| format!("the arguments: {e}"))? else {
        return Ok(call.clone());
    };
    let Some(rest) = members.get(argument).and_then(Value::as_str).and_then(|path| path.strip_prefix('@'))
    else {
        return Ok(call.clone());
    };
    let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
    let folder = tools.paths.get(name).ok_or_else(|| format!("`@{name}` is not in `[paths]` of par.toml"))?;
    let path = if below.is_empty() { folder.clone() } else { folder.join(below) };
    let path = path.to_str().ok_or_else(|| format!("the folder `@{name}` is not UTF-8"))?;
    members.insert(argument.clone(), Value::from(path));
    Ok(WrittenCall { arguments: Value::Object(members).to_string(), ..call.clone() })
}
