//! What an entry is about, on one line for people: the object of a call, the question of a run, the
//! name of a key. Pure; whoever shows the line may show the payload.

use crate::ledger::entry::{Header, Kind, Payload};
use crate::ledger::payload::{
    AnchorPayload, ApprovalGrantPayload, ApprovalRefusePayload, ApprovalRequestPayload, AuthRefusedPayload,
    CallConnectPayload, CallDecisionPayload, CallResultPayload, ExportPayload, GenesisPayload,
    KeyCreatePayload, KeyEpochPayload, KeyRevokePayload, ModelErrorPayload, ModelReplyPayload, ObjectFound,
    PayloadDropPayload, PolicyLoadPayload, PolicyRefusePayload, RecoveryPayload, RedactionPayload,
    RunReplyPayload, RunRequestPayload, SegmentSealPayload, StartPayload, StopPayload, ToolsLoadPayload,
};
use crate::types::{limits, text};
use serde_json::Value;

/// What the entry is about. `body` is its payload; without one, the line says what the header says.
/// Text from outside is made visible, on one line, and bounded.
#[must_use]
pub fn about(header: &Header, body: Option<&[u8]>) -> String {
    let told = body.and_then(|body| of_payload(header, body));
    let tool = header.str("tool").unwrap_or_default();
    let line = match told {
        Some(told) if tool.is_empty() => told,
        Some(told) => format!("{tool} {told}"),
        None if body.is_none() && header.payload_len > 0 => format!("{tool} (erased)"),
        None => tool.to_owned(),
    };
    short(line.trim())
}

fn short(line: &str) -> String {
    text::visible_line(text::prefix(line, limits::SHOWN_BYTES_MAX))
}

fn of_payload(header: &Header, body: &[u8]) -> Option<String> {
    match header.known_kind()? {
        Kind::RunRequest => Some(read::<RunRequestPayload>(header, body)?.message),
        Kind::ModelReply => Some(model_reply(&read(header, body)?)),
        Kind::ModelError => Some(read::<ModelErrorPayload>(header, body)?.error),
        Kind::RunReply => read::<RunReplyPayload>(header, body)?.answer.as_deref().map(first_line),
        Kind::CallDecision => Some(object(&read(header, body)?)),
        Kind::CallConnect => {
            let CallConnectPayload { host, address } = read(header, body)?;
            Some(format!("{host} at {address}"))
        }
        Kind::CallResult => error_of(&read::<CallResultPayload>(header, body)?.result),
        Kind::ApprovalRequest => {
            let ApprovalRequestPayload { id, resource, .. } = read(header, body)?;
            Some(format!("{} ({id})", resource.id))
        }
        Kind::ApprovalGrant => {
            let ApprovalGrantPayload { id, reason, .. } = read(header, body)?;
            Some(with_reason(id.as_str(), reason))
        }
        Kind::ApprovalRefuse => {
            let ApprovalRefusePayload { id, reason, .. } = read(header, body)?;
            Some(with_reason(id.as_str(), reason))
        }
        _ => of_the_log(header, body),
    }
}

/// What keys, rules, servers and the log itself record.
fn of_the_log(header: &Header, body: &[u8]) -> Option<String> {
    Some(match header.known_kind()? {
        Kind::Genesis => {
            let before = read::<GenesisPayload>(header, body)?.before?;
            format!("continues log {} after {}", before.log, before.why)
        }
        Kind::Start => read::<StartPayload>(header, body)?.command,
        Kind::Stop => read::<StopPayload>(header, body)?.command,
        Kind::PolicyLoad => {
            let PolicyLoadPayload { digest, policies, .. } = read(header, body)?;
            format!("{} policies, bundle {}", policies.len(), text::prefix(&digest.hex(), 12))
        }
        Kind::PolicyRefuse => read::<PolicyRefusePayload>(header, body)?.reason,
        Kind::ToolsLoad => format!("{} tools", read::<ToolsLoadPayload>(header, body)?.tools.len()),
        Kind::KeyCreate => {
            // Only what names the key: the payload holds its verifiers.
            let KeyCreatePayload { id, name, role, user, .. } = read(header, body)?;
            format!("{}, {role}, key:{id}", named(&name, user.as_deref()))
        }
        Kind::KeyRevoke => {
            let KeyRevokePayload { id, name, .. } = read(header, body)?;
            format!("{name}, key:{id}")
        }
        Kind::AuthRefused => counts(&read(header, body)?),
        Kind::KeyEpoch => format!("epoch {}", read::<KeyEpochPayload>(header, body)?.epoch),
        Kind::Anchor => {
            let AnchorPayload { place, size, .. } = read(header, body)?;
            format!("{size} entries at {place}")
        }
        Kind::Export => {
            let ExportPayload { query, format, entries, .. } = read(header, body)?;
            format!("{entries} entries as {format} {query}")
        }
        Kind::Redaction => {
            let RedactionPayload { reason, kind, .. } = read(header, body)?;
            format!("{kind}: {reason}")
        }
        Kind::SegmentSeal => {
            let SegmentSealPayload { first, next } = read(header, body)?;
            format!("entries {first} to {}", next.saturating_sub(1))
        }
        Kind::PayloadDrop => {
            let PayloadDropPayload { first, last, .. } = read(header, body)?;
            format!("payloads {first} to {last}")
        }
        Kind::Recovery => {
            let RecoveryPayload { calls, runs } = read(header, body)?;
            format!("{calls} calls, {runs} runs")
        }
        _ => return None,
    })
}

