//! `par policy new`: a rule with its cases, from a form that reads like a sentence.

use super::gates::with_gate;
use super::holder::{RuleHolder, unknown_group};
use super::model_rule;
use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::cli::new::{FoundPlace, NewCase, Proposal, text};
use crate::cli::tool::disabled;
use crate::config::Config;
use crate::policy::MODEL_ASK;
use crate::tools::{Catalog, Class, IdKind, Manifest, ResourceSpec, check_id};
use crate::types::{HostPort, nearest};
use clap::Args;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A user of cases, who exists only there.
const APPROVER: &str = "an-approver";

#[derive(Debug, Args)]
pub(in crate::cli) struct NewPolicy {
    /// Who may: a role, `user:NAME`, `group:NAME` or `key:NAME`
    #[arg(long, value_name = "WHO")]
    who: String,
    /// What they may do: a tool, a class of tools (`read`, `write`, `exec`, `net`, `admin`), or
    /// `model.ask`
    #[arg(long, value_name = "WHAT")]
    may: String,
    /// On what: a path, `@` and a name of `[paths]`, `project:NAME`, `service:NAME`, `job:NAME`,
    /// `host:NAME`, or for `model.ask` `model:NAME`
    #[arg(long, value_name = "OBJECT")]
    on: String,
    /// Only after a person's yes: `approved:GROUP` by another user in the group, or `confirmed`
    #[arg(long, value_name = "YES")]
    until: Option<String>,
    /// Name of the rule [default: made of the other words]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Also add the path to `read` in the manifests of the tools, if they may not read it yet
    #[arg(long)]
    grant: bool,
}

/// A file with its new text.
type ChangedFile = (PathBuf, String);

/// What a rule is about.
enum RuleObject {
    Path(FoundPlace),
    Id(IdKind, String),
    Host(String),
}

/// The yes that a call needs.
enum NeededYes {
    Approved(String),
    Confirmed,
}

