//! What the terms of a condition can be, in the requests about one action.

use crate::policy::ask::{self, fits_ask};
use crate::policy::load::scope::is_for;
use crate::policy::power::{GROUP, Power, fits_power};
use crate::policy::uses::Via;
use crate::tools::{Catalog, HostForm, IdKind, Manifest, ResourceSpec};
use crate::types::{Channel, FoundIn, HostPort};
use cedar_policy::Policy;
use cedar_policy_core::ast::{Expr, ExprKind, Var};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;

/// The requests about one action: calls of a tool, uses of a power, or requests to models.
#[derive(Clone, Copy)]
pub(super) enum ActionWorld<'a> {
    Tool(&'a Manifest),
    Power(Power),
    Model,
}

impl<'a> ActionWorld<'a> {
    /// Those whose action and resource type the scope of `policy` can match.
    pub(super) fn all_of(policy: &Policy, catalog: &'a Catalog) -> Vec<Self> {
        let tools = catalog.manifests().filter(|manifest| is_for(policy, manifest)).map(|m| Self::Tool(m));
        let powers = Power::ALL.into_iter().filter(|power| fits_power(policy, *power)).map(Self::Power);
        tools.chain(powers).chain(fits_ask(policy).then_some(Self::Model)).collect()
    }

    pub(super) fn is_tool(self) -> bool {
        matches!(self, Self::Tool(_))
    }

    /// Whether its action is the one of this name, or in the group of this name.
    pub(super) fn is_action(self, name: &str, or_in_it: bool) -> bool {
        match self {
            Self::Tool(tool) => {
                tool.name == name || (or_in_it && [tool.class.as_str(), "call_tool"].contains(&name))
            }
            Self::Power(power) => power.as_str() == name || (or_in_it && name == GROUP),
            Self::Model => name == ask::ACTION,
        }
    }

    /// Whether a variable can be an entity of this type.
    pub(super) fn can_be(self, var: Var, kind: &str) -> bool {
        match (var, self) {
            (Var::Principal, Self::Power(_)) => kind == "Caller",
            (Var::Principal, Self::Tool(_) | Self::Model) => kind == "Session",
            (Var::Resource, Self::Tool(tool)) => tool.resource_kinds().any(|known| known == kind),
            (Var::Resource, Self::Power(power)) => power.over().as_str() == kind,
            (Var::Resource, Self::Model) => kind == ask::SINK,
            (Var::Action | Var::Context, _) => true,
        }
    }

    /// Whether the resource can be the entity of this type and id.
    pub(super) fn can_have(self, kind: &str, id: &str) -> bool {
        let Self::Tool(tool) = self else { return self.can_be(Var::Resource, kind) };
        match &tool.resource {
            ResourceSpec::Fixed { kind: own, id: fixed } if own == kind => fixed == id,
            ResourceSpec::Id { kind: own, argument } if own.as_str() == kind => {
                own.check(id).is_ok() && self.argument(argument).is_none_or(|schema| fits(schema, id))
            }
            ResourceSpec::Host { form, .. } if kind == "Host" => {
                let can_name = |host: &HostPort| {
                    *form != HostForm::Name
                        || form.read(host.host()).is_ok_and(|named| named.as_str() == host.as_str())
                };
                HostForm::Host.read(id).is_ok_and(|host| tool.reach.holds(&host) && can_name(&host))
            }
            _ => self.can_be(Var::Resource, kind),
        }
    }

    /// The ids that a resource of this type can have, if they are few and known.
    pub(super) fn ids(self, kind: &str) -> BTreeSet<String> {
        let Self::Tool(tool) = self else { return BTreeSet::new() };
        match &tool.resource {
            ResourceSpec::Fixed { kind: own, id } if own == kind => BTreeSet::from([id.clone()]),
            ResourceSpec::Id { kind: own, argument } if own.as_str() == kind => {
                self.argument(argument).and_then(one_of).unwrap_or_default()
            }
            _ => BTreeSet::new(),
        }
    }

