//! The whole Cedar request as plain values, and its conversions: to what Cedar evaluates, and to
//! what the ledger records.

use super::error::RequestError;
use super::question::Approved;
use crate::tools::IdKind;
use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression, Schema,
};
use cedar_policy_core::ast;
use cedar_policy_core::entities::{Entities as CoreEntities, NoEntitiesSchema, TCComputation};
use cedar_policy_core::extensions::Extensions;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr as _;
use std::sync::{Arc, LazyLock};

/// A plain value of the kinds that the schema uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::policy) enum Value {
    String(String),
    Long(i64),
    Bool(bool),
    Set(Vec<Value>),
    Record(BTreeMap<String, Value>),
    /// With a point, followed by one to four digits.
    Decimal(String),
    /// RFC 3339 with milliseconds.
    Datetime(String),
    Ip(String),
    Entity(Uid),
}

/// An entity's type, without the namespace, and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::policy) struct Uid(pub(in crate::policy) &'static str, pub(in crate::policy) String);

#[derive(Clone, Debug)]
pub(in crate::policy) struct Node {
    pub(in crate::policy) uid: Uid,
    pub(in crate::policy) attributes: BTreeMap<String, Value>,
    pub(in crate::policy) parents: Vec<Uid>,
}

/// The whole request: principal, action, resource, context and every entity.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Built {
    pub(in crate::policy) principal: Uid,
    pub(in crate::policy) action: String,
    pub(in crate::policy) resource: Uid,
    pub(in crate::policy) context: BTreeMap<String, Value>,
    pub(in crate::policy) nodes: Vec<Node>,
    /// What the nodes must contain.
    pub(in crate::policy) owed: Owed,
}

/// What principal and resource must be in, and which label of PAR's own the resource must carry.
/// Derived from the question, not from the nodes that were built for it.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Owed {
    pub(in crate::policy) principal: Vec<Uid>,
    pub(in crate::policy) resource: Vec<Uid>,
    pub(in crate::policy) label: Option<&'static str>,
    /// The owner that the resource must have.
    pub(in crate::policy) owner: Option<Uid>,
}

/// The actions of a schema: each with its ancestors, up to `call_tool`.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Actions(pub(in crate::policy) BTreeMap<String, Vec<Arc<ast::Entity>>>);

impl Actions {
    /// Whether `tool` is in the action group of its class and in `call_tool`.
    pub(in crate::policy) fn holds(&self, tool: &str, class: &str) -> bool {
        [class, "call_tool"].into_iter().all(|group| self.is_in(tool, group))
    }

    /// Whether `action` is in `group`.
    pub(in crate::policy) fn is_in(&self, action: &str, group: &str) -> bool {
        let action = self.0.get(action).and_then(|entities| entities.first());
        let group = Uid("Action", group.to_owned()).core();
        action.zip(group.ok()).is_some_and(|(action, group)| action.is_descendant_of(&group))
    }

    /// Whether `action` is known and in no group.
    pub(in crate::policy) fn is_alone(&self, action: &str) -> bool {
        self.0.get(action).is_some_and(|with_groups| with_groups.len() == 1)
    }

    pub(in crate::policy) fn new(schema: &Schema) -> Result<Self, RequestError> {
        let all = schema.action_entities().map_err(RequestError::cedar)?;
        let all: BTreeMap<&ast::EntityUID, Arc<ast::Entity>> = all
            .iter()
            .map(|entity| entity.as_ref())
            .map(|entity| (entity.uid(), Arc::new(entity.clone())))
            .collect();
        let of = |entity: &Arc<ast::Entity>| {
            let above =
                entity.ancestors().map(|uid| all.get(uid).cloned().ok_or(RequestError::ActionGroupMissing));
            let id: &str = entity.uid().eid().as_ref();
            Ok((
                id.to_owned(),
                std::iter::once(Ok(entity.clone())).chain(above).collect::<Result<_, RequestError>>()?,
            ))
        };
        Ok(Self(all.values().map(of).collect::<Result<_, RequestError>>()?))
    }
}

impl Built {
    /// Whether no approval has been given.
    pub(in crate::policy) fn is_unasked(&self) -> bool {
        let Some(Value::Record(call)) = self.context.get("call") else { return false };
        call.get("approved") == Some(&Value::String(Approved::No.as_str().to_owned()))
    }

    /// The same request as if an unnamed person had approved it.
    pub(in crate::policy) fn with_approval(&self, approved: Approved<'_>) -> Self {
        let mut built = self.clone();
        if let Some(Value::Record(call)) = built.context.get_mut("call") {
            call.insert("approved".to_owned(), Value::String(approved.as_str().to_owned()));
        }
        built
    }

