//! The entry: canonical header bytes, the payload's commitment, and reading them back.
//!
//! Pure: no disk, no clock. The format is written down in `docs/ledger-format.md`.

use super::brief::Brief;
use crate::types::json::{canonical, parse_strict};
use crate::types::{CallId, Digest, RunId, SessionId, limits, text};
use serde_json::{Map, Value, json};
use std::fmt;

/// The format's name, in every header.
pub const FORMAT: &str = "par/entry/1";

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What an entry records. A reader also meets kinds of later versions, as text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// The word in the header.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The kind of this word; `None` of a later version's.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// The first entry: log id and log key.
    Genesis = "genesis";
    /// A server or a command began.
    Start = "start";
    /// The configuration in force.
    ConfigLoad = "config.load";
    /// The policy bundle in force.
    PolicyLoad = "policy.load";
    /// Rules that were to come into force and could not be loaded; those before them stay.
    PolicyRefuse = "policy.refuse";
    /// The tools in force and what was skipped.
    ToolsLoad = "tools.load";
    /// A key was made; the payload holds its verifiers and is never shown.
    KeyCreate = "key.create";
    /// A key was withdrawn.
    KeyRevoke = "key.revoke";
    /// How many credentials were refused since the last such entry.
    AuthRefused = "auth.refused";
    /// A message came in.
    RunRequest = "run.request";
    /// The model answered.
    ModelReply = "model.reply";
    /// The model did not answer.
    ModelError = "model.error";
    /// A proposed call was decided.
    CallDecision = "call.decision";
    /// An allowed call ended.
    CallResult = "call.result";
    /// A call waits for a person.
    ApprovalRequest = "approval.request";
    /// A person said yes to exactly that call.
    ApprovalGrant = "approval.grant";
    /// A person said no, or nobody answered in time.
    ApprovalRefuse = "approval.refuse";
    /// A run ended.
    RunReply = "run.reply";
    /// A new key signs checkpoints; the payload holds the seal of the epoch before.
    KeyEpoch = "key.epoch";
    /// A checkpoint was taken by a place outside.
    Anchor = "anchor";
    /// Entries were taken out in one file.
    Export = "export";
    /// A payload was erased.
    Redaction = "redaction";
    /// The last entry of a segment.
    SegmentSeal = "segment.seal";
    /// Payloads of a segment that was over its age are gone.
    PayloadDrop = "payload.drop";
    /// The start found and closed what a crash had left open.
    Recovery = "recovery";
    /// A server or a command ended in order.
    Stop = "stop";
}

impl Kind {
    /// Whether payloads of this kind are erased at all. Keys, rules and approvals are made again from theirs.
    #[must_use]
    pub fn may_be_erased(self) -> bool {
        matches!(
            self,
            Self::AuthRefused
                | Self::RunRequest
                | Self::ModelReply
                | Self::ModelError
                | Self::CallDecision
                | Self::CallResult
                | Self::RunReply
        )
    }
}

/// The entry that another one answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ref {
    /// By its sequence number.
    Seq(u64),
    /// By its place in the same append, from 0.
    Sibling(usize),
}

/// An entry to be: what its writer knows. Sequence, chain and times are the ledger's to add.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What is recorded.
    pub kind: Kind,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// The entry that this one answers.
    pub answers: Option<Ref>,
    /// Who acted, such as `key:Ab3dEf9h` or `os:root`.
    pub principal: Option<String>,
    /// Digest of the policy bundle.
    pub policy: Option<Digest>,
    /// Digest of the tool's manifest.
    pub manifest: Option<Digest>,
    /// `allow`, `deny`, `needs_approval` or `invalid`.
    pub decision: Option<&'static str>,
    /// Determining policies.
    pub policies: Vec<String>,
    /// Status of a result or a reply.
    pub status: Option<&'static str>,
    /// The tool's name, as proposed.
    pub tool: Option<String>,
    /// The payload: an object; `"v": 1` is added.
    pub payload: Map<String, Value>,
}

