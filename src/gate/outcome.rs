//! From the end of a call to its ledger entry and to the record that callers see.

use super::facts::{CallRecord, Facts};
use crate::call::{Connection, End, Execution, Given};
use crate::ledger::payload::{CallResultPayload, ConnectionTried, ConnectionsMade};
use crate::ledger::{Draft, Ref};
use crate::secrets::Clean;
use crate::types::json::{INTEGER_MAX, has_only_exact_integers, parse_strict};
use crate::types::{DataLabels, Decision, StepStatus, limits, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The `call.result` entry for an execution: the same content that the model gets, the end, the
/// enforced layers, and the time.
pub(super) fn result_draft(facts: &Facts, decision: u64, execution: &Clean<Execution>) -> Draft {
    let ResultContent { result, truncated, mismatch, is_trusted } = content(facts, execution);
    let mut labels = if is_trusted { DataLabels::default() } else { DataLabels::untrusted() };
    labels.add(&execution.repeats);
    let made = &execution.connections;
    // A structured result has no member for standard error; it is recorded for debugging.
    let has_stderr = facts.structured && !execution.stderr.is_empty();
    let (stderr, stderr_base64) = if has_stderr { shown_bytes(&execution.stderr) } else { (None, None) };
    let payload = CallResultPayload {
        end: execution.end.clone(),
        result,
        truncated,
        mismatch,
        layers: execution.layers.clone(),
        protections: Some(execution.protections.clone()),
        level: execution.level,
        connections: (!made.told.is_empty()).then(|| ConnectionsMade {
            told: made.told.iter().map(connection).collect(),
            more: made.more,
            bytes: made.bytes,
        }),
        given: (execution.given != Given::default()).then(|| execution.given.clone()),
        stderr,
        stderr_base64,
        // This number comes from the launcher: one that no entry can contain is capped, so that the
        // entry is not lost.
        wall_us: execution.wall_us.min(INTEGER_MAX.unsigned_abs()),
        secrets: execution.found().counts(),
    };
    Draft {
        run: Some(facts.run.clone()),
        session: Some(facts.session.clone()),
        call: Some(facts.call.clone()),
        answers: Some(Ref::Seq(decision)),
        principal: Some(facts.principal.clone()),
        policy: Some(facts.policy),
        manifest: facts.manifest,
        status: Some(status(facts, execution).as_str()),
        tool: Some(facts.tool.clone()),
        labels: Some(labels),
        ..Draft::new(payload)
    }
}

/// A connection that the call requested, whether it was made, and the bytes that passed.
fn connection(one: &Connection) -> ConnectionTried {
    ConnectionTried {
        host: one.to.clone(),
        address: one.address.map(|address| address.to_string()),
        refused: one.refused.clone(),
        sent: one.sent,
        received: one.received,
    }
}

/// The record of a call that ran, with the content of its entry.
pub(super) fn record(
    facts: Facts,
    decision: u64,
    result: u64,
    draft: &Draft,
    status: StepStatus,
) -> CallRecord {
    let member = |name: &str| draft.body.members().get(name).cloned().unwrap_or(Value::Null);
    let (result_seq, labels) = (Some(result), draft.labels.clone().unwrap_or_else(DataLabels::untrusted));
    let truncated = member("truncated") == Value::Bool(true);
    let record = CallRecord::unsettled(facts, decision, Decision::Allow, status, member("result"));
    CallRecord { labels, truncated, result_seq, ..record }
}

/// The step's status for an end. If a declared JSON object was not printed, the status is an error,
/// whatever the exit code.
pub(super) fn status(facts: &Facts, execution: &Execution) -> StepStatus {
    match &execution.end {
        End::Exit { code: 0 } if facts.structured && object(&execution.stdout).is_none() => StepStatus::Error,
        End::Exit { code: 0 } => StepStatus::Ok,
        End::Exit { .. } => StepStatus::Error,
        End::Signal { .. } => StepStatus::Signal,
        End::Timeout => StepStatus::Timeout,
        End::Oom => StepStatus::Oom,
        End::OutputCap => StepStatus::OutputCap,
        End::Quota { .. } => StepStatus::Quota,
        End::Killed => StepStatus::Killed,
        End::Refused { .. } => StepStatus::Refused,
        End::Interrupted => StepStatus::Interrupted,
    }
}

/// The content of a result.
struct ResultContent {
    /// With invisible characters made visible.
    result: Value,
    truncated: bool,
    /// What is not as the schema of trusted results says.
    mismatch: Option<String>,
    /// Whether it is the JSON object of a success, as that schema says. Everything else taints the
    /// session that sees it: the reason of a refusal, and what a program printed before it failed,
    /// may contain names that an attacker chose.
    is_trusted: bool,
}

impl ResultContent {
    fn untrusted(result: Value, truncated: bool) -> Self {
        Self { result, truncated, mismatch: None, is_trusted: false }
    }
}

fn content(facts: &Facts, execution: &Execution) -> ResultContent {
    let cut = execution.end == End::OutputCap;
    let error = |what: &str| ResultContent::untrusted(json!({ "error": what }), false);
    match &execution.end {
        End::Refused { reason } => return error(&text::visible_line(reason)),
        End::Interrupted => return error("interrupted, outcome unknown"),
        End::Killed if execution.stdout.is_empty() => return error("the sandbox ended before the call did"),
        _ => {}
    }
    // Output that is not the declared JSON object is shown as plain bytes.
    if facts.structured
        && matches!(execution.end, End::Exit { .. })
        && let Some(object) = object(&execution.stdout)
    {
        let truncated = cut || object.get("truncated") == Some(&Value::Bool(true));
        let checked = facts.check_trusted(&object).filter(|_| execution.end == End::Exit { code: 0 });
        let is_trusted = checked == Some(Ok(()));
        let mismatch = checked.and_then(Result::err);
        return ResultContent { result: visible(Value::Object(object)), truncated, mismatch, is_trusted };
    }
    let mut shown = Map::new();
    put_bytes(&mut shown, "stdout", &execution.stdout);
    if !execution.stderr.is_empty() {
        put_bytes(&mut shown, "stderr", &execution.stderr);
    }
    if facts.structured && execution.end == (End::Exit { code: 0 }) {
        shown.insert("error".to_owned(), json!("the tool did not print one JSON object"));
    }
    if let End::Exit { code } = execution.end {
        shown.insert("exit".to_owned(), json!(code));
    }
    if let End::Quota { unread_folders } = execution.end {
        shown.insert("error".to_owned(), json!(over_quota(unread_folders)));
    }
    if let End::Signal { signal } = execution.end {
        shown.insert("signal".to_owned(), json!(signal));
    }
    ResultContent::untrusted(Value::Object(shown), cut)
}

/// Why a call was ended for exceeding its quota, and how to fix it. Names no file, because others
/// may have chosen the names.
fn over_quota(unread_folders: u64) -> String {
    let over = "it added more to its folders than the manifest's `written_bytes_max` and `written_files_max` allow, more of \
                the file system's free space than its share, made folders more than 256 deep, or moved folders about while they were counted: remove what \
                is not needed, or raise the limits";
    match unread_folders {
        0 => over.to_owned(),
        some => format!(
            "{over}; {some} folders could not be read and count as one entry each (`find -type d ! -readable`)"
        ),
    }
}

fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match parse_strict(bytes, limits::JSON_DEPTH_MAX) {
        Ok(value @ Value::Object(_)) if has_only_exact_integers(&value) => match value {
            Value::Object(members) => Some(members),
            _ => None,
        },
        _ => None,
    }
}

/// Bytes as visible text, or else as base64.
fn shown_bytes(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(words) => (Some(text::visible(words)), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

fn put_bytes(shown: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let (words, encoded) = shown_bytes(bytes);
    shown.extend(words.map(|words| (name.to_owned(), json!(words))));
    shown.extend(encoded.map(|encoded| (format!("{name}_base64"), json!(encoded))));
}

fn visible(value: Value) -> Value {
    match value {
        Value::String(words) => Value::String(text::visible(&words)),
        Value::Array(items) => items.into_iter().map(visible).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (text::visible_line(&name), visible(member))).collect()
        }
        plain => plain,
    }
}
