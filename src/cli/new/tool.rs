//! `par tool new`.

use super::care;
use super::case::{NewCase, covered, in_shell, text, words};
use super::place::FoundPlace;
use super::program::runtime;
use super::proposal::Proposal;
use crate::auth::Role;
use crate::cli::exit::Fail;
use crate::cli::show;
use crate::config::Config;
use crate::tools::IdKind;
use clap::Args;
use serde_json::{Map, Value};

/// The kinds of arguments that a placeholder may have.
const KINDS: [&str; 2] = ["string", "integer"];

#[derive(Debug, Args)]
pub(in crate::cli) struct NewTool {
    /// Name of the tool: a lower-case letter, then lower-case letters, digits and `_`
    name: String,
    /// Program to run, an absolute path
    #[arg(long, value_name = "PATH")]
    program: String,
    /// One argument of the program, in order; `{name}` is an argument of the call, `{name:integer}`
    /// a number
    #[arg(long = "arg", value_name = "WORD", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Folder or file that the tool may read: an absolute path, or `@` and a name of `[paths]`
    #[arg(long = "read", value_name = "PATH")]
    reads: Vec<String>,
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

/// An argument of the call, by its name, and its kind.
type CallArgument = (String, &'static str);

/// What the calls are about, from the names of the arguments.
enum ToolAbout {
    Path,
    Id(IdKind),
    ThisHost,
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
        let about = self.about(&arguments)?;
        let reads =
            self.reads.iter().map(|read| FoundPlace::find(config, read)).collect::<Result<Vec<_>, _>>()?;
        for line in care::lines(&elements, &reads, &self.class) {
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
                self.example(&about, &reads, &arguments),
            ],
            ..Proposal::default()
        };
        proposal.add(config, is_json)
    }

    /// The elements of the command, and the arguments of the call with their kinds.
    fn elements(&self) -> Result<(Vec<String>, Vec<CallArgument>), Fail> {
        let mut arguments: Vec<CallArgument> = Vec::new();
        let mut elements = vec![self.program.clone()];
        for word in &self.args {
            let Some(inner) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
                elements.push(word.clone());
                continue;
            };
            let (name, kind) = inner.split_once(':').unwrap_or((inner, "string"));
            let kind = KINDS.into_iter().find(|known| *known == kind).ok_or_else(|| {
                Fail::usage(format!("`--arg {word}`: unknown kind `{kind}`, expected string or integer"))
            })?;
            if name.is_empty() || !is_word(name) {
                return Err(Fail::usage(format!(
                    "`--arg {word}`: `{name}` is not a name of lower-case letters, digits and `_`"
                )));
            }
            if !arguments.iter().any(|(known, _)| known == name) {
                arguments.push((name.to_owned(), kind));
            }
            elements.push(format!("{{{name}}}"));
        }
        Ok((elements, arguments))
    }

    fn about(&self, arguments: &[CallArgument]) -> Result<ToolAbout, Fail> {
        let has = |name: &str| arguments.iter().any(|(known, kind)| known == name && *kind == "string");
        if has("path") {
            return match self.reads.is_empty() {
                true => Err(Fail::usage(
                    "`{path}` is a file or folder: say with `--read` below which folders it may be",
                )),
                false => Ok(ToolAbout::Path),
            };
        }
        let id = IdKind::ALL.into_iter().find(|kind| has(&kind.as_str().to_lowercase()));
        Ok(id.map_or(ToolAbout::ThisHost, ToolAbout::Id))
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
            ToolAbout::Path => "type = \"Path\"\nfrom = \"/path\"\ncanonical = \"path\"".to_owned(),
            ToolAbout::Id(kind) => format!(
                "type = \"{}\"\nfrom = \"/{}\"\ncanonical = \"id\"",
                kind.as_str(),
                kind.as_str().to_lowercase()
            ),
            ToolAbout::ThisHost => "type = \"Host\"\nis = \"localhost\"".to_owned(),
        };
        let mut out = format!(
            "# Written by `par tool new`. docs/tools.md describes every key.\n\
             name = {}\nsummary = {}\nclass = \"{class}\"\nrisk = \"{risk}\"\ncommand = [{}]\n\
             runtime = \"{}\"\nuntrusted_output = true\n\n[resource]\n{resource}\n\n[sandbox]\nread = [{}]\n\n\
             [limits]\nwall_ms_max = 10000\noutput_bytes_max = 65536\nmemory_bytes_max = 268435456\n\
             processes_max = 8\n\n[input]\ntype = \"object\"\nadditionalProperties = false\n",
            text(name),
            text(&summary),
            list(elements),
            runtime(&self.program)?,
            list(&self.reads),
        );
        let names: Vec<String> = arguments.iter().map(|(name, _)| name.clone()).collect();
        if !names.is_empty() {
            out += &format!("required = [{}]\n", list(&names));
        }
        for (name, kind) in arguments {
            let bounds = match (*kind, name.as_str()) {
                ("integer", _) => "minimum = 0\nmaximum = 1000000",
                (_, "path") => "description = \"absolute path\"\nminLength = 1\nmaxLength = 4095",
                _ => "minLength = 1\nmaxLength = 256",
            };
            out += &format!("\n[input.properties.{name}]\ntype = \"{kind}\"\n{bounds}\n");
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
            ToolAbout::Path => {
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
            ToolAbout::Path => {
                let all = reads.iter().flat_map(|read| read.in_cases.clone()).collect();
                let names: Vec<&str> = reads.iter().map(|read| read.written.as_str()).collect();
                (all, format!(" on {} and below", names.join(", ")))
            }
        };
        let is_resource = |name: &str| match about {
            ToolAbout::Path => name == "path",
            ToolAbout::Id(kind) => name == kind.as_str().to_lowercase(),
            ToolAbout::ThisHost => false,
        };
        let sample = |kind: &str| if kind == "integer" { Value::from(1) } else { Value::from("example") };
        let arguments: Map<String, Value> = arguments
            .iter()
            .filter(|(name, _)| !is_resource(name))
            .map(|(name, kind)| (name.clone(), sample(kind)))
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
        if matches!(about, ToolAbout::Path) {
            let name = format!("{tool} reads nothing outside its folders");
            cases.push(case(name, &covered, vec!["/elsewhere/file".to_owned()], "deny", false));
        }
        cases
    }

    /// A command that calls the tool. It needs no model.
    fn example(&self, about: &ToolAbout, reads: &[FoundPlace], arguments: &[CallArgument]) -> String {
        let value = |name: &str, kind: &str| match (kind, about) {
            ("integer", _) => Value::from(1),
            (_, ToolAbout::Path) if name == "path" => {
                Value::from(reads.first().map_or_else(String::new, FoundPlace::example))
            }
            _ => Value::from("…"),
        };
        let arguments: Map<String, Value> =
            arguments.iter().map(|(name, kind)| (name.clone(), value(name, kind))).collect();
        match arguments.is_empty() {
            true => format!("par tool call {}", self.name),
            false => {
                format!("par tool call {} {}", self.name, in_shell(&Value::from(arguments).to_string()))
            }
        }
    }
}

fn is_word(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