impl Draft {
    /// A draft of `kind` with the members of `payload`, which is a JSON object.
    #[must_use]
    pub fn new(kind: Kind, payload: Value) -> Self {
        let payload = match payload {
            Value::Object(members) => members,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self {
            kind,
            run: None,
            session: None,
            call: None,
            answers: None,
            principal: None,
            policy: None,
            manifest: None,
            decision: None,
            policies: Vec::new(),
            status: None,
            tool: None,
            payload,
        }
    }
}

/// Why a draft cannot become an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftError(pub String);

impl fmt::Display for DraftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DraftError {}

/// The ledger's part of a header.
#[derive(Clone, Debug)]
pub struct Stamp<'a> {
    /// The log's identifier.
    pub log: &'a str,
    /// Place in the log, from 0.
    pub seq: u64,
    /// Leaf hash of the entry before; absent for the first.
    pub prev: Option<Digest>,
    /// Wall clock, microseconds since 1970.
    pub wall_us: u64,
    /// Microseconds since the host's start.
    pub mono_us: u64,
    /// The host's boot.
    pub boot: &'a str,
    /// Sequence number of the first entry of the same append.
    pub first_seq: u64,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The canonical header bytes.
    pub header: Vec<u8>,
    /// 32 random bytes.
    pub salt: [u8; 32],
    /// The payload bytes.
    pub body: Vec<u8>,
}

/// The payload's bytes: canonical JSON with `"v": 1`. One longer than [`limits::PAYLOAD_BYTES_MAX`]
/// is replaced by its head, its length and its SHA-256.
pub fn payload_bytes(payload: &Map<String, Value>) -> Result<Vec<u8>, DraftError> {
    let mut members = payload.clone();
    members.insert("v".to_owned(), json!(1));
    let whole = canonical(&Value::Object(members)).map_err(|e| DraftError(format!("payload: {e}")))?;
    if whole.len() <= limits::PAYLOAD_BYTES_MAX {
        return Ok(whole.into_bytes());
    }
    let cut = json!({
        "v": 1,
        "cut": true,
        "bytes": whole.len(),
        "sha256": Digest::of(whole.as_bytes()).hex(),
        // Escaping may double the head; a quarter keeps the whole within the limit.
        "head": text::prefix(&whole, limits::PAYLOAD_BYTES_MAX / 4),
    });
    canonical(&cut).map(String::into_bytes).map_err(|e| DraftError(format!("payload: {e}")))
}

/// Commitment to a payload: SHA-256("par/payload/1\0" ‖ salt ‖ payload). The salt keeps a redacted
/// text from being guessed.
#[must_use]
pub fn commitment(salt: &[u8; 32], body: &[u8]) -> Digest {
    Digest::of_parts(&[b"par/payload/1\0", salt, body])
}

/// Makes the stored form of `draft` with the payload bytes `body`.
pub fn seal(draft: &Draft, stamp: &Stamp<'_>, salt: [u8; 32], body: Vec<u8>) -> Result<Sealed, DraftError> {
    let mut header = Map::new();
    let mut put = |name: &str, value: Value| header.insert(name.to_owned(), value);
    put("t", json!(FORMAT));
    put("log", json!(stamp.log));
    put("seq", json!(stamp.seq));
    put("kind", json!(draft.kind.as_str()));
    put("wall_us", json!(stamp.wall_us));
    put("mono_us", json!(stamp.mono_us));
    put("boot", json!(stamp.boot));
    put("payload", json!(commitment(&salt, &body).hex()));
    put("payload_len", json!(body.len()));
    if !draft.policies.is_empty() {
        put("policies", json!(draft.policies));
    }
    let reference = draft.answers.map(|answers| match answers {
        Ref::Seq(seq) => seq,
        Ref::Sibling(at) => stamp.first_seq + at as u64,
    });
    let optional = [
        ("prev", stamp.prev.map(|d| json!(d.hex()))),
        ("run", draft.run.as_ref().map(|id| json!(id.as_str()))),
        ("session", draft.session.as_ref().map(|id| json!(id.as_str()))),
        ("call", draft.call.as_ref().map(|id| json!(id.as_str()))),
        ("ref", reference.map(|seq| json!(seq))),
        ("principal", draft.principal.as_ref().map(|p| json!(p))),
        ("policy", draft.policy.map(|d| json!(d.hex()))),
        ("manifest", draft.manifest.map(|d| json!(d.hex()))),
        ("decision", draft.decision.map(|d| json!(d))),
        ("status", draft.status.map(|s| json!(s))),
        ("tool", draft.tool.as_ref().map(|t| json!(text::prefix(t, 64)))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(name, value);
        }
    }
    let header =
        canonical(&Value::Object(header)).map_err(|e| DraftError(format!("header: {e}")))?.into_bytes();
    if header.len() >= limits::HEADER_ENTRY_BYTES_MAX {
        return Err(DraftError(format!(
            "header of {} bytes is over {}",
            header.len(),
            limits::HEADER_ENTRY_BYTES_MAX
        )));
    }
    Ok(Sealed { header, salt, body })
}

