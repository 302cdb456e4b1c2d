//! One line for an entry: who did it, on what, and how it came out, in a person's words.
//!
//! Command line and pages show the same line. It is read from the entry's own payload, and for a
//! result from that of its decision; an erased payload leaves its part empty. Control characters
//! are made visible.

use crate::ledger::entry::{Header, Kind, Payload};
use crate::ledger::payload::{
    AnchorPayload, ApprovalGrantPayload, ApprovalRefusePayload, ApprovalRequestPayload, AuthRefusedPayload,
    CallConnectPayload, CallDecisionPayload, CallForecastPayload, ContextTrimPayload, ExportPayload,
    GenesisPayload, HaltLiftPayload, HaltSetPayload, KeyCreatePayload, KeyEpochPayload, KeyRevokePayload,
    LedgerDamagePayload, ModelAskPayload, ModelErrorPayload, ModelReplyPayload, ObjectFound,
    PayloadDropPayload, PolicyLoadPayload, PolicyRefusePayload, RecoveryPayload, RedactionPayload,
    RunCancelPayload, RunReplyPayload, RunRequestPayload, SegmentSealPayload, SessionEndPayload,
    StartPayload, StopPayload, ToolsLoadPayload,
};
use crate::ledger::read::{ReadError, Reader, Stored};
use crate::types::{ModelSink, RefusalClass, limits, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// Longer payloads are not read for a line, in bytes.
const LINE_PAYLOAD_BYTES_MAX: u64 = 256 << 10;

/// The names of API keys by their ids, with the users that they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyNames(BTreeMap<String, (String, Option<String>)>);

impl KeyNames {
    /// From each key's id, name and user.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = (String, String, Option<String>)>) -> Self {
        Self(keys.into_iter().map(|(id, name, user)| (id, (name, user))).collect())
    }

    /// A principal as people know it: `ops-ci (ben)` for a key, `root` for a user of the host. An
    /// unknown key keeps its id.
    #[must_use]
    pub fn shown(&self, principal: &str) -> String {
        let known = principal.strip_prefix("key:").and_then(|id| self.0.get(id));
        text::visible_line(&match known {
            Some((name, Some(user))) if name == user => name.clone(),
            Some((name, Some(user))) => format!("{name} ({user})"),
            Some((name, None)) => name.clone(),
            None => principal.strip_prefix("os:").unwrap_or(principal).to_owned(),
        })
    }

    /// The name and the user of the key of this principal, if it is a known key.
    #[must_use]
    pub fn of(&self, principal: &str) -> Option<(&str, Option<&str>)> {
        let (name, user) = principal.strip_prefix("key:").and_then(|id| self.0.get(id))?;
        Some((name, user.as_deref()))
    }

    /// The ids of the keys with this name or of this user.
    pub fn ids<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let is_it = move |key: &(String, Option<String>)| key.0 == name || key.1.as_deref() == Some(name);
        self.0.iter().filter(move |(_, key)| is_it(key)).map(|(id, _)| id.as_str())
    }

    /// Whether a key has this id.
    #[must_use]
    pub fn has_id(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The ids of all keys.
    pub fn all_ids(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names of all keys.
    pub fn all_names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(name, _)| name.as_str())
    }

    /// The users of all keys.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.0.values().filter_map(|(_, user)| user.as_deref())
    }

    /// The ids of the keys of this user.
    pub fn ids_of_user<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(_, key)| key.1.as_deref() == Some(user)).map(|(id, _)| id.as_str())
    }
}

/// One entry, for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryLine {
    /// The principal, as [`KeyNames::shown`] writes it; empty for the ledger's own entries.
    pub who: String,
    /// What the entry is about: a file, a host, a key, a question. At most 200 bytes, and `…` if
    /// that is not all.
    pub what: String,
    /// The decision or the status, in words.
    pub outcome: String,
    /// The class of the refusal, if the entry decides on one.
    pub class: Option<RefusalClass>,
}

/// Makes lines for entries of one ledger.
#[derive(Clone, Copy, Debug)]
pub struct EntryTeller<'a> {
    /// The ledger.
    pub reader: &'a Reader,
    /// The names of its keys.
    pub names: &'a KeyNames,
}

