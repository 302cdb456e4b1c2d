//! `par tool new`.

use super::argument::{ArgumentKind, CallArgument, ToolAbout, element, is_word, join};
use super::care;
use super::case::{NewCase, covered, in_shell, text, words};
use super::place::FoundPlace;
use super::program::runtime;
use super::proposal::Proposal;
use crate::auth::Role;
use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::Config;
use clap::Args;
use serde_json::{Map, Value};

#[derive(Debug, Args)]
pub(in crate::cli) struct NewTool {
    /// Name of the tool: a lower-case letter, then lower-case letters, digits and `_`
    name: String,
    /// Program to run, an absolute path
    #[arg(long, value_name = "PATH")]
    program: String,
    /// One argument of the program, in order; `{name}` is an argument of the call, `{name:integer}`
    /// a number, `{name:path}` what the call is about, `{name:string}` a text that is not a path
    #[arg(long = "arg", value_name = "WORD", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Folder or file that the tool may read: an absolute path, or `@` and a name of `[paths]`
    #[arg(long = "read", value_name = "PATH")]
    reads: Vec<String>,
    /// Folder that the tool may change, written like `--read`; needs `--class write`, `exec` or
    /// `admin`
    #[arg(long = "write", value_name = "PATH")]
    writes: Vec<String>,
    /// Give each call a `/proc` of its own, without the processes of the host
    #[arg(long)]
    proc: bool,
    /// Class: `read`, `write`, `exec`, `net` or `admin`
    #[arg(long, value_name = "CLASS", default_value = "read", hide_default_value = false,
          hide_possible_values = true, value_parser = ["read", "write", "exec", "net", "admin"])]
    class: String,
    /// Risk that people are shown: `low`, `medium` or `high`
    #[arg(long, value_name = "RISK", default_value = "low", hide_possible_values = true,
          value_parser = ["low", "medium", "high"])]
    risk: String,
    /// Role that may call the tool: `viewer`, `operator`, `approver` or `admin`
    #[arg(long, value_name = "ROLE", default_value = "operator", hide_possible_values = true,
          value_parser = ["viewer", "operator", "approver", "admin"])]
    role: String,
    /// One sentence for the model and for people [default: the command]
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
}

