//! Builds the Cedar request for a question.
//!
//! The request is built once, as plain values. Both what Cedar evaluates and what the ledger
//! records are made from them, so the record is what was decided on.

use super::cedar::{Built, Node, Owed, Uid, Value};
use super::error::RequestError;
use super::groups::Groups;
use super::labels::Labels;
use super::lower;
use super::origins::{self, CHOSEN};
use super::question::{Approved, Counts, Question, Resource, Session};
use crate::auth::{Role, Source, Subject};
use crate::tools::{Manifest, ResourceSpec};
use crate::types::{Channel, json};
use cedar_policy::{Entities, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The label of a path outside the tool's roots; a built-in forbid denies it.
pub(in crate::policy) const OUTSIDE: &str = "par:outside";

/// Builds the request for `question`; `input` contains its lowered arguments.
pub(in crate::policy) fn build(
    question: &Question<'_>,
    groups: &Groups,
    labels: &Labels,
    input: BTreeMap<String, Value>,
) -> Built {
    let mut nodes = principal_nodes(question.subject, question.session, groups);
    if let Some(approver) = question.approved.by() {
        add_missing(&mut nodes, user_nodes(approver, groups, Vec::new()));
    }
    let resource = resource_nodes(question.resource, labels, &mut nodes);
    let Question { approved, now_us, source_ip, counts, session, .. } = *question;
    let mut call =
        call_record(approved, now_us, source_ip, counts, calls_left(session.budget, session.calls_used));
    call.insert(CHOSEN.to_owned(), Value::Bool(question.is_chosen));
    call.insert(HALTED.to_owned(), Value::Bool(question.is_halted));
    let mut context = call_context(input, call, question.channel);
    context.extend(origins::members(question.manifest, question.origins));
    let built = built(session, &question.manifest.name, resource, context, nodes);
    Built { owed: owed(question), ..built }
}

fn owed(question: &Question<'_>) -> Owed {
    let holders = match question.resource {
        Resource::Path { canonical, within } => within.iter().filter(|name| *name != canonical).collect(),
        Resource::Fixed { .. } | Resource::Id { .. } | Resource::Outside { .. } => Vec::new(),
    };
    Owed {
        principal: credential(question.subject),
        resource: holders.into_iter().map(|name| Uid("Path", name.clone())).collect(),
        label: matches!(question.resource, Resource::Outside { .. }).then_some(OUTSIDE),
        owner: None,
    }
}

/// The credential of `subject`, its roles and its user.
pub(in crate::policy) fn credential(subject: &Subject) -> Vec<Uid> {
    let roles: &[Role] = match subject.role {
        Role::Admin => &[Role::Admin, Role::Operator, Role::Viewer],
        Role::Viewer => &[Role::Viewer],
        Role::Operator => &[Role::Operator],
        Role::Approver => &[Role::Approver],
    };
    let mut owed: Vec<Uid> = roles.iter().map(|role| Uid("Role", role.as_str().to_owned())).collect();
    match &subject.source {
        Source::Key { id, .. } => {
            owed.push(Uid("ApiKey", id.as_str().to_owned()));
            owed.extend(subject.user.iter().map(|user| Uid("User", user.clone())));
        }
        Source::Os { name } => owed.push(Uid("User", format!("os:{name}"))),
    }
    owed
}

fn call_record(
    approved: Approved<'_>,
    now_us: u64,
    source_ip: Option<IpAddr>,
    counts: Counts,
    calls_left: i64,
) -> BTreeMap<String, Value> {
    // Always present, so that a `forbid` needs no `has`: without a failure it is larger than any
    // limit that a policy tests.
    let failed_ago_s = counts.failed_ago_s.unwrap_or(json::INTEGER_MAX);
    let mut call = BTreeMap::from([
        ("calls_hour".to_owned(), Value::Long(counts.calls_hour)),
        ("failures_hour".to_owned(), Value::Long(counts.failures_hour)),
        ("failed_ago_s".to_owned(), Value::Long(failed_ago_s)),
        ("approved".to_owned(), Value::String(approved.as_str().to_owned())),
        ("now".to_owned(), Value::Datetime(milliseconds(now_us))),
        ("calls_left".to_owned(), Value::Long(calls_left)),
        (HALTED.to_owned(), Value::Bool(false)),
        ("dry_run".to_owned(), Value::Bool(false)),
        (CHOSEN.to_owned(), Value::Bool(false)),
    ]);
    if let Some(user) = approved.by() {
        call.insert("approver".to_owned(), Value::Entity(Uid("User", user.to_owned())));
    }
    if let Some(ip) = source_ip {
        call.insert("source_ip".to_owned(), Value::Ip(ip.to_string()));
    }
    call
}

/// The calls that a run may still make, with the one that is decided.
pub(in crate::policy) fn calls_left(budget: i64, calls_used: i64) -> i64 {
    budget.saturating_sub(calls_used).max(0)
}

/// Whether a stop covers a call or a request to a model.
pub(in crate::policy) const HALTED: &str = "halted";

/// The context of a call. Every member is always present, so that a `forbid` needs no `has`.
fn call_context(
    input: BTreeMap<String, Value>,
    call: BTreeMap<String, Value>,
    channel: Channel,
) -> BTreeMap<String, Value> {
    let mut context = BTreeMap::from([
        ("input".to_owned(), Value::Record(input)),
        ("call".to_owned(), Value::Record(call)),
    ]);
    context.extend(origin_of_call(channel));
    context
}

/// What a call is a part of, and where its run came in. No run belongs to an agent or a task yet,
/// and no call is a step of a plan.
pub(in crate::policy) fn origin_of_call(channel: Channel) -> [(String, Value); 4] {
    let text = |text: &str| Value::String(text.to_owned());
    [
        ("channel".to_owned(), text(channel.as_str())),
        ("agent".to_owned(), text("")),
        ("task".to_owned(), text("")),
        ("plan".to_owned(), Value::Bool(false)),
    ]
}

fn built(
    session: &Session,
    action: &str,
    resource: Uid,
    context: BTreeMap<String, Value>,
    nodes: Vec<Node>,
) -> Built {
    Built {
        principal: Uid("Session", session.id.clone()),
        action: action.to_owned(),
        resource,
        context,
        nodes,
        owed: Owed::default(),
    }
}

/// A request that the built-in forbids must deny: an unknown principal with an empty ceiling, about
/// a path outside the roots or about the tool's resource.
pub(in crate::policy) fn canary(manifest: &Manifest) -> Built {
    let input = lower::least(&manifest.input).unwrap_or_default();
    let session = Session {
        id: "canary".to_owned(),
        ceiling: BTreeSet::new(),
        taint: BTreeSet::new(),
        seen: BTreeSet::new(),
        tainted_by: Vec::new(),
        calls_used: 0,
        budget: 0,
        risk: 0,
    };
    let mut nodes = vec![session_node(&session, String::new(), Vec::new())];
    let resource = match &manifest.resource {
        ResourceSpec::Path { .. } => Resource::Outside { lexical: "/canary".to_owned() },
        ResourceSpec::Id { kind, .. } => Resource::Id { kind: *kind, id: "canary".to_owned() },
        ResourceSpec::Host { .. } => Resource::host("canary:443"),
        ResourceSpec::Fixed { kind, id } => Resource::Fixed { kind: kind.clone(), id: id.clone() },
    };
    let resource = resource_nodes(&resource, &Labels::default(), &mut nodes);
    let call = call_record(Approved::No, 0, None, Counts::default(), 0);
    let mut context = call_context(input, call, Channel::Cli);
    context.extend(origins::members(manifest, None));
    built(&session, &manifest.name, resource, context, nodes)
}

/// The identifiers of a principal's session and of all its ancestors.
pub(in crate::policy) fn principal_uids(subject: &Subject, session: &Session, groups: &Groups) -> Vec<Uid> {
    principal_nodes(subject, session, groups).into_iter().map(|node| node.uid).collect()
}

/// The principal with all its ancestors, and the schema's actions.
pub(in crate::policy) fn principal_entities(
    subject: &Subject,
    session: &Session,
    groups: &Groups,
    schema: &Schema,
) -> Result<Entities, RequestError> {
    let nodes = principal_nodes(subject, session, groups);
    let nodes = nodes.iter().map(Node::cedar).collect::<Result<Vec<_>, RequestError>>()?;
    Entities::from_entities(nodes, Some(schema)).map_err(RequestError::cedar)
}

pub(in crate::policy) fn principal_nodes(subject: &Subject, session: &Session, groups: &Groups) -> Vec<Node> {
    let (mut nodes, parents) = credential_nodes(subject, groups);
    nodes.push(session_node(session, subject.id(), parents));
    nodes
}

/// The credential of `subject` with all its ancestors, and the parents of the principal that
/// represents it in a request.
pub(in crate::policy) fn credential_nodes(subject: &Subject, groups: &Groups) -> (Vec<Node>, Vec<Uid>) {
    let role = Uid("Role", subject.role.as_str().to_owned());
    // An administrator is also an operator and a viewer; the other roles are separate.
    let mut nodes = match subject.role {
        Role::Admin => {
            let below = [Role::Operator, Role::Viewer].map(|role| Uid("Role", role.as_str().to_owned()));
            let mut nodes: Vec<Node> = below.iter().map(|uid| plain(uid.clone(), Vec::new())).collect();
            nodes.push(plain(role.clone(), below.to_vec()));
            nodes
        }
        Role::Viewer | Role::Operator | Role::Approver => vec![plain(role.clone(), Vec::new())],
    };
    let mut parents = Vec::new();
    match &subject.source {
        Source::Key { id, .. } => {
            let key = Uid("ApiKey", id.as_str().to_owned());
            nodes.push(plain(key.clone(), vec![role]));
            parents.push(key);
            // The user of a key is there for policies to name; its powers are the key's.
            if let Some(user) = &subject.user {
                nodes.extend(user_nodes(user, groups, Vec::new()));
                parents.push(Uid("User", user.clone()));
            }
        }
        Source::Os { name } => {
            let user = format!("os:{name}");
            nodes.extend(user_nodes(&user, groups, vec![role]));
            parents.push(Uid("User", user));
        }
    }
    (nodes, parents)
}

/// A user with its groups and `parents` as parents, and those groups.
fn user_nodes(user: &str, groups: &Groups, mut parents: Vec<Uid>) -> Vec<Node> {
    let mut nodes: Vec<Node> =
        groups.containing(user).map(|group| plain(Uid("Group", group.to_owned()), Vec::new())).collect();
    parents.extend(nodes.iter().map(|group| group.uid.clone()));
    nodes.push(plain(Uid("User", user.to_owned()), parents));
    nodes
}

/// Adds nodes whose entities are missing: the approver may be the requester, or a member of the
/// same group.
fn add_missing(nodes: &mut Vec<Node>, more: Vec<Node>) {
    for node in more {
        if nodes.iter().all(|known| known.uid != node.uid) {
            nodes.push(node);
        }
    }
}

fn session_node(session: &Session, owner: String, parents: Vec<Uid>) -> Node {
    let texts = |words: &BTreeSet<String>| Value::Set(words.iter().cloned().map(Value::String).collect());
    Node {
        uid: Uid("Session", session.id.clone()),
        attributes: BTreeMap::from([
            ("ceiling".to_owned(), texts(&session.ceiling)),
            ("taint".to_owned(), texts(&session.taint)),
            ("seen".to_owned(), texts(&session.seen)),
            ("calls_used".to_owned(), Value::Long(session.calls_used)),
            ("budget".to_owned(), Value::Long(session.budget)),
            ("risk".to_owned(), Value::Long(session.risk)),
            ("owner".to_owned(), Value::String(owner)),
        ]),
        parents,
    }
}

pub(in crate::policy) fn plain(uid: Uid, parents: Vec<Uid>) -> Node {
    Node { uid, attributes: BTreeMap::new(), parents }
}

fn resource_nodes(resource: &Resource, labels: &Labels, nodes: &mut Vec<Node>) -> Uid {
    match resource {
        Resource::Fixed { id, .. } => labelled("Host", id, labels, nodes),
        Resource::Id { kind, id } => labelled(kind.as_str(), id, labels, nodes),
        Resource::Path { canonical, within } => path_nodes(canonical, within, labels, nodes),
        Resource::Outside { lexical } => {
            let uid = path_nodes(lexical, &[], labels, nodes);
            let labels = nodes.last_mut().and_then(|node| node.attributes.get_mut("labels"));
            if let Some(Value::Set(labels)) = labels {
                labels.push(Value::String(OUTSIDE.to_owned()));
            }
            uid
        }
    }
}

fn labelled(kind: &'static str, id: &str, labels: &Labels, nodes: &mut Vec<Node>) -> Uid {
    let uid = Uid(kind, id.to_owned());
    nodes.push(with_labels(uid.clone(), labels.get(kind, id), Vec::new()));
    uid
}

fn with_labels<'a>(uid: Uid, labels: impl IntoIterator<Item = &'a str>, parents: Vec<Uid>) -> Node {
    // Without duplicates and sorted, so that the record is the same each time.
    let labels: BTreeSet<&str> = labels.into_iter().collect();
    let labels = labels.into_iter().map(|label| Value::String(label.to_owned())).collect();
    Node { uid, attributes: BTreeMap::from([("labels".to_owned(), Value::Set(labels))]), parents }
}

