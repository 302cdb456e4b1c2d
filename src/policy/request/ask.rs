//! The Cedar request for a request to a language model.
//!
//! Everything that a session has read goes to the model, so what policies see is the session with
//! its labels and the sink. It is not a call: no permit of tools covers it, and no person can be
//! asked about it.

use super::build::{self, HALTED};
use super::cedar::{Built, Node, Owed, Uid, Value};
use super::groups::Groups;
use super::question::AskQuestion;
use crate::policy::ask::{ACTION, KIND, SINK};
use std::collections::BTreeMap;

/// Builds the request for `asked`.
pub(in crate::policy) fn build(asked: &AskQuestion<'_>, groups: &Groups) -> Built {
    let mut nodes = build::principal_nodes(asked.subject, asked.session, groups);
    let text = |text: &str| Value::String(text.to_owned());
    let resource = Uid(SINK, asked.sink.id());
    let attributes = [
        ("kind", KIND),
        ("provider", &asked.sink.provider),
        ("model", &asked.sink.model),
        ("host", &asked.sink.host),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), text(value)));
    nodes.push(Node { uid: resource.clone(), attributes: attributes.into(), parents: Vec::new() });
    let number = |count: u64| Value::Long(i64::try_from(count).unwrap_or(i64::MAX));
    // Always present, so that a `forbid` needs no `has`.
    let mut ask = BTreeMap::from([
        ("now".to_owned(), Value::Datetime(build::milliseconds(asked.now_us))),
        ("reply_tokens_max".to_owned(), number(u64::from(asked.sink.reply_tokens_max))),
        ("input_tokens".to_owned(), number(asked.input_tokens)),
        ("fallback_of".to_owned(), text(asked.fallback_of.unwrap_or_default())),
        (HALTED.to_owned(), Value::Bool(asked.is_halted)),
    ]);
    ask.extend(asked.source_ip.map(|ip| ("source_ip".to_owned(), Value::Ip(ip.to_string()))));
    let context = BTreeMap::from([
        ("ask".to_owned(), Value::Record(ask)),
        ("channel".to_owned(), text(asked.channel.as_str())),
        ("agent".to_owned(), text("")),
        ("task".to_owned(), text("")),
    ]);
    let owed = Owed { principal: build::credential(asked.subject), ..Owed::default() };
    let principal = Uid("Session", asked.session.id.clone());
    Built { principal, action: ACTION.to_owned(), resource, context, nodes, owed }
}
