//! What policies answer about a path, as the first call of a run.

use crate::auth::Subject;
use crate::config::Config;
use crate::gate::Rules;
use crate::policy::{Approved, Counts, Question, Resource, Ruling, Session};
use crate::tools::{Invalid, Manifest, ProposedCall, ValidCall};
use crate::types::clock::Wall;
use crate::types::{Channel, limits};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A call of the tool on `path`. Other required arguments get the smallest values that the schema
/// allows.
pub(super) fn sample(
    rules: &Rules,
    manifest: &Manifest,
    argument: &str,
    path: &str,
) -> Result<ValidCall, Invalid> {
    let required = manifest.input.get("required").and_then(Value::as_array).into_iter().flatten();
    let value = |name: &str| match name {
        name if name == argument => json!(path),
        name => least(manifest.input.pointer(&format!("/properties/{name}")).unwrap_or(&Value::Null)),
    };
    let arguments: Map<String, Value> =
        required.filter_map(Value::as_str).map(|name| (name.to_owned(), value(name))).collect();
    let proposed = ProposedCall {
        id: "doctor".to_owned(),
        tool: manifest.name.clone(),
        arguments: Value::Object(arguments).to_string(),
    };
    rules.catalog.validate(proposed, |_| true)
}

fn least(schema: &Value) -> Value {
    let number = |name: &str| schema.get(name).and_then(Value::as_u64);
    let length = number("minLength").unwrap_or(1).min(limits::PATH_BYTES_MAX as u64);
    match (schema.pointer("/enum/0"), schema.get("type").and_then(Value::as_str)) {
        (Some(first), _) => first.clone(),
        (None, Some("integer")) => json!(number("minimum").unwrap_or(1)),
        (None, Some("boolean")) => json!(false),
        (None, Some("array")) => json!([]),
        (None, _) => json!("x".repeat(usize::try_from(length).unwrap_or(1))),
    }
}

/// The subject and the rules of the question.
pub(super) struct PathQuestion<'a> {
    pub(super) config: &'a Config,
    pub(super) rules: &'a Rules,
    pub(super) subject: &'a Subject,
}

impl PathQuestion<'_> {
    pub(super) fn ask(&self, call: &ValidCall, about: &Resource) -> Ruling {
        let session = Session {
            id: "doctor".to_owned(),
            ceiling: self.rules.catalog.manifests().map(|m| m.name.clone()).collect(),
            taint: BTreeSet::new(),
            seen: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: i64::from(limits::CALLS_PER_RUN_MAX),
            risk: 0,
        };
        let question = Question {
            subject: self.subject,
            session: &session,
            manifest: call.manifest(),
            arguments: call.arguments(),
            resource: about,
            approved: Approved::No,
            now_us: Wall::now().0,
            source_ip: None,
            channel: Channel::Http,
            counts: Counts::default(),
            origins: None,
            is_chosen: false,
            is_halted: false,
        };
        self.rules.bundle.decide(&question).answer
    }
}