impl NewTool {
    pub(in crate::cli) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let name = &self.name;
        if name.is_empty() || name.len() > 64 || !is_word(name) {
            return Err(Fail::usage(format!(
                "`{}` does not match `[a-z][a-z0-9_]*`, at most 64 bytes",
                crate::types::text::visible_line(name)
            )));
        }
        let off = config.home.etc.join(format!("tools.d/{name}.toml.disabled"));
        if off.is_file() {
            return Err(Fail::usage(format!(
                "a tool `{name}` is there and disabled: `par tool enable {name}` enables it, or choose another name"
            )));
        }
        let (elements, arguments) = self.elements()?;
        let about = ToolAbout::find(&arguments, !(self.reads.is_empty() && self.writes.is_empty()))?;
        self.check_writing(&about)?;
        let find = |list: &[String]| {
            list.iter().map(|path| FoundPlace::find(config, path)).collect::<Result<Vec<_>, _>>()
        };
        let (reads, writes) = (find(&self.reads)?, find(&self.writes)?);
        let open = arguments.iter().filter(|one| one.kind == ArgumentKind::String && !about.is_in(&one.name));
        let open: Vec<&str> = open.map(|one| one.name.as_str()).collect();
        let granted: Vec<&str> = reads.iter().chain(&writes).map(|place| place.written.as_str()).collect();
        let more = care::past_rules(&open, &granted).into_iter().chain(care::host_processes(&self.program));
        for line in care::lines(&elements, &reads, &self.class).into_iter().chain(more) {
            show::note(&format!("par: careful: {line}"));
        }
        let role = Role::parse(&self.role).ok_or_else(|| Fail::usage("unknown role"))?;
        let proposal = Proposal {
            command: "tool new",
            stem: format!("50-{name}"),
            manifest: Some((format!("{name}.toml"), self.manifest(&elements, &arguments, &about)?)),
            rules: vec![self.rule(&about, &reads)],
            cases: self.cases(role, &about, &reads, &arguments),
            next: vec![
                "par reload    # if a server runs".to_owned(),
                format!("par tool show {name}"),
                self.example(&reads, &arguments),
            ],
            ..Proposal::default()
        };
        proposal.add(config, is_json)
    }

    /// The elements of the command, and the arguments of the call.
    fn elements(&self) -> Result<(Vec<String>, Vec<CallArgument>), Fail> {
        let mut arguments: Vec<CallArgument> = Vec::new();
        let mut elements = vec![self.program.clone()];
        for word in &self.args {
            let (element, argument) = element(word)?;
            elements.push(element);
            argument.map_or(Ok(()), |new| join(&mut arguments, new))?;
        }
        Ok((elements, arguments))
    }

    /// What a tool that writes must be, before the manifest says it in its own words.
    fn check_writing(&self, about: &ToolAbout) -> Result<(), Fail> {
        match (self.writes.is_empty(), about) {
            (true, _) => Ok(()),
            (false, ToolAbout::Path(name)) => Err(Fail::usage(format!(
                "a tool that writes is not about a path: leave out `--write`, or name what the call is about with \
                 `{{project}}`, `{{service}}` or `{{job}}` in place of `{{{name}}}`"
            ))),
            (false, _) if matches!(self.class.as_str(), "read" | "net") => Err(Fail::usage(format!(
                "`--write` does not go with the class `{}`: add `--class write`, or `exec` or `admin`",
                self.class
            ))),
            (false, _) => Ok(()),
        }
    }

    fn manifest(
        &self,
        elements: &[String],
        arguments: &[CallArgument],
        about: &ToolAbout,
    ) -> Result<String, Fail> {
        let Self { name, class, risk, .. } = self;
        let summary = self.summary.clone().unwrap_or_else(|| format!("Run `{}`.", elements.join(" ")));
        let list = |items: &[String]| items.iter().map(|item| text(item)).collect::<Vec<_>>().join(", ");
        let resource = match about {
            ToolAbout::Path(name) => format!("type = \"Path\"\nfrom = \"/{name}\"\ncanonical = \"path\""),
            ToolAbout::Id(kind) => format!(
                "type = \"{}\"\nfrom = \"/{}\"\ncanonical = \"id\"",
                kind.as_str(),
                kind.as_str().to_lowercase()
            ),
            ToolAbout::ThisHost => "type = \"Host\"\nis = \"localhost\"".to_owned(),
        };
        let mut sandbox = format!("read = [{}]\n", list(&self.reads));
        let mut limits = String::new();
        if !self.writes.is_empty() {
            sandbox += &format!("write = [{}]\n", list(&self.writes));
            limits += "file_bytes_max = 16777216\n";
        }
        if self.proc {
            sandbox += "proc = \"self\"\n";
        }
        let mut out = format!(
            "# Written by `par tool new`. docs/tools.md describes every key.\n\
             name = {}\nsummary = {}\nclass = \"{class}\"\nrisk = \"{risk}\"\ncommand = [{}]\n\
             runtime = \"{}\"\nuntrusted_output = true\n\n[resource]\n{resource}\n\n[sandbox]\n{sandbox}\n\
             [limits]\nwall_ms_max = 10000\noutput_bytes_max = 65536\nmemory_bytes_max = 268435456\n\
             processes_max = 8\n{limits}\n[input]\ntype = \"object\"\nadditionalProperties = false\n",
            text(name),
            text(&summary),
            list(elements),
            runtime(&self.program)?,
        );
        let names: Vec<String> = arguments.iter().map(|one| one.name.clone()).collect();
        if !names.is_empty() {
            out += &format!("required = [{}]\n", list(&names));
        }
        for CallArgument { name, kind } in arguments {
            let bounds = match kind {
                ArgumentKind::Integer => "minimum = 0\nmaximum = 1000000",
                ArgumentKind::Path => "description = \"absolute path\"\nminLength = 1\nmaxLength = 4095",
                _ => "minLength = 1\nmaxLength = 256",
            };
            out += &format!("\n[input.properties.{name}]\ntype = \"{}\"\n{bounds}\n", kind.json_type());
        }
        Ok(out)
    }

    fn rule(&self, about: &ToolAbout, reads: &[FoundPlace]) -> String {
        let Self { name, role, .. } = self;
        let permit = |id: &str, resource: &str| {
            format!(
                "@id(\"{id}\")\npermit (\n    principal in PAR::Role::\"{role}\",\n    action == \
                 PAR::Action::\"{name}\",\n    {resource}\n);\n"
            )
        };
        let id = format!("{role}-calls-{name}");
        match about {
            ToolAbout::ThisHost => permit(&id, "resource == PAR::Host::\"localhost\""),
            ToolAbout::Id(kind) => permit(&id, &format!("resource is PAR::{}", kind.as_str())),
            ToolAbout::Path(_) => {
                let one = |(at, read): (usize, &FoundPlace)| {
                    let id = if at == 0 { id.clone() } else { format!("{id}-{}", at + 1) };
                    permit(&id, &format!("resource in PAR::Path::{}", text(&read.in_rule)))
                };
                reads.iter().enumerate().map(one).collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn cases(
        &self,
        role: Role,
        about: &ToolAbout,
        reads: &[FoundPlace],
        arguments: &[CallArgument],
    ) -> Vec<NewCase> {
        let (covered, others) = covered(role);
        let (resources, on) = match about {
            ToolAbout::ThisHost => (Vec::new(), String::new()),
            ToolAbout::Id(kind) => (vec!["example".to_owned()], format!(" on a {}", kind.as_str())),
            ToolAbout::Path(_) => {
                let all = reads.iter().flat_map(|read| read.in_cases.clone()).collect();
                let names: Vec<&str> = reads.iter().map(|read| read.written.as_str()).collect();
                (all, format!(" on {} and below", names.join(", ")))
            }
        };
        let sample = |kind| match kind {
            ArgumentKind::Integer => Value::from(1),
            _ => Value::from("example"),
        };
        let arguments: Map<String, Value> = arguments
            .iter()
            .filter(|one| !about.is_in(&one.name))
            .map(|one| (one.name.clone(), sample(one.kind)))
            .collect();
        let case = |name: String, roles: &[String], resources: Vec<String>, expect, is_needed| NewCase {
            name,
            caller: format!("role = {}", words(roles)),
            tools: vec![self.name.clone()],
            arguments: arguments.clone(),
            resources,
            sink: None,
            expect,
            is_needed,
            more: String::new(),
        };
        let tool = &self.name;
        let may = format!("{} may call {tool}{on}", covered.join(" and "));
        let may_not = format!("{} may not call {tool}", others.join(" and "));
        let mut cases = vec![
            case(may, &covered, resources.clone(), "allow", true),
            case(may_not, &others, resources, "deny", false),
        ];
        if matches!(about, ToolAbout::Path(_)) {
            let name = format!("{tool} reads nothing outside its folders");
            cases.push(case(name, &covered, vec!["/elsewhere/file".to_owned()], "deny", false));
        }
        cases
    }

    /// A command that calls the tool. It needs no model.
    fn example(&self, reads: &[FoundPlace], arguments: &[CallArgument]) -> String {
        let value = |one: &CallArgument| match one.kind {
            ArgumentKind::Integer => Value::from(1),
            ArgumentKind::Path => Value::from(reads.first().map_or_else(String::new, FoundPlace::example)),
            _ => Value::from("…"),
        };
        let arguments: Map<String, Value> =
            arguments.iter().map(|one| (one.name.clone(), value(one))).collect();
        match arguments.is_empty() {
            true => format!("par tool call {}", self.name),
            false => {
                format!("par tool call {} {}", self.name, in_shell(&Value::from(arguments).to_string()))
            }
        }
    }
}
