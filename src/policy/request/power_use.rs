//! The Cedar request for a use of a power.
//!
//! The principal is a `Caller`: a key or a user of this host under its name on the ledger, with the
//! same ancestors as its sessions. Keys and users share one type so that a policy can compare
//! either with `resource.owner`. A key owns what was asked for with it, whether or not it names a
//! user: another key of the same user is another caller.

use super::build;
use super::cedar::{Built, Node, Owed, Uid, Value};
use super::groups::Groups;
use crate::policy::power::Power;
use crate::policy::uses::{Over, Ran, Use};
use std::collections::BTreeMap;

/// Builds the request for `asked`.
pub(in crate::policy) fn build(asked: &Use<'_>, groups: &Groups) -> Built {
    let principal = Uid("Caller", asked.subject.id());
    let (mut nodes, parents) = build::credential_nodes(asked.subject, groups);
    nodes.push(build::plain(principal.clone(), parents));
    let (id, owner) = match asked.over {
        Over::Server => ("self", None),
        Over::Owned { id, owner } => (id, Some(Uid("Caller", owner.to_owned()))),
    };
    // The ancestors of other callers are not looked up: a lint refuses rules that would need them.
    nodes.extend(owner.iter().filter(|uid| **uid != principal).map(|uid| build::plain(uid.clone(), vec![])));
    let resource = Uid(asked.power.over().as_str(), id.to_owned());
    let attributes = owner.clone().map(|uid| ("owner".to_owned(), Value::Entity(uid)));
    nodes.push(Node { uid: resource.clone(), attributes: attributes.into_iter().collect(), parents: vec![] });
    let datetime = |us: u64| Value::Datetime(build::milliseconds(us));
    let mut context = BTreeMap::from([
        ("now".to_owned(), datetime(asked.now_us)),
        ("via".to_owned(), Value::String(asked.door.via.as_str().to_owned())),
    ]);
    context.extend(asked.door.source_ip.map(|ip| ("source_ip".to_owned(), Value::Ip(ip.to_string()))));
    context.extend(asked.expires_us.map(|us| ("expires".to_owned(), datetime(us))));
    // Always present, so that a `forbid` needs no `has`.
    context.extend((asked.power == Power::Run).then(|| ("run".to_owned(), ran_record(asked.ran))));
    let owed = Owed { principal: build::credential(asked.subject), owner, ..Owed::default() };
    Built { principal, action: asked.power.as_str().to_owned(), resource, context, nodes, owed }
}

fn ran_record(ran: Ran) -> Value {
    Value::Record(BTreeMap::from([
        ("bytes_hour".to_owned(), Value::Long(ran.bytes_hour)),
        ("runs_hour".to_owned(), Value::Long(ran.runs_hour)),
    ]))
}
