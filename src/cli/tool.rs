//! `par tool`: lists, shows, adds, enables, disables and calls tools.

use super::exit::{self, Fail};
use super::new::{NewTool, disable, enable};
use super::remote::HomeServer;
use super::reply::{self, PrintedRun};
use super::table::{Column, Screen, Sheet};
use super::{compose, local, show};
use crate::agent::{Agent, RunReply, Step, ToolView};
use crate::auth::Principal;
use crate::config::{Config, Home};
use crate::gate::Rules;
use crate::policy::Door;
use crate::tools::{
    CodeTree, Element, Manifest, ResourceSpec, Runner, Stdin, UnknownTool, WriteRoot, check_id,
};
use crate::types::json::parse_strict;
use crate::types::{Decision, RefusalClass, StepStatus, limits, nearest, text};
use clap::Subcommand;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Debug, Subcommand)]
pub(super) enum Tool {
    /// List the tools
    List,
    /// Show a tool's manifest as PAR reads it
    Show {
        /// Name of the tool
        name: String,
    },
    /// Add a program as a tool: write its manifest, a rule that permits it, and cases of that rule
    New(NewTool),
    /// Enable a tool with its rules and cases: files of etc/ that end in `.disabled` are renamed
    Enable {
        /// Name of the tool
        name: String,
    },
    /// Disable a tool with its rules and cases; what was enabled for it alone is renamed
    Disable {
        /// Name of the tool
        name: String,
    },
    /// Call a tool yourself, through every check that applies to a model's call
    Call {
        /// Name of the tool
        name: String,
        /// Arguments of the tool, a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
    },
}

impl Tool {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        match self {
            Self::List => list(&compose::load(home)?, is_json),
            Self::Show { name } => describe(&compose::load(home)?, name, is_json),
            Self::New(new) => new.run(&compose::load(home)?, is_json),
            Self::Enable { name } => {
                let config = compose::load(home)?;
                enable(&config, name)?.print(&config, is_json)
            }
            Self::Disable { name } => {
                let config = compose::load(home)?;
                disable(&config, name)?.print(&config, is_json)
            }
            Self::Call { name, arguments } => {
                let (made, printed) = call(home, name, arguments, is_json)?;
                reply::print_rest(&made, &printed, is_json)?;
                if !is_json {
                    made.steps.iter().try_for_each(|step| show::result(&step.result))?;
                }
                // A refused or failed call makes the command fail, whatever the status of the run.
                let went_well = made.steps.iter().all(|step| step.status == StepStatus::Ok);
                let is_denied = made.steps.iter().any(|step| step.class == Some(RefusalClass::Policy));
                Ok(match exit::of_run(made.status) {
                    exit::OK if is_denied => exit::DENIED,
                    exit::OK if !went_well => exit::FAILED,
                    code => code,
                })
            }
        }
    }
}

/// Calls the tool through `par.sock` if a server runs, else in this process.
fn call(home: Home, name: &str, arguments: &str, is_json: bool) -> Result<(RunReply, PrintedRun), Fail> {
    let server = match HomeServer::find(&home)? {
        HomeServer::Asking(server) => server,
        HomeServer::AtUrl(url) => {
            return Err(Fail::new(
                exit::UNAUTHENTICATED,
                format!(
                    "a server is running at {url}, but this user cannot reach its `par.sock`: with an API key, \
                     send a message instead, for example `par run '{name}(…)'`"
                ),
            ));
        }
        HomeServer::Absent => {
            let (name, arguments) = (name.to_owned(), arguments.to_owned());
            let config = compose::load(home)?;
            let home = config.home.clone();
            return local::run_here(config, "tool call", !is_json, async move |agent, by| {
                hidden(agent, by, &name, &home).into_iter().for_each(|why| show::note(&why));
                agent.call(by, Door::LOCAL, name, arguments).await
            });
        }
    };
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(Fail::usage(format!("`{}` is not the name of a tool", text::visible_line(name))));
    }
    let arguments = parse_strict(arguments.as_bytes(), limits::JSON_DEPTH_MAX)
        .map_err(|e| Fail::usage(format!("the arguments are not valid JSON: {e}")))?;
    let made = server.run(&format!("/tools/{name}"), &arguments)?;
    note_unknown(&home, &made);
    Ok((made, PrintedRun::default()))
}

/// The names of tools in calls of a run that read as unknown.
fn unknown_in(made: &RunReply) -> BTreeSet<&str> {
    let is_unknown = |step: &&Step| {
        let error = step.result.get("error").and_then(Value::as_str);
        step.decision == Decision::Invalid
            && error.is_some_and(|error| UnknownTool::is_reason(error, &step.tool))
    };
    let names = made.steps.iter().filter(is_unknown).map(|step| step.tool.as_str());
    names.filter(|name| check_id(name).is_ok()).collect()
}