/// A header as read back: the fields that PAR itself looks at, and the whole object for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The log's identifier.
    pub log: String,
    /// Place in the log.
    pub seq: u64,
    /// Leaf hash of the entry before.
    pub prev: Option<Digest>,
    /// The kind, perhaps one of a later version.
    pub kind: String,
    /// Commitment to the payload.
    pub payload: Digest,
    /// Length of the payload, in bytes.
    pub payload_len: u64,
    /// Every field.
    pub fields: Map<String, Value>,
}

impl Header {
    /// Reads header bytes. They must be an object of strings, exact integers, booleans and arrays of
    /// strings, without duplicate keys, with the fields that every entry has, and each field that the format
    /// names of its type.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        match Brief::read(bytes) {
            Some(brief) => Ok(brief.header()),
            None => Self::parse_any(bytes),
        }
    }

    /// As [`Header::parse`], whatever the form.
    pub(super) fn parse_any(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() >= limits::HEADER_ENTRY_BYTES_MAX {
            return Err(format!("header of {} bytes is too long", bytes.len()));
        }
        let Value::Object(fields) = parse_strict(bytes, 2).map_err(|e| format!("header is no JSON: {e}"))?
        else {
            return Err("header is no object".to_owned());
        };
        if let Some((name, _)) = fields.iter().find(|(_, value)| !is_header_value(value)) {
            return Err(format!(
                "header field `{}` has a type that headers do not have",
                text::visible_line(name)
            ));
        }
        if let Some((name, _)) = fields.iter().find(|(name, value)| !is_of_its_type(name, value)) {
            return Err(format!("header field `{name}` has another type than the format says"));
        }
        let string = |name: &str| fields.get(name).and_then(Value::as_str);
        let number = |name: &str| fields.get(name).and_then(Value::as_u64);
        let digest = |name: &str| string(name).and_then(Digest::from_hex);
        let missing = |name: &str| format!("header field `{name}` is missing or malformed");
        if string("t") != Some(FORMAT) {
            return Err(missing("t"));
        }
        if let Some(name) = ["boot", "wall_us", "mono_us"].iter().find(|name| !fields.contains_key(**name)) {
            return Err(missing(name));
        }
        Ok(Self {
            log: string("log").ok_or_else(|| missing("log"))?.to_owned(),
            seq: number("seq").ok_or_else(|| missing("seq"))?,
            prev: digest("prev"),
            kind: string("kind").ok_or_else(|| missing("kind"))?.to_owned(),
            payload: digest("payload").ok_or_else(|| missing("payload"))?,
            payload_len: number("payload_len").ok_or_else(|| missing("payload_len"))?,
            fields,
        })
    }

    /// A text field.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// A number field.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        self.fields.get(name).and_then(Value::as_u64)
    }

    /// Whether the payload may be shown, exported or searched: that of `key.create` holds verifiers.
    #[must_use]
    pub fn shows_payload(&self) -> bool {
        !self.is(Kind::KeyCreate)
    }

    /// Whether a redaction may erase the payload, see [`Kind::may_be_erased`]; what this version does not know stays.
    #[must_use]
    pub fn may_be_erased(&self) -> bool {
        Kind::parse(&self.kind).is_some_and(Kind::may_be_erased)
    }

    /// Whether the entry is of `kind`.
    #[must_use]
    pub fn is(&self, kind: Kind) -> bool {
        self.kind == kind.as_str()
    }
}

fn is_header_value(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Bool(_) => true,
        Value::Number(_) => crate::types::json::has_only_exact_integers(value),
        Value::Array(items) => items.iter().all(Value::is_string),
        Value::Null | Value::Object(_) => false,
    }
}

