//! Fills in what requests did not record under earlier schemas, so that later rules can decide
//! them.
//!
//! Each value is the one that held when the request was recorded: earlier versions had no agents,
//! tasks, plans or halts, took runs from the API and from commands alone, and the rest follows from
//! the record itself. Where arguments came from is not known of those requests, which is read in
//! the unsafe way.

use super::build::{HALTED, calls_left, origin_of_call};
use super::cedar::{Built, Node, Uid, Value};
use super::origins;
use crate::types::Channel;
use std::collections::BTreeSet;

impl Built {
    /// The same request of a call with every member that the schema has today; `None` if it has
    /// them all, or is not of a call. `sensitive` are the sensitive arguments that the tool has in
    /// that schema.
    pub(in crate::policy) fn filled(&self, sensitive: Option<&BTreeSet<String>>) -> Option<Self> {
        let older = self.filled_before_origins();
        let mut built = older.clone().unwrap_or_else(|| self.clone());
        let is_known = sensitive.is_none_or(|names| origins::is_of(&built.context, names));
        if let Some(names) = sensitive.filter(|_| !is_known) {
            origins::fill(&mut built.context, names);
        }
        (older.is_some() || !is_known).then_some(built)
    }

    /// The same request with the members that came before where arguments come from was recorded.
    fn filled_before_origins(&self) -> Option<Self> {
        let mut built = self.clone();
        let session = built.nodes.iter_mut().find(|node| node.uid == self.principal);
        let session = session.filter(|_| self.principal.0 == "Session")?;
        // No rule gave a class of data before the schema had them.
        let is_of_first = !session.attributes.contains_key("seen");
        session.attributes.entry("seen".to_owned()).or_insert_with(|| Value::Set(Vec::new()));
        // All the others came together, before that.
        if self.context.contains_key("channel") {
            return is_of_first.then_some(built);
        }
        let left = match (session.attributes.get("budget"), session.attributes.get("calls_used")) {
            (Some(Value::Long(budget)), Some(Value::Long(used))) => calls_left(*budget, *used),
            _ => return None,
        };
        let owner = owner(session);
        session.attributes.insert("owner".to_owned(), Value::String(owner));
        let Some(Value::Record(call)) = built.context.get_mut("call") else { return None };
        let channel = Channel::unrecorded(call.contains_key("source_ip"));
        call.insert("calls_left".to_owned(), Value::Long(left));
        call.insert(HALTED.to_owned(), Value::Bool(false));
        built.context.extend(origin_of_call(channel));
        Some(built)
    }
}

/// The credential that a session is in, by its name on the ledger: the key if there is one, as a
/// key's user is there for policies to name.
fn owner(session: &Node) -> String {
    let key = session.parents.iter().find(|uid| uid.0 == "ApiKey").map(|uid| format!("key:{}", uid.1));
    let user = || session.parents.iter().find(|uid| uid.0 == "User").map(|Uid(_, name)| name.clone());
    key.or_else(user).unwrap_or_default()
}