impl EntryTeller<'_> {
    /// The line for the entry with this header. Reads its payload.
    pub fn line(&self, header: &Header) -> Result<EntryLine, ReadError> {
        match self.stored(header)? {
            Some(stored) => line_of(&stored, self.names, |seq| self.reader.entry(seq)),
            None => Ok(of_header(header, self.names)),
        }
    }

    fn stored(&self, header: &Header) -> Result<Option<Stored>, ReadError> {
        if header.payload_len > LINE_PAYLOAD_BYTES_MAX {
            return Ok(None);
        }
        self.reader.entry(header.seq)
    }
}

/// The line for an entry that was read already. `entry` reads another one, by its number: the
/// decision of a result.
pub fn line_of<E>(
    stored: &Stored,
    names: &KeyNames,
    entry: impl FnOnce(u64) -> Result<Option<Stored>, E>,
) -> Result<EntryLine, E> {
    let what = match (stored.header.known_kind(), stored.header.u64("ref")) {
        (Some(Kind::CallResult), Some(decision)) => decided(entry(decision)?),
        (Some(kind), _) => what(kind, stored),
        (None, _) => String::new(),
    };
    let what = one_line(&what);
    Ok(EntryLine { what, ..of_header(&stored.header, names) })
}

/// The line of an entry whose payload is not read.
fn of_header(header: &Header, names: &KeyNames) -> EntryLine {
    let outcome = match header.known_kind() {
        // Its status is the class of the refusal.
        Some(Kind::ApprovalRefuse) if header.str("principal").is_some() => "refused",
        Some(Kind::ApprovalGrant) => "granted",
        _ => header.str("decision").or_else(|| header.str("status")).unwrap_or_default(),
    };
    EntryLine {
        who: header.str("principal").map(|principal| names.shown(principal)).unwrap_or_default(),
        what: String::new(),
        outcome: text::visible_line(outcome).replace('_', " "),
        class: header.decision().and_then(|decision| RefusalClass::of(decision, header.str("status"))),
    }
}

fn what(kind: Kind, stored: &Stored) -> String {
    match kind {
        Kind::CallConnect => said(stored, |connect: CallConnectPayload| connect.host),
        Kind::CallDecision => said(stored, object),
        Kind::RunRequest => said(stored, |asked: RunRequestPayload| asked.message),
        Kind::RunReply => {
            said(stored, |reply: RunReplyPayload| first_line(&reply.answer.unwrap_or_default()))
        }
        Kind::ModelAsk => said(stored, |ask: ModelAskPayload| format!("{} at {}", ask.name, ask.host)),
        Kind::CallForecast => said(stored, forecast),
        Kind::ModelReply => said(stored, replied),
        Kind::ModelError => said(stored, |error: ModelErrorPayload| of_model(error.named, &error.error)),
        Kind::RunCancel => said(stored, |cancel: RunCancelPayload| cancel.reason.unwrap_or_default()),
        Kind::SessionEnd => said(stored, |end: SessionEndPayload| end.reason.unwrap_or_default()),
        Kind::ContextTrim => said(stored, |trim: ContextTrimPayload| trim.line()),
        Kind::ApprovalRequest => said(stored, |asked: ApprovalRequestPayload| {
            of_object(&asked.resource.object, &asked.resource.id)
        }),
        Kind::ApprovalGrant => said(stored, |given: ApprovalGrantPayload| given.reason.unwrap_or_default()),
        Kind::ApprovalRefuse => said(stored, |given: ApprovalRefusePayload| given.reason.unwrap_or_default()),
        _ => of_server(kind, stored),
    }
}

/// The object of the decision that a result belongs to.
fn decided(decision: Option<Stored>) -> String {
    let is_short = |stored: &Stored| stored.header.payload_len <= LINE_PAYLOAD_BYTES_MAX;
    decision.filter(is_short).map(|stored| said(&stored, object)).unwrap_or_default()
}

/// The first line of an answer, with `…` if there are more.
fn first_line(answer: &str) -> String {
    match answer.trim().split_once('\n') {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => answer.trim().to_owned(),
    }
}