    /// What Cedar evaluates, without validation of the entities: this action and its ancestors, and
    /// the nodes with their transitive ancestors already computed. A property test shows that these
    /// are the entities that validation against the schema gives; the canary checks it at each
    /// load.
    pub(in crate::policy) fn cedar(
        &self,
        schema: &Schema,
        actions: &Actions,
    ) -> Result<(Request, Entities), RequestError> {
        let actions =
            actions.0.get(&self.action).ok_or_else(|| RequestError::UnknownAction(self.action.clone()))?;
        let known = self.known();
        let nodes = self.nodes.iter().map(|node| node.entity(&known).map(Arc::new));
        let all = actions.iter().cloned().map(Ok).chain(nodes).collect::<Result<Vec<_>, RequestError>>()?;
        let entities = CoreEntities::new().add_entities(
            all,
            None::<&NoEntitiesSchema>,
            TCComputation::AssumeAlreadyComputed,
            Extensions::all_available(),
        );
        Ok((self.request(schema)?, entities.map_err(RequestError::entities)?.into()))
    }

    /// The same through Cedar's own path: every entity is validated against the schema, and all of
    /// the schema's actions with their hierarchy are included.
    pub(in crate::policy) fn cedar_checked(
        &self,
        schema: &Schema,
    ) -> Result<(Request, Entities), RequestError> {
        let nodes = self.nodes.iter().map(Node::cedar).collect::<Result<Vec<_>, RequestError>>()?;
        let entities = Entities::from_entities(nodes, Some(schema)).map_err(RequestError::entities)?;
        Ok((self.request(schema)?, entities))
    }

    fn request(&self, schema: &Schema) -> Result<Request, RequestError> {
        let action = EntityUid::from_type_name_and_id(type_name("Action")?, EntityId::new(&self.action));
        let pairs = self.context.iter().map(|(name, value)| Ok((name.clone(), value.cedar()?)));
        let context = Context::from_pairs(pairs.collect::<Result<Vec<_>, RequestError>>()?)
            .map_err(RequestError::cedar)?;
        Request::new(self.principal.cedar()?, action, self.resource.cedar()?, context, Some(schema))
            .map_err(|e| RequestError::Request(e.into()))
    }

    pub(in crate::policy) fn known(&self) -> HashMap<&Uid, &Node> {
        self.nodes.iter().map(|node| (&node.uid, node)).collect()
    }

    /// The tool.
    pub(in crate::policy) fn action(&self) -> &str {
        &self.action
    }

    /// Every entity, including those that are only named as a parent.
    pub(in crate::policy) fn uids(&self) -> impl Iterator<Item = &Uid> {
        let ends = [&self.principal, &self.resource].into_iter();
        ends.chain(self.nodes.iter().flat_map(|node| std::iter::once(&node.uid).chain(&node.parents)))
    }

    /// What the ledger records, in Cedar's own JSON form.
    pub(in crate::policy) fn json(&self) -> Json {
        // Built member by member: `json!` would copy each level again.
        let entity = |node: &Node| {
            record([
                ("uid", node.uid.json()),
                ("attrs", members(&node.attributes)),
                ("parents", node.parents.iter().map(Uid::json).collect()),
            ])
        };
        let action = record([("type", Json::from("PAR::Action")), ("id", Json::from(self.action.as_str()))]);
        record([
            ("principal", self.principal.json()),
            ("action", action),
            ("resource", self.resource.json()),
            ("context", members(&self.context)),
            ("entities", self.nodes.iter().map(entity).collect()),
        ])
    }
}

fn record<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn members(record: &BTreeMap<String, Value>) -> Json {
    Json::Object(record.iter().map(|(name, value)| (name.clone(), value.json())).collect())
}

impl Node {
    pub(in crate::policy) fn cedar(&self) -> Result<Entity, RequestError> {
        let attributes = self.attributes.iter().map(|(name, value)| Ok((name.clone(), value.cedar()?)));
        let attributes = attributes.collect::<Result<HashMap<_, _>, RequestError>>()?;
        let parents = self.parents.iter().map(Uid::cedar).collect::<Result<HashSet<_>, RequestError>>()?;
        Entity::new(self.uid.cedar()?, attributes, parents).map_err(RequestError::cedar)
    }

    /// Its ancestors, direct or through `known` nodes.
    pub(in crate::policy) fn above<'a>(&'a self, known: &HashMap<&'a Uid, &'a Self>) -> HashSet<&'a Uid> {
        let mut above: HashSet<&Uid> = self.parents.iter().collect();
        let mut next: Vec<&Uid> = self.parents.iter().collect();
        while let Some(uid) = next.pop() {
            let parents = known.get(uid).into_iter().flat_map(|node| &node.parents);
            next.extend(parents.filter(|uid| above.insert(uid)));
        }
        above
    }

    /// The entity with all its ancestors.
    fn entity(&self, known: &HashMap<&Uid, &Self>) -> Result<ast::Entity, RequestError> {
        let mut parents = HashSet::new();
        for uid in &self.parents {
            parents.insert(uid.core()?);
        }
        let mut above = HashSet::new();
        for uid in self.above(known).into_iter().filter(|uid| !self.parents.contains(uid)) {
            if *uid == self.uid {
                return Err(RequestError::InItself(uid.1.clone()));
            }
            above.insert(uid.core()?);
        }
        let attributes = self.attributes.iter().map(|(name, value)| Ok((name.into(), value.core()?.into())));
        let attributes = attributes.collect::<Result<Vec<_>, RequestError>>()?;
        Ok(ast::Entity::new_with_attr_partial_value(self.uid.core()?, attributes, above, parents, []))
    }
}