    /// The least and the greatest number that the term can be.
    pub(super) fn bounds(self, term: &Expr) -> (i64, i64) {
        let any = (i64::MIN, i64::MAX);
        let path = path_of(term);
        match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["context", "call", "calls_hour" | "failures_hour" | "failed_ago_s" | "calls_left"]
            | ["context", "ask", "reply_tokens_max" | "input_tokens"]
            | ["context", "run", "runs_hour" | "bytes_hour"]
            | ["principal", "calls_used" | "budget"] => (0, i64::MAX),
            ["context", "input", name] => match self.argument(name) {
                Some(schema) => bound(schema, "minimum", "maximum", any),
                None => self
                    .length_of(name)
                    .map_or(any, |schema| bound(schema, "minItems", "maxItems", (0, i64::MAX))),
            },
            // An argument that is seen by its length and its digest.
            ["context", "input", _, "length"] => (0, i64::MAX),
            _ => any,
        }
    }

    /// The words that the term can be, if they are few and known.
    pub(super) fn words(self, term: &Expr) -> Option<BTreeSet<String>> {
        let of = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let path = path_of(term);
        match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["context", "call", "approved"] => of(&["no", "confirmed", "approved"]),
            ["context", "channel"] => of(&Channel::ALL.map(Channel::as_str)),
            ["context", "via"] => of(&Via::ALL.map(Via::as_str)),
            ["context", "from", _] | ["context", "from_all"] => of(&FoundIn::ALL.map(FoundIn::as_str)),
            ["resource", "kind"] if matches!(self, Self::Model) => of(&[ask::KIND]),
            ["context", "input", name] => self.argument(name).and_then(one_of),
            _ => None,
        }
    }

    /// Whether the term can be this word.
    pub(super) fn fits(self, term: &Expr, word: &str) -> bool {
        if let Some(words) = self.words(term) {
            return words.contains(word);
        }
        let path = path_of(term);
        match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["context", "input", name] => {
                self.argument(name).is_none_or(|schema| fits(schema, word)) && self.names_resource(name, word)
            }
            ["context", "input", _, "sha256"] => {
                word.len() == 64 && word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            }
            ["principal", "owner"] => ["key:", "os:"].iter().any(|start| word.starts_with(start)),
            _ => true,
        }
    }

    /// Whether `context.input` has a member of this name: always, never, or `None` if that depends
    /// on the call.
    pub(super) fn has_argument(self, name: &str) -> Option<bool> {
        let Self::Tool(tool) = self else { return None };
        let schema = self.argument(name).or_else(|| self.length_of(name));
        let Some(schema) = schema else { return Some(false) };
        let plain = name.strip_suffix("__len").filter(|_| self.argument(name).is_none()).unwrap_or(name);
        let required = tool.input.get("required").and_then(Value::as_array).into_iter().flatten();
        let is_plain_type = schema.get("type").is_some_and(|kind| kind.is_string() && kind != "null");
        (required.into_iter().any(|one| one == plain) && is_plain_type).then_some(true)
    }

    /// The words that an item of the list `context.input.NAME` can be, if they are few and known.
    pub(super) fn items(self, term: &Expr) -> Option<BTreeSet<String>> {
        let path = path_of(term);
        match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["context", "input", name] => one_of(self.argument(name)?.get("items")?),
            _ => None,
        }
    }

    fn argument(self, name: &str) -> Option<&'a Value> {
        let Self::Tool(tool) = self else { return None };
        tool.input.get("properties")?.get(name)
    }

    /// The schema of the list whose length the member `name` is.
    fn length_of(self, name: &str) -> Option<&'a Value> {
        self.argument(name.strip_suffix("__len")?)
    }

    /// Whether an argument that names the resource can be this word.
    fn names_resource(self, name: &str, word: &str) -> bool {
        let Self::Tool(tool) = self else { return true };
        match &tool.resource {
            ResourceSpec::Id { kind, argument } if argument == name => IdKind::check(*kind, word).is_ok(),
            ResourceSpec::Host { argument, form } if argument == name => form.read(word).is_ok(),
            _ => true,
        }
    }
}

/// The names in `context.input.path`; empty if the term is not of that form.
fn path_of(term: &Expr) -> Vec<String> {
    match term.expr_kind() {
        ExprKind::Var(var) => vec![var.to_string()],
        ExprKind::GetAttr { expr, attr } => {
            let mut path = path_of(expr);
            if !path.is_empty() {
                path.push(attr.to_string());
            }
            path
        }
        _ => Vec::new(),
    }
}

/// The words of `enum`.
fn one_of(schema: &Value) -> Option<BTreeSet<String>> {
    let words = schema.get("enum")?.as_array()?;
    Some(words.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn bound(schema: &Value, low: &str, high: &str, any: (i64, i64)) -> (i64, i64) {
    let number = |word: &str| schema.get(word).and_then(Value::as_i64);
    // The members of other types have these words too.
    (number(low).unwrap_or(any.0), number(high).unwrap_or(any.1))
}

/// Whether the schema of a string allows this word. In doubt it does.
fn fits(schema: &Value, word: &str) -> bool {
    if let Some(words) = one_of(schema) {
        return words.contains(word);
    }
    let chars = u64::try_from(word.chars().count()).unwrap_or(u64::MAX);
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    let pattern = schema.get("pattern").and_then(Value::as_str).and_then(|text| Regex::new(text).ok());
    limit("minLength").is_none_or(|least| least <= chars)
        && limit("maxLength").is_none_or(|most| chars <= most)
        && pattern.is_none_or(|pattern| pattern.is_match(word))
}