impl NewPolicy {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let rules = compose::load_rules(config)?;
        let holder = RuleHolder::parse(config, &self.who);
        if self.may == MODEL_ASK {
            let holder = holder?;
            if self.until.is_some() || self.grant {
                return Err(Fail::usage(
                    "`--until` and `--grant` are for tools: no person is asked in the middle of a run",
                ));
            }
            return model_rule::add(config, &holder, &self.on, &self.rule_id()?, is_json);
        }
        let object = RuleObject::parse(config, &self.on);
        let yes = self.until.as_deref().map(|word| NeededYes::parse(config, word)).transpose();
        let known = self.known(config, &rules.catalog);
        let (((), holder), (object, yes)) = both(both(known, holder), both(object, yes))?;
        let tools = self.tools(&rules.catalog, &object)?;
        let (tools, changed) = self.reaching(config, tools, &object)?;
        let id = self.rule_id()?;
        let cases =
            alike(&tools).iter().flat_map(|tools| cases(tools, &holder, &object, yes.as_ref())).collect();
        let groups = match &yes {
            Some(NeededYes::Approved(group)) => vec![(group.clone(), APPROVER.to_owned())],
            Some(NeededYes::Confirmed) | None => Vec::new(),
        };
        let proposal = Proposal {
            command: "policy new",
            stem: format!("60-{id}"),
            changed,
            rules: self.rules(&id, &rules.catalog, &holder, &object, yes.as_ref()),
            groups,
            cases,
            next: vec!["par reload    # if a server runs".to_owned(), "par policy test".to_owned()],
            ..Proposal::default()
        };
        proposal.add(config, is_json).map_err(|fail| match yes {
            Some(NeededYes::Confirmed) => with_gate(fail, &rules.bundle),
            _ => fail,
        })
    }

    /// Whether `--may` names a tool or a class of tools.
    fn known(&self, config: &Config, catalog: &Catalog) -> Result<(), Fail> {
        let (may, classes) = (self.may.as_str(), Class::ALL.map(Class::as_str));
        if catalog.find(may).is_some() || classes.contains(&may) {
            return Ok(());
        }
        let names = catalog.manifests().map(|manifest| manifest.name.as_str());
        let close = nearest(may, classes.into_iter().chain(names));
        let mend = close.map_or_else(
            || format!("the classes are {}; `par tool list` shows the tools", classes.join(", ")),
            |close| format!("did you mean `{close}`?"),
        );
        let why = disabled(&config.home, may).unwrap_or_else(|| format!("no class or tool is named `{may}`"));
        Err(Fail::usage(format!("`--may`: {why}: {mend}")))
    }

    /// The tools that the rule is for.
    fn tools<'a>(&self, catalog: &'a Catalog, object: &RuleObject) -> Result<Vec<&'a Manifest>, Fail> {
        let may = self.may.as_str();
        if let Some(tool) = catalog.find(may) {
            return match object.is_of(tool) {
                true => Ok(vec![tool]),
                false => Err(Fail::usage(format!(
                    "the tool `{may}` is about a {}, and `--on {}` is not one",
                    tool.resource.kind(),
                    self.on
                ))),
            };
        }
        let of_class: Vec<&Manifest> = catalog
            .manifests()
            .map(|manifest| &**manifest)
            .filter(|manifest| manifest.class.as_str() == may && object.is_of(manifest))
            .collect();
        match of_class.is_empty() {
            true => Err(Fail::usage(format!("no tool of the class `{may}` is about `{}`", self.on))),
            false => Ok(of_class),
        }
    }

    /// The tools whose manifests grant the path, and the manifests to change for the others.
    fn reaching<'a>(
        &self,
        config: &Config,
        tools: Vec<&'a Manifest>,
        object: &RuleObject,
    ) -> Result<(Vec<&'a Manifest>, Vec<ChangedFile>), Fail> {
        let RuleObject::Path(place) = object else { return Ok((tools, Vec::new())) };
        let is_granted = |tool: &&Manifest| tool.read.iter().any(|root| place.real.starts_with(root));
        let (within, without): (Vec<&Manifest>, Vec<&Manifest>) = tools.into_iter().partition(is_granted);
        if !self.grant && !within.is_empty() {
            return Ok((within, Vec::new()));
        }
        let mut changed = Vec::new();
        let mut lines = String::new();
        for tool in &without {
            let (line, text) = with_read(tool, &place.written).ok_or_else(|| {
                Fail::usage(format!(
                    "{}: `read` is not on one line: add `{}` to it by hand",
                    tool.file.display(),
                    place.written
                ))
            })?;
            lines += &format!("\n{}:{}\n    | {}", tool.file.display(), line.0, line.1);
            changed.push((tool.file.clone(), text));
        }
        if self.grant {
            return Ok((within.into_iter().chain(without).collect(), changed));
        }
        let home = config.home.etc.display();
        Err(Fail::usage(format!(
            "no tool for `--may {}` may read `{}`, and a rule can only narrow what a manifest grants. Add it \
             to `read` in {home}/tools.d/, or say `--grant` to do so:{lines}",
            self.may, place.written
        )))
    }

    fn rule_id(&self) -> Result<String, Fail> {
        let made = || {
            let spoken = format!("{}-{}-{}", self.who, self.may, self.on);
            let plain: String = spoken
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
                .collect();
            let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
            parts.join("-").chars().take(60).collect()
        };
        let id: String = self.id.clone().unwrap_or_else(made);
        check_id(&id).map_err(|e| Fail::usage(format!("`--id {id}`: {e}")))?;
        Ok(id)
    }

    /// The gate alone, if other rules permit the calls already; else with the permit.
    fn rules(
        &self,
        id: &str,
        catalog: &Catalog,
        holder: &RuleHolder,
        object: &RuleObject,
        yes: Option<&NeededYes>,
    ) -> Vec<String> {
        let action = match catalog.find(&self.may) {
            Some(tool) => format!("action == PAR::Action::{}", text(&tool.name)),
            None => format!("action in PAR::Action::{}", text(&self.may)),
        };
        let scope = format!("(\n    {},\n    {action},\n    {}\n)", holder.cedar(), object.cedar());
        let permit = format!("@id({})\npermit {scope};\n", text(id));
        let Some(yes) = yes else { return vec![permit] };
        let id = text(&format!("{id}-asks"));
        let (gate, advice, word) = match yes {
            NeededYes::Approved(group) => (
                format!("@require_approval({})", text(group)),
                format!("another user in the group {group} must approve this"),
                "approved",
            ),
            NeededYes::Confirmed => {
                ("@require_confirm(\"\")".to_owned(), "a person must confirm this".to_owned(), "confirmed")
            }
        };
        let or = if word == "confirmed" { " || context.call.approved == \"approved\"" } else { "" };
        let gate = format!(
            "@id({id})\n{gate}\n@advice({})\nforbid {scope}\nunless {{ context.call.approved == \"{word}\"{or} }};\n",
            text(&advice)
        );
        let both = format!("{permit}\n{gate}");
        vec![gate, both]
    }
}

