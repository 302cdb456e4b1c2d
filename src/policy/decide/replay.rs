//! Repeats a decision from its record: no file, no clock, no catalog.
//!
//! A recorded request is read back into the form that requests are built in, so the code that
//! decided also evaluates the replay.

use super::decision::refuse_error;
use super::explain::Considered;
use super::ruling::Ruling;
use super::shadow::Shadow;
use crate::policy::ask::ACTION;
use crate::policy::load::bundle::Bundle;
use crate::policy::request::cedar::{Built, Node, Owed, Uid, Value};
use crate::tools::Catalog;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// The request of a decision as it is on the ledger, for any bundle to decide.
#[derive(Clone, Debug)]
pub struct RecordedRequest(pub(in crate::policy) Built);

/// Why a recorded request has no form that this program records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// A member of the request is missing.
    #[error("the request has no `{0}`")]
    MissingInRequest(&'static str),
    /// A member of an entity is missing.
    #[error("an entity has no `{0}`")]
    MissingInEntity(&'static str),
    /// A member that must be a list.
    #[error("`{0}` is not a list")]
    NoList(&'static str),
    /// A member that must be an object.
    #[error("`{0}` is not an object")]
    NoObject(&'static str),
    /// The action's type is not `Action`.
    #[error("the action has the type `{0}`")]
    OtherAction(&'static str),
    /// [`RecordedRequest::about`] was called with something other than a path or a unit.
    #[error("it is not about a path or a unit")]
    NoPath,
    /// An entity without `type` and `id`.
    #[error("an entity is not named by `type` and `id`")]
    Unnamed,
    /// An entity type that PAR's schema does not have.
    #[error("unknown entity type `{0}`")]
    UnknownType(String),
    /// A number that Cedar does not have.
    #[error("`{0}` is not an integer")]
    NoInteger(serde_json::Number),
    /// Cedar has no `null`.
    #[error("`null` is not a value")]
    Null,
    /// An extension function that PAR does not record.
    #[error("unknown function `{0}`")]
    UnknownFunction(String),
    /// An extension value without its function.
    #[error("a value made by a function needs `fn` and `arg`")]
    NoFunction,
    /// The request is for a tool that the catalog does not have.
    #[error("no tool is named `{0}`")]
    UnknownTool(String),
}

/// An answer to a recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedDecision {
    /// The answer.
    pub answer: Ruling,
    /// What policies in shadow mode would have changed.
    pub shadow: Option<Shadow>,
    /// Whether the request matches the bundle's schema. One that does not is a deny.
    pub fits: bool,
    /// Whether the request was recorded under an earlier schema, and what it did not record was
    /// filled in.
    pub filled: bool,
}

impl RecordedRequest {
    /// Reads the `request` of a decision's payload.
    ///
    /// # Errors
    ///
    /// Names the first member that is missing or has another form than the recorded one.
    pub fn read(request: &Json) -> Result<Self, RecordedError> {
        let member = |name: &'static str| request.get(name).ok_or(RecordedError::MissingInRequest(name));
        let action = uid(member("action")?)?;
        if action.0 != "Action" {
            return Err(RecordedError::OtherAction(action.0));
        }
        let nodes = member("entities")?.as_array().ok_or(RecordedError::NoList("entities"))?;
        Ok(Self(Built {
            principal: uid(member("principal")?)?,
            action: action.1,
            resource: uid(member("resource")?)?,
            context: record(member("context")?.as_object().ok_or(RecordedError::NoObject("context"))?)?,
            nodes: nodes.iter().map(node).collect::<Result<_, _>>()?,
            // It was checked against its question before it was recorded.
            owed: Owed::default(),
        }))
    }

    /// The same request about another path or a unit: `resource`, with its parent paths, or itself,
    /// as `entities`.
    pub fn about(&self, resource: &Json, entities: &Json) -> Result<Self, RecordedError> {
        let paths = entities.as_array().ok_or(RecordedError::NoList("entities"))?;
        let paths = paths.iter().map(node).collect::<Result<Vec<_>, _>>()?;
        let resource = uid(resource)?;
        let kind = resource.0;
        let is_same_kind = |node: &Node| node.uid.0 == kind;
        if !matches!(resource.0, "Path" | "Service") || !paths.iter().all(is_same_kind) {
            return Err(RecordedError::NoPath);
        }
        let replaced = |node: &Node| is_same_kind(node) || node.uid == self.0.resource;
        let kept = self.0.nodes.iter().filter(|node| !replaced(node)).cloned();
        Ok(Self(Built { resource, nodes: kept.chain(paths).collect(), ..self.0.clone() }))
    }

    /// Name of the tool; for a use of a power, of its action.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.0.action
    }

    /// Identifier of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.0.principal.1
    }

    /// The principal; for a power, the caller as the ledger names it.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.0.principal.1
    }

    /// Whether the session belongs to the key or user that the ledger calls `principal`.
    #[must_use]
    pub fn is_by(&self, principal: &str) -> bool {
        let session = self.0.nodes.iter().find(|node| node.uid == self.0.principal);
        let is = |uid: &Uid| match uid {
            Uid("ApiKey", id) => principal.strip_prefix("key:") == Some(id),
            Uid("User", name) => name == principal,
            _ => false,
        };
        session.is_some_and(|session| session.parents.iter().any(is))
    }

    /// Type, without the namespace, and id of the resource.
    #[must_use]
    pub fn resource(&self) -> (&str, &str) {
        (self.0.resource.0, &self.0.resource.1)
    }
}

