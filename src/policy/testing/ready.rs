//! Resolves cases against a catalog.

use super::folders::{Folders, expand, place};
use crate::auth::{Source, Subject};
use crate::policy::load::suite::case::{Case, Who, Yes};
use crate::policy::request::question::{Approved, Question, Resource, Session};
use crate::tools::{Catalog, HostForm, Manifest, ProposedCall, ResourceSpec};
use crate::types::KeyId;
use serde_json::Value;
use std::sync::Arc;

/// A case resolved against a catalog: everything that a question borrows.
#[derive(Debug)]
pub(in crate::policy) struct ReadyCase<'a> {
    pub(in crate::policy) case: &'a Case,
    subject: Subject,
    session: Session,
    manifest: Arc<Manifest>,
    arguments: Value,
    resource: Resource,
}

impl<'a> ReadyCase<'a> {
    pub(in crate::policy) fn new(
        case: &'a Case,
        catalog: &Catalog,
        folders: &Folders,
        named: &[String],
    ) -> Result<Self, String> {
        let manifest = catalog.find(&case.tool).ok_or_else(|| format!("no tool is named `{}`", case.tool))?;
        if let Some(tool) = case.who.ceiling.iter().flatten().find(|tool| catalog.find(tool).is_none()) {
            return Err(format!("`ceiling`: no tool is named `{tool}`"));
        }
        let is_sensitive = |name: &String| manifest.sensitive.iter().any(|one| one.name == *name);
        if let Some(name) = case.origins.members().keys().find(|name| !is_sensitive(name)) {
            return Err(format!("`from`: `{}` has no sensitive argument `{name}`", case.tool));
        }
        let mut arguments = case.arguments.clone();
        let resource = case.resource(manifest, folders, named, &mut arguments)?;
        let proposed = ProposedCall {
            id: "case".to_owned(),
            tool: case.tool.clone(),
            arguments: Value::Object(arguments).to_string(),
        };
        let valid = catalog.validate(proposed, |_| true).map_err(|e| format!("arguments: {}", e.reason))?;
        Ok(Self {
            case,
            subject: case.who.subject(),
            session: case.who.session(catalog),
            manifest: manifest.clone(),
            arguments: valid.arguments().clone(),
            resource,
        })
    }

    pub(in crate::policy) fn question(&self) -> Question<'_> {
        let by = self.case.approver.as_deref();
        Question {
            subject: &self.subject,
            session: &self.session,
            manifest: &self.manifest,
            arguments: &self.arguments,
            resource: &self.resource,
            approved: match self.case.approved {
                Yes::No => Approved::No,
                Yes::Confirmed => Approved::Confirmed { by },
                Yes::Approved => Approved::Approved { by },
            },
            now_us: self.case.now_us,
            source_ip: self.case.source_ip,
            channel: self.case.channel,
            counts: self.case.counts,
            origins: Some(&self.case.origins),
            is_chosen: self.case.is_chosen,
            is_halted: self.case.is_halted,
        }
    }
}

impl Who {
    /// A key of the user, or a user of the host if the name starts with `os:`.
    pub(in crate::policy) fn subject(&self) -> Subject {
        let id = || self.key.clone().or_else(|| KeyId::parse("testcase"));
        let key = || id().map(|id| Source::Key { id, name: "case".to_owned() });
        let (source, user) = match self.user.as_deref().and_then(|user| user.strip_prefix("os:")) {
            Some(name) => (Some(Source::Os { name: name.to_owned() }), None),
            None => (key(), self.user.clone()),
        };
        let source = source.unwrap_or_else(|| Source::Os { name: "case".to_owned() });
        Subject { source, role: self.role, user }
    }

    pub(in crate::policy) fn session(&self, catalog: &Catalog) -> Session {
        Session {
            id: "case".to_owned(),
            ceiling: self
                .ceiling
                .clone()
                .unwrap_or_else(|| catalog.manifests().map(|manifest| manifest.name.clone()).collect()),
            taint: self.taint.clone(),
            seen: self.seen.clone(),
            tainted_by: Vec::new(),
            calls_used: self.calls_used,
            budget: self.budget,
            risk: self.risk,
        }
    }
}

impl Case {
    /// The object; if the case leaves out the argument that names it, it is filled in.
    fn resource(
        &self,
        manifest: &Manifest,
        folders: &Folders,
        named: &[String],
        arguments: &mut serde_json::Map<String, Value>,
    ) -> Result<Resource, String> {
        let given = |argument: &str| {
            let words = self.resource.clone();
            words.or_else(|| self.arguments.get(argument).and_then(Value::as_str).map(str::to_owned))
        };
        let missing = || "`resource` is missing".to_owned();
        match &manifest.resource {
            ResourceSpec::Fixed { kind, id } => match &self.resource {
                Some(other) if other != id => Err(format!("`{}` has the resource `{id}`", self.tool)),
                _ => Ok(Resource::Fixed { kind: kind.clone(), id: id.clone() }),
            },
            ResourceSpec::Id { kind, argument } => {
                let id = given(argument).ok_or_else(missing)?;
                arguments.entry(argument.clone()).or_insert_with(|| Value::String(id.clone()));
                Ok(Resource::Id { kind: *kind, id })
            }
            ResourceSpec::Host { argument, form } => {
                let host = match self.arguments.get(argument).and_then(Value::as_str) {
                    Some(words) => form.read(words).map_err(|e| format!("`{argument}` {e}"))?,
                    None => HostForm::Host
                        .read(&given(argument).ok_or_else(missing)?)
                        .map_err(|e| e.to_string())?,
                };
                arguments.entry(argument.clone()).or_insert_with(|| Value::String(form.spell(&host)));
                Ok(Resource::host(host.as_str()))
            }
            ResourceSpec::Path { argument } => {
                let words = given(argument).ok_or_else(missing)?;
                let path = expand(&words, folders)?;
                arguments.entry(argument.clone()).or_insert_with(|| Value::String(path.clone()));
                Ok(place(&path, manifest, folders, named, &self.within))
            }
        }
    }
}