impl RuleObject {
    fn parse(config: &Config, word: &str) -> Result<Self, Fail> {
        if word.starts_with(['/', '@']) {
            return FoundPlace::find(config, word).map(Self::Path);
        }
        let wrong = || {
            Fail::usage(format!(
                "`--on {word}`: expected a path, `@` and a name of `[paths]`, project:NAME, service:NAME, \
                 job:NAME or host:NAME"
            ))
        };
        let (kind, name) = word.split_once(':').ok_or_else(wrong)?;
        if kind == "host" {
            let is_known =
                name == "localhost" || HostPort::parse(name).is_ok_and(|host| host.as_str() == name);
            return match is_known {
                true => Ok(Self::Host(name.to_owned())),
                false => {
                    Err(Fail::usage(format!("`--on {word}`: expected `host:localhost` or host:NAME:PORT")))
                }
            };
        }
        let kind =
            IdKind::ALL.into_iter().find(|known| known.as_str().to_lowercase() == kind).ok_or_else(wrong)?;
        kind.check(name).map_err(|e| Fail::usage(format!("`--on {word}`: {e}")))?;
        Ok(Self::Id(kind, name.to_owned()))
    }

    fn is_of(&self, tool: &Manifest) -> bool {
        match (self, &tool.resource) {
            (Self::Path(_), ResourceSpec::Path { .. }) => true,
            (Self::Id(kind, _), ResourceSpec::Id { kind: of, .. }) => kind == of,
            (Self::Host(name), ResourceSpec::Fixed { id, .. }) => name == id,
            (Self::Host(name), ResourceSpec::Host { .. }) => name != "localhost",
            _ => false,
        }
    }

    fn cedar(&self) -> String {
        match self {
            Self::Path(place) => format!("resource in PAR::Path::{}", text(&place.in_rule)),
            Self::Id(kind, id) => format!("resource == PAR::{}::{}", kind.as_str(), text(id)),
            Self::Host(id) => format!("resource == PAR::Host::{}", text(id)),
        }
    }

    /// For messages, with the resources of a case.
    fn shown(&self) -> (String, Vec<String>) {
        match self {
            Self::Path(place) => (place.written.clone(), place.in_cases.clone()),
            Self::Id(kind, id) => (format!("the {} {id}", kind.as_str().to_lowercase()), vec![id.clone()]),
            Self::Host(id) if id == "localhost" => ("this host".to_owned(), Vec::new()),
            Self::Host(id) => (id.clone(), vec![id.clone()]),
        }
    }
}

impl NeededYes {
    fn parse(config: &Config, word: &str) -> Result<Self, Fail> {
        match word.split_once(':') {
            Some(("approved", group)) if config.groups.contains_key(group) => {
                Ok(Self::Approved(group.to_owned()))
            }
            Some(("approved", group)) => Err(unknown_group(group)),
            None if word == "confirmed" => Ok(Self::Confirmed),
            _ => Err(Fail::usage(format!("`--until {word}`: expected approved:GROUP or confirmed"))),
        }
    }
}

/// Both values, or the faults of both.
fn both<A, B>(one: Result<A, Fail>, other: Result<B, Fail>) -> Result<(A, B), Fail> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => Err(Fail { what: format!("{}\npar: {}", one.what, other.what), ..one }),
        (Err(fail), _) | (_, Err(fail)) => Err(fail),
    }
}

/// The tools, those with the same arguments in one list: a case covers such a list.
fn alike<'a>(tools: &[&'a Manifest]) -> Vec<Vec<&'a Manifest>> {
    let mut lists: Vec<Vec<&Manifest>> = Vec::new();
    for tool in tools {
        let same =
            lists.iter_mut().find(|list| list.first().is_some_and(|one| arguments(one) == arguments(tool)));
        match same {
            Some(list) => list.push(tool),
            None => lists.push(vec![tool]),
        }
    }
    lists
}

