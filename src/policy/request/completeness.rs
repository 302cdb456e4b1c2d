//! Checks, before the evaluation, that a request is missing nothing that a policy could ask for.
//!
//! To Cedar an entity that is missing is in nothing: a `forbid` on a role would be silently
//! switched off if the request lost that role. The expected entities are computed from other
//! sources than the nodes that were built.

use super::cedar::{Built, Node, Uid, Value};
use super::error::RequestError;
use super::groups::Groups;
use super::labels::Labels;
use std::collections::HashSet;

impl Built {
    /// Refuses a request with a missing entity, membership or label.
    pub(in crate::policy) fn check_complete(
        &self,
        groups: &Groups,
        labels: &Labels,
    ) -> Result<(), RequestError> {
        let known = self.known();
        let missing = |uid: &Uid| Err(RequestError::Missing(uid.0, uid.1.clone()));
        let mut roots = vec![&self.principal, &self.resource];
        let attributes = known.get(&self.resource).map(|node| node.attributes.values());
        for value in self.context.values().chain(attributes.into_iter().flatten()) {
            value.entities(&mut roots);
        }
        if let Some(uid) = self.uids().chain(roots.iter().copied()).find(|uid| !known.contains_key(uid)) {
            return missing(uid);
        }
        let above = |uid: &Uid| known.get(uid).map(|node| node.above(&known)).unwrap_or_default();
        let (above_principal, above_resource) = (above(&self.principal), above(&self.resource));
        let lost = self.owed.principal.iter().find(|uid| !above_principal.contains(uid));
        if let Some(uid) =
            lost.or_else(|| self.owed.resource.iter().find(|uid| !above_resource.contains(uid)))
        {
            return missing(uid);
        }
        if let Some(owner) = &self.owed.owner {
            let node = known.get(&self.resource);
            let found = node.and_then(|node| node.attributes.get("owner"));
            if !matches!(found, Some(Value::Entity(uid)) if uid == owner) {
                return missing(owner);
            }
        }
        // A group or folder that nothing is in has lost its member.
        let reached: HashSet<&Uid> =
            roots.iter().flat_map(|uid| above(uid)).chain(roots.iter().copied()).collect();
        if let Some(node) = self.nodes.iter().find(|node| !reached.contains(&node.uid)) {
            return Err(RequestError::Unreached(node.uid.0, node.uid.1.clone()));
        }
        for user in self.nodes.iter().filter(|node| node.uid.0 == "User") {
            let is_in = |group: &str| user.parents.iter().any(|uid| uid.0 == "Group" && uid.1 == group);
            if let Some(group) = groups.containing(&user.uid.1).find(|group| !is_in(group)) {
                return Err(RequestError::MissingGroup { user: user.uid.1.clone(), group: group.to_owned() });
            }
        }
        known.get(&self.resource).map_or_else(
            || missing(&self.resource),
            |resource| check_resource(resource, &above_resource, labels, self.owed.label),
        )
    }
}

/// Checks that a path is in every folder above it by name, and carries the labels of all its
/// ancestors.
fn check_resource(
    resource: &Node,
    above: &HashSet<&Uid>,
    labels: &Labels,
    owed: Option<&str>,
) -> Result<(), RequestError> {
    let Uid(kind, id) = &resource.uid;
    if *kind == "Path" {
        let names: HashSet<&str> = above.iter().map(|uid| uid.1.as_str()).collect();
        let mut at = id.as_str();
        while let Some((parent, _)) = at.rsplit_once('/').filter(|_| at != "/") {
            at = if parent.is_empty() { "/" } else { parent };
            if !names.contains(at) {
                return Err(RequestError::Missing("Path", at.to_owned()));
            }
        }
    }
    let carried = resource.attributes.get("labels");
    let has = |label: &str| matches!(carried, Some(Value::Set(all)) if all.iter().any(|one| matches!(one, Value::String(text) if text == label)));
    if let Some(label) = owed.filter(|label| !has(label)) {
        return Err(RequestError::MissingLabel(label.to_owned()));
    }
    for uid in above.iter().copied().chain([&resource.uid]) {
        if let Some(label) = labels.get(kind, &uid.1).find(|label| !has(label)) {
            return Err(RequestError::MissingLabelOf { label: label.to_owned(), of: uid.1.clone() });
        }
    }
    Ok(())
}

impl Value {
    fn entities<'a>(&'a self, into: &mut Vec<&'a Uid>) {
        match self {
            Self::Entity(uid) => into.push(uid),
            Self::Set(items) => items.iter().for_each(|item| item.entities(into)),
            Self::Record(members) => members.values().for_each(|member| member.entities(into)),
            Self::String(_)
            | Self::Long(_)
            | Self::Bool(_)
            | Self::Decimal(_)
            | Self::Datetime(_)
            | Self::Ip(_) => {}
        }
    }
}