/// Says so if the manifest of a tool that the server of a home does not offer is there.
pub(super) fn note_unknown(home: &Home, made: &RunReply) {
    for name in unknown_in(made) {
        let file = format!("tools.d/{name}.toml");
        if let Some(why) = disabled(home, name) {
            show::note(&format!("par: {why}, and `par reload` loads it"));
        } else if home.etc.join(&file).is_file() {
            show::note(&format!(
                "par: `{file}` is there, but the server does not offer `{name}`: `par reload` loads it if it is new; \
                 else no policy permits you to use it"
            ));
        }
    }
}

/// Why tools that a run in this process called are hidden, a line each, for the owner of the home.
pub(super) fn hidden_in(agent: &Agent, by: &Principal, made: &RunReply, home: &Home) -> Vec<String> {
    unknown_in(made).into_iter().filter_map(|name| hidden(agent, by, name, home)).collect()
}

/// Why a tool is hidden, for the owner of the home. In the reply, as for a model, a tool that this
/// role may never use does not exist.
fn hidden(agent: &Agent, principal: &Principal, name: &str, home: &Home) -> Option<String> {
    if agent.gate().rules().catalog.find(name).is_none() {
        return disabled(home, name).map(|why| format!("par: {why}"));
    }
    if agent.tools(principal).iter().any(|tool| tool.name == name) {
        return None;
    }
    let role = principal.role().as_str();
    Some(format!(
        "par: the tool `{name}` exists, but no policy permits the role {role} (`auth.local_role`) to use it: \
         `par policy explain {name} '{{…}}' --as {role}` explains why"
    ))
}

fn list(config: &Config, is_json: bool) -> Result<u8, Fail> {
    let rules = compose::load_rules(config)?;
    if is_json {
        rules.catalog.manifests().try_for_each(|m| show::json(&ToolView::from(&**m)))?;
        return Ok(exit::OK);
    }
    let columns =
        [Column::Whole("name"), Column::Whole("class"), Column::Whole("risk"), Column::Words("summary")];
    let mut table = Sheet::new(&columns);
    for m in rules.catalog.manifests() {
        let summary = m.summary.clone();
        table.push(vec![
            m.name.clone().into(),
            m.class.as_str().into(),
            m.risk.as_str().into(),
            summary.into(),
        ]);
    }
    table.print(&Screen::stdout())?;
    unpermitted(&rules).into_iter().for_each(|note| show::note(&format!("par: {note}")));
    Ok(exit::OK)
}

/// A line for the tools that are on and that no rule permits.
pub(super) fn unpermitted(rules: &Rules) -> Option<String> {
    let tools = rules.bundle.unpermitted(&rules.catalog);
    let first = tools.first()?;
    let names: Vec<String> = tools.iter().map(|name| format!("`{name}`")).collect();
    let are =
        if tools.len() == 1 { "is on, and no rule permits it" } else { "are on, and no rule permits them" };
    Some(format!(
        "{} {are}: every call is denied, and a model is not offered it. `par policy new --who WHO \
         --may {first} …` writes a rule, and `par tool disable {first}` disables the tool",
        names.join(", ")
    ))
}

fn describe(config: &Config, name: &str, is_json: bool) -> Result<u8, Fail> {
    let rules = compose::load_rules(config)?;
    let manifest = rules.catalog.find(name).ok_or_else(|| Fail::failed(unknown(config, &rules, name)))?;
    let view = view(manifest);
    match is_json {
        true => show::json(&view)?,
        false => page(&view).print(&Screen::stdout())?,
    }
    Ok(exit::OK)
}

/// The members of a tool for people, in the order in which a person asks: what it is, what it runs,
/// what it may reach, its limits, its arguments. What a tool does not have is left out.
fn page(view: &Value) -> Sheet {
    let mut sheet = Sheet::bare(&[Column::Whole("name"), Column::Words("value")]);
    let mut put = |name: &str, value: &Value| {
        let words = plain(value);
        if !words.is_empty() {
            sheet.push(vec![name.into(), words.into()]);
        }
    };
    let of = |at: &str| view.pointer(at).unwrap_or(&Value::Null);
    for name in ["name", "summary", "class", "risk"] {
        put(name, of(&format!("/{name}")));
    }
    for name in ["builtin", "program", "script/name", "script/sha256", "arguments", "stdin", "exec"] {
        put(&name.replace('/', " "), of(&format!("/runs/{name}")));
    }
    for (name, at) in
        [("on", "/resource"), ("content", "/content"), ("below it", "/recursive"), ("reads", "/read")]
    {
        put(name, of(at));
    }
    for (name, at) in [("writes", "/write"), ("connects to", "/connect"), ("addresses", "/addresses")] {
        put(name, of(at));
    }
    for name in ["proc", "secrets", "groups"] {
        put(name, of(&format!("/{name}")));
    }
    let trusted = if of("/untrusted_output") == true { "untrusted: it taints the run" } else { "trusted" };
    put("its output", &Value::from(trusted));
    let limits = view.as_object().into_iter().flatten().filter(|(name, _)| name.ends_with("_max"));
    limits.for_each(|(name, limit)| put(name, limit));
    let required = of("/input/required");
    for (name, schema) in of("/input/properties").as_object().into_iter().flatten() {
        let is_required = required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let kind = schema.get("type").or_else(|| schema.get("enum")).map(plain).unwrap_or_default();
        let needed = if is_required { "required" } else { "optional" };
        let says = schema.get("description").map(plain).unwrap_or_default();
        let words = format!("{kind}, {needed}: {says}");
        put(&format!("argument {name}"), &Value::from(words.trim_end_matches([':', ' '])));
    }
    put("digest", of("/digest"));
    sheet
}