impl Uid {
    /// The form that requests use; `None` for an entity that they never name.
    pub(in crate::policy) fn from_entity(uid: &EntityUid) -> Option<Self> {
        let (kind, _) = TYPES.iter().find(|(_, name)| *name == uid.type_name())?;
        Some(Self(kind, uid.id().unescaped().to_owned()))
    }

    pub(in crate::policy) fn cedar(&self) -> Result<EntityUid, RequestError> {
        Ok(EntityUid::from_type_name_and_id(type_name(self.0)?, EntityId::new(&self.1)))
    }

    fn core(&self) -> Result<ast::EntityUID, RequestError> {
        let kind = CORE_TYPES.get(self.0).ok_or_else(|| RequestError::UnknownType(self.0.to_owned()))?;
        Ok(ast::EntityUID::from_components(kind.clone(), ast::Eid::new(self.1.as_str()), None))
    }

    fn json(&self) -> Json {
        record([("type", Json::from(format!("PAR::{}", self.0))), ("id", Json::from(self.1.as_str()))])
    }
}

impl Value {
    fn cedar(&self) -> Result<RestrictedExpression, RequestError> {
        Ok(match self {
            Self::String(text) => RestrictedExpression::new_string(text.clone()),
            Self::Long(number) => RestrictedExpression::new_long(*number),
            Self::Bool(flag) => RestrictedExpression::new_bool(*flag),
            Self::Set(items) => {
                RestrictedExpression::new_set(items.iter().map(Self::cedar).collect::<Result<Vec<_>, _>>()?)
            }
            Self::Record(members) => {
                let fields = members.iter().map(|(name, value)| Ok((name.clone(), value.cedar()?)));
                RestrictedExpression::new_record(fields.collect::<Result<Vec<_>, RequestError>>()?)
                    .map_err(RequestError::cedar)?
            }
            Self::Decimal(text) => RestrictedExpression::new_decimal(text),
            Self::Datetime(text) => RestrictedExpression::new_datetime(text),
            Self::Ip(text) => RestrictedExpression::new_ip(text),
            Self::Entity(uid) => RestrictedExpression::new_entity_uid(uid.cedar()?),
        })
    }

    /// The value itself, without an evaluation; only the kinds that attributes of entities have.
    fn core(&self) -> Result<ast::Value, RequestError> {
        Ok(match self {
            Self::String(text) => text.as_str().into(),
            Self::Long(number) => (*number).into(),
            Self::Bool(flag) => (*flag).into(),
            Self::Entity(uid) => uid.core()?.into(),
            Self::Set(items) => {
                ast::Value::set(items.iter().map(Self::core).collect::<Result<Vec<_>, _>>()?, None)
            }
            Self::Record(_) | Self::Decimal(_) | Self::Datetime(_) | Self::Ip(_) => {
                return Err(RequestError::Attribute);
            }
        })
    }

    pub(in crate::policy) fn json(&self) -> Json {
        match self {
            Self::String(text) => Json::from(text.as_str()),
            Self::Long(number) => Json::from(*number),
            Self::Bool(flag) => Json::from(*flag),
            Self::Set(items) => items.iter().map(Self::json).collect(),
            Self::Record(record) => members(record),
            Self::Decimal(text) => extension("decimal", text),
            Self::Datetime(text) => extension("datetime", text),
            Self::Ip(text) => extension("ip", text),
            Self::Entity(uid) => record([("__entity", uid.json())]),
        }
    }
}

fn extension(name: &str, argument: &str) -> Json {
    record([("__extn", record([("fn", Json::from(name)), ("arg", Json::from(argument))]))])
}

/// The entity types by their short names. Parsed only once, because parsing a name costs more than
/// a decision.
static TYPES: LazyLock<BTreeMap<&'static str, EntityTypeName>> = LazyLock::new(|| {
    let kinds = ["Role", "Group", "User", "ApiKey", "Session", "Host", "Path", "Sink", "Action"];
    let of_powers = ["Caller", "Server", "Run", "Approval"];
    kinds
        .into_iter()
        .chain(of_powers)
        .chain(IdKind::ALL.map(IdKind::as_str))
        .filter_map(|kind| Some((kind, EntityTypeName::from_str(&format!("PAR::{kind}")).ok()?)))
        .collect()
});

/// The type's name as in the schema; `None` for an unknown type.
pub(in crate::policy) fn kind(name: &str) -> Option<&'static str> {
    TYPES.get_key_value(name).map(|(kind, _)| *kind)
}
/// The same types in Cedar's syntax tree.
static CORE_TYPES: LazyLock<BTreeMap<&'static str, ast::EntityType>> =
    LazyLock::new(|| TYPES.iter().map(|(kind, name)| (*kind, name.as_ref().clone())).collect());

fn type_name(kind: &str) -> Result<EntityTypeName, RequestError> {
    TYPES.get(kind).cloned().ok_or_else(|| RequestError::UnknownType(kind.to_owned()))
}