/// Each folder above the object, each name that contains it, and finally the object. Each has its
/// own labels and those of all its parents.
///
/// A name that is the object or one of its ancestors becomes a parent of the object, however it is
/// spelled.
fn path_nodes(path: &str, within: &[String], labels: &Labels, nodes: &mut Vec<Node>) -> Uid {
    let uid = |path: &str| Uid("Path", path.to_owned());
    let mut above: Vec<&str> = Vec::new();
    let mut at = path;
    while let Some((parent, _)) = at.rsplit_once('/').filter(|_| at != "/") {
        at = if parent.is_empty() { "/" } else { parent };
        above.push(at);
    }
    let mut named: Vec<&str> = within.iter().map(String::as_str).collect();
    named.retain(|name| *name != path && !above.contains(name));
    let mut parents: Vec<Uid> = above.first().map(|parent| uid(parent)).into_iter().collect();
    parents.extend(named.iter().map(|name| uid(name)));
    // Downwards from the root, so that each folder has the labels of those above it.
    let mut carried: Vec<&str> = Vec::new();
    for (at, folder) in above.iter().enumerate().rev() {
        carried.extend(labels.get("Path", folder));
        let parent = above.get(at + 1).map(|parent| uid(parent));
        nodes.push(with_labels(uid(folder), carried.iter().copied(), parent.into_iter().collect()));
    }
    for name in &named {
        nodes.push(with_labels(uid(name), labels.get("Path", name), Vec::new()));
        carried.extend(labels.get("Path", name));
    }
    carried.extend(labels.get("Path", path));
    nodes.push(with_labels(uid(path), carried, parents));
    uid(path)
}

/// RFC 3339 with milliseconds.
pub(in crate::policy) fn milliseconds(now_us: u64) -> String {
    let at = i64::try_from(now_us / 1_000).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| format!("{at:.3}"))
}