/// A value as words: a list with commas; nothing for what is absent, empty or false.
fn plain(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::String(words) => text::visible_line(words),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => text::visible_line(&other.to_string()),
    }
}

/// Says why the tool does not exist, for the owner of the home. A model only learns that it does
/// not.
pub(super) fn unknown(config: &Config, rules: &Rules, name: &str) -> String {
    if let Some(why) = disabled(&config.home, name) {
        return why;
    }
    let shown = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
    let known = rules.catalog.manifests().map(|manifest| manifest.name.as_str());
    let meant = nearest(name, known).map(|meant| format!(", did you mean `{meant}`?"));
    format!("no tool is named `{shown}`{}", meant.unwrap_or_default())
}

/// Says how a shipped tool of this name is enabled.
pub(super) fn disabled(home: &Home, name: &str) -> Option<String> {
    let off = format!("{name}.toml.disabled");
    let shown = text::visible_line(text::prefix(name, limits::SHOWN_BYTES_MAX));
    (!name.contains('/') && home.etc.join("tools.d").join(&off).is_file())
        .then(|| format!("the tool `{shown}` is disabled: `par tool enable {shown}` enables it"))
}

fn code(tree: &CodeTree) -> Value {
    json!({ "folder": tree.path(), "sha256": tree.digest().map(|digest| digest.hex()), "files": tree.count() })
}

fn view(manifest: &Manifest) -> Value {
    let runs = match &manifest.runner {
        Runner::Builtin(builtin) => json!({ "builtin": builtin }),
        Runner::Front(which) => json!({ "front": which }),
        Runner::Program(program) => {
            let script = program.script.as_ref();
            let script = script.map(|s| json!({ "name": s.name(), "sha256": s.digest().hex() }));
            let arguments: Vec<String> = program.args.iter().map(element).collect();
            let stdin = (manifest.stdin == Stdin::Json).then_some("json");
            json!({ "program": program.path, "script": script, "arguments": arguments, "stdin": stdin,
                    "exec": program.exec, "code": manifest.trees.iter().map(code).collect::<Vec<_>>() })
        }
    };
    json!({
        "name": manifest.name,
        "summary": manifest.summary,
        "class": manifest.class.as_str(),
        "risk": manifest.risk.as_str(),
        "runs": runs,
        "resource": manifest.resource.kind(),
        "content": manifest.content.as_ref().map(ToString::to_string),
        "recursive": manifest.recursive,
        "read": manifest.read,
        "proc": manifest.proc.as_str(),
        "secrets": manifest.secrets,
        "groups": manifest.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(),
        "write": manifest.write.iter().map(|root| written(root, manifest)).collect::<Vec<_>>(),
        "connect": manifest.connect.iter().map(ToString::to_string).chain(manifest.reach.entries()).collect::<Vec<_>>(),
        "addresses": manifest.reach.named.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "untrusted_output": manifest.untrusted_output,
        "wall_ms_max": manifest.limits.wall_ms_max,
        "output_bytes_max": manifest.limits.output_bytes_max,
        "memory_bytes_max": manifest.limits.memory_bytes_max,
        "processes_max": manifest.limits.processes_max,
        "file_bytes_max": manifest.limits.file_bytes_max,
        "network_bytes_max": manifest.limits.network_bytes_max,
        "written_bytes_max": manifest.limits.written_bytes_max,
        "written_files_max": manifest.limits.written_files_max,
        "digest": manifest.digest.hex(),
        "input": manifest.input,
    })
}

/// An element of the argument array, in the notation of the manifest.
fn element(element: &Element) -> String {
    match element {
        Element::Literal(word) => word.clone(),
        Element::Argument(name) => format!("{{{name}}}"),
        Element::Setting(option, name) => format!("{option}={{{name}}}"),
    }
}

/// A folder that the tool may change, in the notation of the manifest.
fn written(root: &WriteRoot, manifest: &Manifest) -> String {
    match &manifest.resource {
        ResourceSpec::Id { argument, .. } if root.by_id => {
            format!("{}/{{{argument}}}", root.folder.display())
        }
        _ => root.folder.display().to_string(),
    }
}