/// The entries of the server, its keys and the log itself.
fn of_server(kind: Kind, stored: &Stored) -> String {
    match kind {
        Kind::KeyCreate => said(stored, |key: KeyCreatePayload| {
            let user = key.user.map_or(String::new(), |user| format!(" of {user}"));
            format!("{}{user}, {}", key.name, key.role)
        }),
        Kind::KeyRevoke => said(stored, |key: KeyRevokePayload| key.name),
        Kind::HaltSet => said(stored, |halt: HaltSetPayload| format!("{}: {}", halt.scope, halt.reason)),
        Kind::HaltLift => said(stored, |lift: HaltLiftPayload| match lift.reason {
            Some(reason) => format!("{}: {reason}", lift.scope),
            None => lift.scope.to_string(),
        }),
        Kind::AuthRefused => said(stored, |refused: AuthRefusedPayload| {
            let reasons = refused.reasons.iter().map(|(reason, count)| format!("{count} × {reason}"));
            reasons.collect::<Vec<_>>().join(", ")
        }),
        Kind::Genesis => said(stored, |genesis: GenesisPayload| genesis.origin),
        Kind::Start => said(stored, |start: StartPayload| format!("{} {}", start.command, start.program)),
        Kind::Stop => said(stored, |stop: StopPayload| stop.command),
        Kind::PolicyLoad => said(stored, |load: PolicyLoadPayload| counted(load.policies.len(), "rule")),
        Kind::PolicyRefuse => said(stored, |refused: PolicyRefusePayload| refused.reason),
        Kind::ToolsLoad => said(stored, |load: ToolsLoadPayload| counted(load.tools.len(), "tool")),
        Kind::KeyEpoch => said(stored, |epoch: KeyEpochPayload| format!("epoch {}", epoch.epoch)),
        Kind::Anchor => {
            said(stored, |anchor: AnchorPayload| format!("{} entries, {}", anchor.size, anchor.place))
        }
        Kind::Export => said(stored, |export: ExportPayload| match export.query.as_str() {
            "" => format!("{} entries as {}", export.entries, export.format),
            query => format!("{} entries as {}: {query}", export.entries, export.format),
        }),
        Kind::Redaction => said(stored, |redaction: RedactionPayload| {
            format!("entry {}: {}", stored.header.u64("ref").unwrap_or_default(), redaction.reason)
        }),
        Kind::SegmentSeal => said(stored, |seal: SegmentSealPayload| format!("entries from {}", seal.first)),
        Kind::PayloadDrop => said(stored, |dropped: PayloadDropPayload| {
            format!("entries {} to {}", dropped.first, dropped.last)
        }),
        Kind::LedgerDamage => said(stored, |damage: LedgerDamagePayload| match damage.entry {
            Some(seq) => format!("entry {seq}: {}", damage.found),
            None => damage.found,
        }),
        Kind::Recovery => said(stored, |closed: RecoveryPayload| {
            format!("{}, {}", counted(closed.calls, "call"), counted(closed.runs, "run"))
        }),
        _ => String::new(),
    }
}

fn said<P: Payload>(stored: &Stored, say: impl FnOnce(P) -> String) -> String {
    stored.payload().map(say).unwrap_or_default()
}

/// The beginning of a text, its lines and other spaces joined by single ones.
fn one_line(text: &str) -> String {
    // A few words suffice, whatever the length of the text.
    let head = text::prefix(text, limits::SHOWN_BYTES_MAX * 2);
    let words: Vec<&str> = head.split([' ', '\n', '\r', '\t']).filter(|word| !word.is_empty()).collect();
    let line = text::visible_line(&words.join(" "));
    let shown = text::prefix(&line, limits::SHOWN_BYTES_MAX);
    let is_cut = shown.len() < line.len() || head.len() < text.len();
    if is_cut { format!("{shown}…") } else { line }
}

