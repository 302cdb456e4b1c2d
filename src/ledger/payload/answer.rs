//! An answer that a request holds to a schema.

use crate::types::DataLabels;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// The schema of `run.request`, as the model reads it after the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedSchema {
    /// PAR's own words before it.
    pub words: String,
    /// The schema: canonical JSON (RFC 8785), after secrets were replaced.
    pub schema: String,
}

/// Why an answer does not match the schema. Nothing in it is text of the model: a name that the
/// schema does not have is written as `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfitAnswer {
    /// The place in the answer, as a JSON pointer.
    pub at: String,
    /// The keyword of the schema that it breaks; or `json`, `number`, `bytes`, `refusal`.
    pub keyword: String,
    /// The place of that keyword in the schema, as a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_at: Option<String>,
    /// What PAR wrote to the model. Absent: the model was not asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
}

impl UnfitAnswer {
    /// What is wrong, in words without a subject: `is not one JSON value`.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { at, keyword, schema_at, .. } = self;
        let at = if at.is_empty() { "the whole value".to_owned() } else { format!("the value at `{at}`") };
        match (keyword.as_str(), schema_at) {
            ("json", _) => "is not one JSON value".to_owned(),
            ("bytes", _) => "is longer than an answer with a schema may be".to_owned(),
            ("refusal", _) => "is a refusal".to_owned(),
            ("number", _) => {
                format!("does not match: {at} is a number that JSON readers do not keep exactly")
            }
            (keyword, None) => format!("does not match: {at} breaks `{keyword}`"),
            (keyword, Some(schema_at)) => {
                format!("does not match: {at} breaks `{keyword}`, which is at `{schema_at}` in the schema")
            }
        }
    }
}

/// How far an answer was held to the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldStatus {
    /// `answer_json` matches the schema.
    Held,
    /// The answer does not match.
    Unfit,
    /// The run has no answer of a model.
    Open,
}

/// What became of the schema of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldResponse {
    /// Whether the answer matches.
    pub status: HeldStatus,
    /// How often PAR asked the model for the answer again: 0 or 1.
    pub repairs: u64,
    /// Why the last answer does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<UnfitAnswer>,
    /// The untrusted sources of what the run had read when the answer was written.
    pub taint: BTreeSet<String>,
    /// The named classes of data among it.
    pub seen: BTreeSet<String>,
    /// The schema.
    pub schema: Value,
}

impl HeldResponse {
    /// A schema that no answer was held to.
    #[must_use]
    pub fn open(schema: Value, labels: &DataLabels) -> Self {
        let DataLabels { taint, seen } = labels.clone();
        Self { status: HeldStatus::Open, repairs: 0, unfit: None, taint, seen, schema }
    }

    /// What became of it, in one sentence for people; `None` if there was nothing to hold.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let again = if self.repairs > 0 { ", after the model was asked for it again" } else { "" };
        match (self.status, &self.unfit) {
            (HeldStatus::Held, _) => Some(format!("the answer matches the response schema{again}")),
            (HeldStatus::Unfit, Some(unfit)) => {
                Some(format!("the answer to the response schema {}{again}", unfit.words()))
            }
            (HeldStatus::Unfit, None) => {
                Some(format!("the answer does not match the response schema{again}"))
            }
            (HeldStatus::Open, _) => None,
        }
    }
}