fn read<P: Payload>(header: &Header, body: &[u8]) -> Option<P> {
    header.payload_of(body)
}

/// A key by its name, with its user: `ops-ci (ben)`.
#[must_use]
pub fn named(name: &str, user: Option<&str>) -> String {
    user.map_or_else(|| name.to_owned(), |user| format!("{name} ({user})"))
}

fn with_reason(id: &str, reason: Option<String>) -> String {
    reason.map_or_else(|| id.to_owned(), |reason| format!("{id}: {reason}"))
}

/// The calls that a model proposed, or its text.
fn model_reply(reply: &ModelReplyPayload) -> String {
    let calls: Vec<&str> = reply.calls.iter().map(|call| call.tool.as_str()).collect();
    match (calls.is_empty(), &reply.text) {
        (false, _) => format!("calls {}", calls.join(", ")),
        (true, Some(text)) => first_line(text),
        (true, None) => String::new(),
    }
}

/// The first line of an answer, with `…` if there are more.
fn first_line(answer: &str) -> String {
    match answer.trim().split_once('\n') {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => answer.trim().to_owned(),
    }
}

/// The object that a call is decided for, or its arguments if it has none.
fn object(decided: &CallDecisionPayload) -> String {
    let resource = || decided.request.as_ref()?.pointer("/resource/id")?.as_str().map(str::to_owned);
    let arguments = || match (&decided.arguments, &decided.arguments_raw) {
        (Some(Value::Object(members)), _) if members.is_empty() => None,
        (Some(arguments), _) => Some(arguments.to_string()),
        (None, raw) => raw.clone(),
    };
    let found = match &decided.object {
        Some(ObjectFound::Path { canonical, .. }) => Some(canonical.clone()),
        Some(ObjectFound::Absent { folder, rest }) => Some(format!("{folder}/{rest}")),
        // The resource of a fixed object says less than the arguments.
        Some(ObjectFound::Fixed) => arguments().or_else(resource),
        Some(ObjectFound::Content { .. } | ObjectFound::Outside) | None => resource().or_else(arguments),
    };
    found.unwrap_or_default()
}

/// Why a call failed.
fn error_of(result: &Value) -> Option<String> {
    result.get("error")?.as_str().map(str::to_owned)
}

fn counts(refused: &AuthRefusedPayload) -> String {
    let reasons: Vec<String> = refused.reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
    reasons.join(", ")
}

#[cfg(test)]
mod tests {
    use super::about;
    use crate::ledger::Header;
    use serde_json::json;

    fn header(kind: &str, tool: Option<&str>, length: u64) -> Header {
        let mut fields = serde_json::Map::new();
        fields.extend(tool.map(|tool| ("tool".to_owned(), json!(tool))));
        let digest = crate::types::Digest([0; 32]);
        Header {
            log: "log".to_owned(),
            seq: 7,
            prev: None,
            kind: kind.to_owned(),
            payload: digest,
            payload_len: length,
            fields,
        }
    }

    /// C1: a row names the object, the host, the key or the question, not only the kind.
    #[test]
    fn the_line_names_what_the_entry_is_about() {
        let path = json!({ "is": "path", "canonical": "/var/log/x", "dev": "1", "ino": "2", "kind": "file", "within": [] });
        let outside = json!({ "type": "PAR::Path", "id": "/etc/shadow" });
        for (kind, tool, payload, expect) in [
            (
                "run.request",
                None,
                json!({ "message": "why is\nit slow?", "calls_max": 1, "tools": [], "provider": "p", "model": "m" }),
                "why is\\nit slow?",
            ),
            (
                "call.decision",
                Some("read_file"),
                json!({ "proposed_id": "1", "object": path, "arguments": { "path": "x" } }),
                "read_file /var/log/x",
            ),
            (
                "call.decision",
                Some("read_file"),
                json!({ "proposed_id": "1", "object": { "is": "outside" }, "request": { "resource": outside } }),
                "read_file /etc/shadow",
            ),
            ("call.decision", Some("rm"), json!({ "proposed_id": "1", "arguments_raw": "{-" }), "rm {-"),
            (
                "call.connect",
                Some("http_get"),
                json!({ "host": "example.org:443", "address": "192.0.2.1:443" }),
                "http_get example.org:443 at 192.0.2.1:443",
            ),
            ("key.revoke", None, json!({ "id": "Ab3dEf9h", "name": "ops" }), "ops, key:Ab3dEf9h"),
            ("a.later.kind", None, json!({}), ""),
        ] {
            let body = payload.to_string();
            let line = about(&header(kind, tool, 9), Some(body.as_bytes()));
            assert_eq!(line, expect, "{kind}");
        }
        assert_eq!(about(&header("call.decision", Some("rm"), 9), None), "rm (erased)");
        assert_eq!(about(&header("call.decision", Some("rm"), 9), Some(b"{")), "rm");
    }

    /// Verifiers of a key are never part of the line.
    #[test]
    fn a_key_is_named_without_its_verifiers() {
        let payload = json!({ "id": "Ab3dEf9h", "name": "ops-ci", "role": "operator", "user": "ben",
            "hmac": "11".repeat(32), "argon2": "$argon2id$v=19$secret" });
        let line = about(&header("key.create", None, 9), Some(payload.to_string().as_bytes()));
        assert_eq!(line, "ops-ci (ben), operator, key:Ab3dEf9h");
    }
}