/// Whether a field that the format names is what it says; of others nothing is known.
pub(super) fn is_of_its_type(name: &str, value: &Value) -> bool {
    match name {
        "prev" | "payload" | "policy" | "manifest" => value.as_str().and_then(Digest::from_hex).is_some(),
        "t" | "log" | "kind" | "boot" | "run" | "session" | "call" | "principal" | "decision" | "status"
        | "tool" => value.is_string(),
        "seq" | "payload_len" | "ref" => value.is_u64(),
        "wall_us" | "mono_us" => value.is_i64(),
        "policies" => value.is_array(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{Draft, Header, Kind, Ref, Stamp, commitment, payload_bytes, seal};
    use crate::types::{Digest, limits};
    use serde_json::{Value, json};

    fn stamp(seq: u64) -> Stamp<'static> {
        Stamp {
            log: "00",
            seq,
            prev: Some(Digest::of(b"before")),
            wall_us: 1,
            mono_us: 2,
            boot: "b",
            first_seq: 7,
        }
    }

    #[test]
    fn a_sealed_entry_reads_back() {
        let mut draft = Draft::new(Kind::CallResult, json!({"output": "x"}));
        draft.answers = Some(Ref::Sibling(2));
        draft.status = Some("ok");
        let body = payload_bytes(&draft.payload).expect("payload");
        assert_eq!(body, br#"{"output":"x","v":1}"#);
        let sealed = seal(&draft, &stamp(9), [3; 32], body).expect("sealed");
        let header = Header::parse(&sealed.header).expect("header");
        assert_eq!(header.seq, 9);
        assert_eq!(header.u64("ref"), Some(9));
        assert_eq!(header.str("status"), Some("ok"));
        assert_eq!(header.payload, commitment(&sealed.salt, &sealed.body));
        assert_eq!(header.payload_len, sealed.body.len() as u64);
        assert!(!header.fields.contains_key("run"), "fields that do not apply are left out");
    }

    #[test]
    fn headers_hold_no_other_types() {
        for bad in [
            r#"{"t":"par/entry/1","log":"0","seq":1.0,"kind":"k","payload":"","payload_len":0}"#,
            r#"{"t":"par/entry/2"}"#,
            r#"{"t":"par/entry/1","x":null}"#,
            r#"{"t":"par/entry/1","x":{}}"#,
            r#"{"t":"par/entry/1","x":[1]}"#,
            r#"{"t":"par/entry/1","t":"par/entry/1"}"#,
            "[]",
        ] {
            assert!(Header::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_field_that_the_format_names_is_there_and_of_its_type() {
        let draft = Draft::new(Kind::Start, json!({}));
        let sealed = seal(&draft, &stamp(9), [3; 32], b"{}".to_vec()).expect("sealed");
        let whole = Header::parse(&sealed.header).expect("header").fields;
        let with = |name: &str, value: Value| {
            let mut fields = whole.clone();
            fields.insert(name.to_owned(), value);
            Header::parse(Value::Object(fields).to_string().as_bytes())
        };
        for name in ["t", "log", "seq", "kind", "wall_us", "mono_us", "boot", "payload", "payload_len"] {
            let mut fields = whole.clone();
            fields.remove(name);
            assert!(Header::parse(Value::Object(fields).to_string().as_bytes()).is_err(), "without {name}");
            assert!(with(name, json!(true)).is_err(), "{name}");
        }
        for (name, value) in [
            ("ref", json!("5")),
            ("ref", json!(-5)),
            ("tool", json!(5)),
            ("policies", json!("a")),
            ("policy", json!("00")),
        ] {
            assert!(with(name, value.clone()).is_err(), "{name}: {value}");
        }
        assert!(with("wall_us", json!(-1)).is_ok(), "a clock may stand before 1970");
        assert!(with("later", json!(true)).is_ok(), "of a field that nobody knows nothing is demanded");
    }

    #[test]
    fn a_long_payload_is_cut_and_says_so() {
        let draft =
            Draft::new(Kind::CallResult, json!({"output": "\u{1}".repeat(limits::PAYLOAD_BYTES_MAX)}));
        let body = payload_bytes(&draft.payload).expect("payload");
        assert!(body.len() <= limits::PAYLOAD_BYTES_MAX);
        let cut: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(cut["cut"], true);
        assert!(cut["bytes"].as_u64() > Some(limits::PAYLOAD_BYTES_MAX as u64));
    }
}
