//! Who a new rule is for.

use crate::auth::Role;
use crate::cli::exit::Fail;
use crate::cli::key;
use crate::cli::new::{covered, text, words};
use crate::config::Config;
use crate::types::nearest;
use serde_json::Value;

/// A user of cases, who exists only there.
const MEMBER: &str = "a-member";

/// Who a rule is for.
pub(super) enum RuleHolder {
    Role(Role),
    User(String),
    Group(String),
    /// The id of a key, and the name it was found by.
    Key(String, String),
}

impl RuleHolder {
    pub(super) fn parse(config: &Config, word: &str) -> Result<Self, Fail> {
        if let Some(role) = Role::parse(word) {
            return Ok(Self::Role(role));
        }
        match word.split_once(':') {
            Some(("user", name)) if !name.is_empty() => Ok(Self::User(name.to_owned())),
            Some(("group", name)) if config.groups.contains_key(name) => Ok(Self::Group(name.to_owned())),
            Some(("group", name)) => Err(unknown_group(name)),
            Some(("key", name)) => {
                let found = key::find(config, name)?;
                let id = found.get("id").and_then(Value::as_str).unwrap_or_default();
                Ok(Self::Key(id.to_owned(), name.to_owned()))
            }
            _ => {
                let roles = Role::ALL.map(Role::as_str);
                let close = nearest(word, roles).map_or_else(
                    || format!("expected {}, user:NAME, group:NAME or key:NAME", roles.join(", ")),
                    |close| format!("did you mean `{close}`?"),
                );
                Err(Fail::usage(format!("`--who {word}`: {close}")))
            }
        }
    }

    pub(super) fn cedar(&self) -> String {
        let (kind, id) = match self {
            Self::Role(role) => ("Role", role.as_str()),
            Self::User(name) => ("User", name.as_str()),
            Self::Group(name) => ("Group", name.as_str()),
            Self::Key(id, _) => ("ApiKey", id.as_str()),
        };
        format!("principal in PAR::{kind}::{}", text(id))
    }

    /// For messages, with the lines of a case that name the caller.
    pub(super) fn caller(&self) -> (String, String) {
        match self {
            Self::Role(role) => {
                let (covered, _) = covered(*role);
                (covered.join(" and "), format!("role = {}", words(&covered)))
            }
            Self::User(name) => {
                (format!("the user {name}"), format!("role = \"operator\"\nuser = {}", text(name)))
            }
            Self::Group(name) => (
                format!("a user in the group {name}"),
                format!("role = \"operator\"\nuser = \"{MEMBER}\"\ngroups = [{}]", text(name)),
            ),
            Self::Key(id, name) => {
                (format!("the key {name}"), format!("role = \"operator\"\nkey = {}", text(id)))
            }
        }
    }

    /// Callers that the rule is not for.
    pub(super) fn others(&self) -> (String, String) {
        match self {
            Self::Role(role) => {
                let (_, others) = covered(*role);
                (others.join(" and "), format!("role = {}", words(&others)))
            }
            Self::User(_) | Self::Group(_) | Self::Key(..) => {
                ("another operator".to_owned(), "role = \"operator\"\nuser = \"another\"".to_owned())
            }
        }
    }
}

/// A group that a rule names must be in par.toml.
pub(super) fn unknown_group(name: &str) -> Fail {
    Fail::usage(format!(
        "the group `{name}` is not in `[groups]` of par.toml: add it there\n    | {name} = [\"ana\", \"os:root\"]"
    ))
}