impl Bundle {
    /// Decides a request that was recorded under this bundle, as [`Bundle::decide`] decided it.
    #[must_use]
    pub fn decide_again(&self, recorded: &RecordedRequest) -> RepeatedDecision {
        let (answer, shadow) = self.answers(&recorded.0);
        RepeatedDecision { answer, shadow, fits: true, filled: false }
    }

    /// Decides a request that was recorded under another bundle, and so built for that bundle's
    /// schema: what an earlier schema did not have is filled in; if any other part of it does not
    /// match this bundle's schema, the answer is a deny.
    #[must_use]
    pub fn decide_other(&self, recorded: &RecordedRequest) -> RepeatedDecision {
        let filled = recorded.0.filled(self.sensitive.get(recorded.tool())).map(RecordedRequest);
        let recorded = filled.as_ref().unwrap_or(recorded);
        let again = match recorded.0.cedar_checked(&self.schema) {
            Ok(_) => self.decide_again(recorded),
            Err(error) => {
                let answer = refuse_error(vec![error.to_string()]);
                RepeatedDecision { answer, shadow: None, fits: false, filled: false }
            }
        };
        RepeatedDecision { filled: filled.is_some(), ..again }
    }

    /// The answer of this bundle to the `request` of a `call.decision` or a `model.ask`, and each
    /// policy that it considered.
    ///
    /// # Errors
    ///
    /// `request` is not a request for a tool in `catalog` or for a model.
    pub fn explain_recorded(
        &self,
        catalog: &Catalog,
        request: &Json,
    ) -> Result<(Ruling, Vec<Considered>), RecordedError> {
        let recorded = RecordedRequest::read(request)?;
        let tool = recorded.tool();
        let filled = recorded.0.filled(self.sensitive.get(tool));
        let asked = filled.as_ref().unwrap_or(&recorded.0).cedar_checked(&self.schema);
        let considered = match catalog.find(tool) {
            Some(manifest) => self.consider_each(tool, manifest.class, asked),
            None if tool == ACTION => self.consider_asks(asked.as_ref()),
            None => return Err(RecordedError::UnknownTool(tool.to_owned())),
        };
        Ok((self.decide_other(&recorded).answer, considered))
    }
}

fn node(json: &Json) -> Result<Node, RecordedError> {
    let member = |name: &'static str| json.get(name).ok_or(RecordedError::MissingInEntity(name));
    let parents = member("parents")?.as_array().ok_or(RecordedError::NoList("parents"))?;
    Ok(Node {
        uid: uid(member("uid")?)?,
        attributes: record(member("attrs")?.as_object().ok_or(RecordedError::NoObject("attrs"))?)?,
        parents: parents.iter().map(uid).collect::<Result<_, _>>()?,
    })
}

fn uid(json: &Json) -> Result<Uid, RecordedError> {
    let word = |name: &str| json.get(name).and_then(Json::as_str);
    let (kind, id) = word("type").zip(word("id")).ok_or(RecordedError::Unnamed)?;
    let known = kind.strip_prefix("PAR::").and_then(crate::policy::request::cedar::kind);
    Ok(Uid(known.ok_or_else(|| RecordedError::UnknownType(kind.to_owned()))?, id.to_owned()))
}

fn record(members: &Map<String, Json>) -> Result<BTreeMap<String, Value>, RecordedError> {
    members.iter().map(|(name, json)| Ok((name.clone(), value(json)?))).collect()
}

fn value(json: &Json) -> Result<Value, RecordedError> {
    Ok(match json {
        Json::String(text) => Value::String(text.clone()),
        Json::Number(number) => {
            Value::Long(number.as_i64().ok_or_else(|| RecordedError::NoInteger(number.clone()))?)
        }
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Array(items) => Value::Set(items.iter().map(value).collect::<Result<_, _>>()?),
        Json::Object(members) => match (members.get("__extn"), members.get("__entity")) {
            // No argument looks like these: names that start with `__` are reserved.
            (Some(Json::Object(extension)), None) if members.len() == 1 => extended(extension)?,
            (None, Some(entity @ Json::Object(_))) if members.len() == 1 => Value::Entity(uid(entity)?),
            _ => Value::Record(record(members)?),
        },
        Json::Null => return Err(RecordedError::Null),
    })
}

fn extended(members: &Map<String, Json>) -> Result<Value, RecordedError> {
    let word = |name: &str| members.get(name).and_then(Json::as_str);
    match (word("fn"), word("arg")) {
        (Some("decimal"), Some(text)) => Ok(Value::Decimal(text.to_owned())),
        (Some("datetime"), Some(text)) => Ok(Value::Datetime(text.to_owned())),
        (Some("ip"), Some(text)) => Ok(Value::Ip(text.to_owned())),
        (Some(other), _) => Err(RecordedError::UnknownFunction(other.to_owned())),
        (None, _) => Err(RecordedError::NoFunction),
    }
}