/// `1 run`, `2 runs`.
fn counted<N: TryInto<u64>>(count: N, what: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// What a call is about: the object that the sandbox found, else the resource that the policies
/// saw, else the arguments.
fn object(decision: CallDecisionPayload) -> String {
    let asked = decision.request.as_ref().and_then(|request| request.pointer("/resource/id"));
    let asked = asked.and_then(Value::as_str).unwrap_or_default();
    let found = decision.object.as_ref().map_or_else(|| asked.to_owned(), |object| of_object(object, asked));
    if !found.is_empty() {
        return found;
    }
    let arguments = decision.arguments.as_ref().and_then(Value::as_object);
    let words = arguments.into_iter().flatten().map(|(name, value)| match value.as_str() {
        Some(value) => format!("{name}={value}"),
        None => format!("{name}={value}"),
    });
    let words = words.collect::<Vec<_>>().join(" ");
    if words.is_empty() { decision.arguments_raw.unwrap_or_default() } else { words }
}

/// What a forecast is about: the object that the sandbox found, else the resource that the policies
/// saw.
fn forecast(call: CallForecastPayload) -> String {
    let asked = call.request.pointer("/resource/id").and_then(Value::as_str).unwrap_or_default();
    call.object.as_ref().map_or_else(|| asked.to_owned(), |object| of_object(object, asked))
}

fn of_object(object: &ObjectFound, asked: &str) -> String {
    match object {
        ObjectFound::Path { canonical, .. } => canonical.clone(),
        ObjectFound::Unreadable { canonical, rest, .. } if rest.is_empty() => canonical.clone(),
        ObjectFound::Absent { folder, rest } | ObjectFound::Unreadable { canonical: folder, rest, .. } => {
            format!("{}/{rest}", folder.trim_end_matches('/'))
        }
        ObjectFound::Content { folder, .. } if asked.is_empty() => folder.clone(),
        // A server's own name says nothing about the call.
        ObjectFound::Fixed | ObjectFound::Outside if asked == "self" => String::new(),
        ObjectFound::Content { .. } | ObjectFound::Fixed | ObjectFound::Outside => asked.to_owned(),
    }
}

/// The calls that a reply proposes, else its text.
fn replied(reply: ModelReplyPayload) -> String {
    let calls: Vec<&str> = reply.calls.iter().map(|call| call.tool.as_str()).collect();
    let what = if calls.is_empty() {
        first_line(&reply.text.unwrap_or_default())
    } else {
        format!("→ {}", calls.join(", "))
    };
    of_model(reply.named, &what)
}

/// `what`, after the name of the model in the configuration, unless that is the one of `[llm]`.
fn of_model(named: Option<String>, what: &str) -> String {
    match named.filter(|name| name != ModelSink::DEFAULT) {
        Some(name) => format!("{name}: {what}").trim_end().to_owned(),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyNames, counted, object, of_object, one_line};
    use crate::ledger::payload::{CallDecisionPayload, ObjectFound};
    use serde_json::json;

    /// Keys are shown by name and user (C1).
    #[test]
    fn a_principal_is_shown_by_name() {
        let key = |id: &str, name: &str, user: Option<&str>| {
            (id.to_owned(), name.to_owned(), user.map(ToOwned::to_owned))
        };
        let names = KeyNames::new([
            key("ZcTr354w", "ops-ci", Some("ben")),
            key("Ab3dEf9h", "cron", None),
            key("Cc3dEf9h", "ben", Some("ben")),
        ]);
        for (principal, shown) in [
            ("key:ZcTr354w", "ops-ci (ben)"),
            ("key:Ab3dEf9h", "cron"),
            ("key:Cc3dEf9h", "ben"),
            ("key:Unknown1", "key:Unknown1"),
            ("os:root", "root"),
        ] {
            assert_eq!(names.shown(principal), shown);
        }
        assert_eq!(names.ids("ben").collect::<Vec<_>>(), ["Cc3dEf9h", "ZcTr354w"]);
        assert_eq!((counted(1_u64, "run"), counted(2_u64, "run")), ("1 run".to_owned(), "2 runs".to_owned()));
    }

    /// A line that is cut says so.
    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        assert_eq!(one_line("a  b\nc"), "a b c");
        let (whole, long) = ("x".repeat(200), "x".repeat(201));
        assert_eq!((one_line(&whole), one_line(&long)), (whole.clone(), format!("{whole}…")));
        assert!(one_line(&"x ".repeat(500)).ends_with('…'));
    }

    /// A decision is told by its object, and without one by its arguments (C1).
    #[test]
    fn a_decision_is_told_by_its_object() {
        let found = json!({ "is": "path", "canonical": "/var/log/app.log", "dev": "1", "ino": "2", "kind": "file", "within": [] });
        let decision = CallDecisionPayload {
            object: serde_json::from_value(found).ok(),
            request: Some(json!({ "resource": { "type": "PAR::Path", "id": "/var/log/x" } })),
            ..CallDecisionPayload::default()
        };
        assert_eq!(object(decision), "/var/log/app.log");
        let outside = CallDecisionPayload {
            object: Some(ObjectFound::Outside),
            request: Some(json!({ "resource": { "type": "PAR::Path", "id": "/etc/shadow" } })),
            ..CallDecisionPayload::default()
        };
        assert_eq!(object(outside), "/etc/shadow");
        let arguments = Some(json!({ "name": "nginx", "tries": 2 }));
        let other = CallDecisionPayload { arguments, ..CallDecisionPayload::default() };
        assert_eq!(object(other), "name=nginx tries=2");
        let absent = ObjectFound::Absent { folder: "/var/log".to_owned(), rest: "a/b".to_owned() };
        assert_eq!(of_object(&absent, ""), "/var/log/a/b");
    }
}
