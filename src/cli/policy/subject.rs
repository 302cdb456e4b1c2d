//! The principal, the resource and the counts of a question that no run asks.

use crate::auth::{Role, Source, Subject};
use crate::cli::compose;
use crate::cli::exit::{self, Fail};
use crate::config::Config;
use crate::gate;
use crate::ledger::Reader;
use crate::policy::{Counts, Ran, Resource};
use crate::tools::{ResourceSpec, ValidCall};
use crate::types::clock::Wall;
use crate::types::{HostPort, KeyId};
use serde_json::Value;

/// The principal if only a role is given.
pub(super) const EXPLAIN_USER: &str = "os:explain";

/// A user of this host with this role.
pub(in crate::cli) fn role_subject(role: Role) -> Subject {
    let name = EXPLAIN_USER.trim_start_matches("os:").to_owned();
    Subject { source: Source::Os { name }, role, user: None }
}

/// The subject of the key `view`, an item of `par key list --json`.
pub(in crate::cli) fn key_subject(view: &Value) -> Result<Subject, Fail> {
    let word = |name: &str| view.get(name).and_then(Value::as_str);
    let parsed = word("id").and_then(KeyId::parse).zip(word("role").and_then(Role::parse));
    let (id, role) = parsed.ok_or_else(|| Fail::failed("the key has an unknown form"))?;
    let name = word("name").unwrap_or_default().to_owned();
    Ok(Subject { source: Source::Key { id, name }, role, user: word("user").map(str::to_owned) })
}

/// The resource as this process sees it: the real path if it can be resolved, otherwise the path as
/// written.
pub(in crate::cli) fn resource(config: &Config, valid: &ValidCall) -> Resource {
    match &valid.manifest().resource {
        ResourceSpec::Fixed { kind, id } => Resource::Fixed { kind: kind.clone(), id: id.clone() },
        ResourceSpec::Id { kind, argument } => {
            let id = valid.arguments().get(argument).and_then(Value::as_str).unwrap_or_default();
            Resource::Id { kind: *kind, id: id.to_owned() }
        }
        ResourceSpec::Host { argument, form } => {
            let words = valid.arguments().get(argument).and_then(Value::as_str).unwrap_or_default();
            Resource::host(form.read(words).as_ref().map_or(words, HostPort::as_str))
        }
        ResourceSpec::Path { argument } => {
            let words = valid.arguments().get(argument).and_then(Value::as_str).unwrap_or("/");
            let real = std::fs::canonicalize(words).ok();
            let path = real.as_ref().and_then(|path| path.to_str()).unwrap_or(words).to_owned();
            if valid.manifest().read.iter().any(|root| std::path::Path::new(&path).starts_with(root)) {
                let holds = config.paths.iter().filter(|(_, folder)| {
                    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| (*folder).clone());
                    std::path::Path::new(&path).starts_with(folder)
                });
                let within = holds.map(|(name, _)| format!("@{name}")).collect();
                Resource::Path { canonical: path, within }
            } else {
                Resource::Outside { lexical: path }
            }
        }
    }
}

/// What a caller has run within the last hour, from the ledger; zero without a ledger.
pub(super) fn ran(config: &Config, principal: &str) -> Result<Ran, Fail> {
    let path = compose::files(config).ledger();
    if !path.exists() {
        return Ok(Ran::default());
    }
    let reader = Reader::open(&path).map_err(Fail::failed)?;
    gate::ran(&reader, principal, Wall::now().0).map_err(|e| Fail::new(exit::UNVERIFIED, e))
}

/// How the tool was used within the last hour, from the ledger; zero without a ledger.
pub(super) fn counts(config: &Config, tool: &str) -> Result<Counts, Fail> {
    let path = compose::files(config).ledger();
    if !path.exists() {
        return Ok(Counts::default());
    }
    let reader = Reader::open(&path).map_err(Fail::failed)?;
    gate::counts(&reader, tool, Wall::now().0).map_err(|e| Fail::new(exit::UNVERIFIED, e))
}