/// The cases of tools with the same arguments.
fn cases(
    tools: &[&Manifest],
    holder: &RuleHolder,
    object: &RuleObject,
    yes: Option<&NeededYes>,
) -> Vec<NewCase> {
    let ((who, caller), (others, other)) = (holder.caller(), holder.others());
    let (on, resources) = object.shown();
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let case = |name: String, caller: &str, more: String, expect, is_needed| NewCase {
        name,
        caller: caller.to_owned(),
        tools: names.clone(),
        arguments: tools.first().map(|tool| arguments(tool)).unwrap_or_default(),
        resources: resources.clone(),
        sink: None,
        more,
        expect,
        is_needed,
    };
    let call = format!("{} on {on}", names.join(", "));
    let approver = format!("approver = \"{APPROVER}\"\n");
    let none = String::new;
    let mut cases = match yes {
        None => vec![case(format!("{who} may call {call}"), &caller, none(), "allow", true)],
        Some(NeededYes::Approved(group)) => vec![
            case(
                format!("{who} may call {call} only after the group {group} has approved"),
                &caller,
                format!("asks = [{}]\n", text(group)),
                "needs_approval",
                true,
            ),
            case(
                format!("{who} may call {call} once it is approved"),
                &caller,
                format!("approved = \"approved\"\n{approver}"),
                "allow",
                true,
            ),
        ],
        Some(NeededYes::Confirmed) => vec![
            case(
                format!("{who} may call {call} only after a person has confirmed"),
                &caller,
                none(),
                "needs_approval",
                true,
            ),
            case(
                format!("{who} may call {call} once it is confirmed"),
                &caller,
                "approved = \"confirmed\"\n".to_owned(),
                "allow",
                true,
            ),
            // More than a confirmation. Another rule may ask for more than that.
            case(
                format!("{who} may call {call} once it is approved"),
                &caller,
                format!("approved = \"approved\"\n{approver}"),
                "allow",
                false,
            ),
        ],
    };
    cases.push(case(format!("{others} may not call {call}"), &other, none(), "deny", false));
    cases
}

/// Arguments that the tool's schema requires, other than the resource, with values that it accepts.
fn arguments(tool: &Manifest) -> Map<String, Value> {
    let resource = match &tool.resource {
        ResourceSpec::Path { argument }
        | ResourceSpec::Id { argument, .. }
        | ResourceSpec::Host { argument, .. } => argument.as_str(),
        ResourceSpec::Fixed { .. } => "",
    };
    let required = tool.input.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = required.filter_map(Value::as_str).filter(|name| *name != resource);
    names.map(|name| (name.to_owned(), sample(tool.input.pointer(&format!("/properties/{name}"))))).collect()
}

fn sample(schema: Option<&Value>) -> Value {
    let member = |name: &str| schema.and_then(|schema| schema.get(name));
    if let Some(first) = member("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return first.clone();
    }
    match member("type").and_then(Value::as_str) {
        Some("integer") => member("minimum").cloned().unwrap_or_else(|| Value::from(1)),
        Some("boolean") => Value::from(false),
        Some("array") => Value::Array(Vec::new()),
        _ => {
            let least = member("minLength").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            Value::from("1".repeat(least.unwrap_or(1).clamp(1, 64)))
        }
    }
}

/// The line of a manifest that lists `read`, and the manifest's text, with `path` added. `None` if
/// the list is not on one line.
fn with_read(tool: &Manifest, path: &str) -> Option<((usize, String), String)> {
    let at = tool.text.lines().position(|line| line.trim_start().starts_with("read ="))?;
    let line = tool.text.lines().nth(at)?;
    let (head, tail) = line.rsplit_once(']')?;
    let gap = if head.trim_end().ends_with('[') { "" } else { ", " };
    let new = format!("{head}{gap}{}]{tail}", text(path));
    let lines: Vec<&str> = tool
        .text
        .lines()
        .enumerate()
        .map(|(one, line)| if one == at { new.as_str() } else { line })
        .collect();
    Some(((at + 1, new.clone()), format!("{}\n", lines.join("\n"))))
}
