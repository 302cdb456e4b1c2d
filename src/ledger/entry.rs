//! The entry: canonical header bytes, the payload's commitment, and reading them back.
//!
//! Pure: no disk, no clock. The format is written down in `docs/ledger-format.md`.

use super::brief::Brief;
use crate::types::json::{JsonError, canonical, parse_strict, write_string};
use crate::types::{CallId, Decision, Digest, RunId, SessionId, limits, text};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
            /// Every kind that there is.
            pub(super) const ALL: &'static [Self] = &[$(Self::$name),*];

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
    /// An allowed call is about to be connected: no byte has passed.
    CallConnect = "call.connect";
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
                | Self::CallConnect
                | Self::CallResult
                | Self::RunReply
        )
    }
}

/// The payload of one kind of entry. Each kind has one struct, in `payload`.
pub trait Payload: Serialize + DeserializeOwned {
    /// The kind.
    const KIND: Kind;
}

/// What a draft says: a kind with the members of its payload. Made of a [`Payload`] alone, so that no entry is of one kind
/// and says what another one says.
#[derive(Clone, Debug)]
pub struct Body {
    kind: Kind,
    members: Map<String, Value>,
}

impl Body {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// The same kind, whose members went through `change`: what the words of a person or a program are replaced by.
    #[must_use]
    pub fn changed(self, change: impl FnOnce(Map<String, Value>) -> Map<String, Value>) -> Self {
        Self { members: change(self.members), ..self }
    }
}

impl<P: Payload> From<P> for Body {
    fn from(payload: P) -> Self {
        let members = match serde_json::to_value(payload) {
            Ok(Value::Object(members)) => members,
            // No struct of `payload` comes to this. An entry that says so is better than none.
            other => Map::from_iter([("unwritten".to_owned(), json!(format!("{other:?}")))]),
        };
        Self { kind: P::KIND, members }
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
    /// What is recorded; `"v": 1` is added.
    pub body: Body,
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
}

impl Draft {
    /// A draft of the payload's kind that says what `payload` says.
    #[must_use]
    pub fn new(payload: impl Payload) -> Self {
        Self::of(payload.into())
    }

    /// As [`Draft::new`], of members that no struct holds to their kind.
    #[must_use]
    pub fn untyped(kind: Kind, payload: Value) -> Self {
        let members = match payload {
            Value::Object(members) => members,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Self::of(Body { kind, members })
    }

    fn of(body: Body) -> Self {
        Self {
            body,
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

/// A draft with its payload written down: all of an entry but its place in the log. Made by who appends, so that the
/// one writer has little left to do.
#[derive(Debug)]
pub struct Written {
    draft: Draft,
    /// 32 random bytes.
    pub salt: [u8; 32],
    /// The payload's bytes.
    pub body: Vec<u8>,
    commitment: Digest,
}

/// A header with its canonical bytes.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The bytes, as they are stored.
    pub bytes: Vec<u8>,
    /// What they say.
    pub header: Header,
}

impl Written {
    /// Writes the payload of `draft` down, with a random salt.
    pub fn of(draft: Draft) -> Result<Self, DraftError> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(|e| DraftError(format!("no randomness: {e}")))?;
        Self::salted(draft, salt)
    }

    /// The same with a salt of somebody's own.
    pub fn salted(mut draft: Draft, salt: [u8; 32]) -> Result<Self, DraftError> {
        let body = payload_bytes(std::mem::take(&mut draft.body.members))?;
        Ok(Self { commitment: commitment(&salt, &body), draft, salt, body })
    }
}

/// The payload's bytes: canonical JSON with `"v": 1`. One longer than [`limits::PAYLOAD_BYTES_MAX`]
/// is replaced by its head, its length and its SHA-256.
fn payload_bytes(mut members: Map<String, Value>) -> Result<Vec<u8>, DraftError> {
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

/// Gives `written` its place in the log. What cannot be read back is an error.
pub fn seal(written: &Written, stamp: &Stamp<'_>) -> Result<Sealed, DraftError> {
    let bytes = header_of(written, stamp).map_err(|e| DraftError(format!("header: {e}")))?.into_bytes();
    let header = Header::parse(&bytes).map_err(DraftError)?;
    Ok(Sealed { bytes, header })
}

/// The canonical header. Its members are written in their order, which saves the writer a tree of them.
fn header_of(
    Written { draft, body, commitment, .. }: &Written,
    stamp: &Stamp<'_>,
) -> Result<String, JsonError> {
    let digest = |digest: Option<Digest>| digest.map(|digest| digest.hex());
    let reference = draft.answers.map(|answers| match answers {
        Ref::Seq(seq) => seq,
        Ref::Sibling(at) => stamp.first_seq + at as u64,
    });
    let mut line = Line::default();
    line.text("boot", Some(stamp.boot))?;
    line.text("call", draft.call.as_ref().map(CallId::as_str))?;
    line.text("decision", draft.decision)?;
    line.text("kind", Some(draft.body.kind.as_str()))?;
    line.text("log", Some(stamp.log))?;
    line.text("manifest", digest(draft.manifest).as_deref())?;
    line.count("mono_us", Some(stamp.mono_us))?;
    line.text("payload", Some(&commitment.hex()))?;
    line.count("payload_len", Some(body.len() as u64))?;
    line.list("policies", &draft.policies)?;
    line.text("policy", digest(draft.policy).as_deref())?;
    line.text("prev", digest(stamp.prev).as_deref())?;
    line.text("principal", draft.principal.as_deref())?;
    line.count("ref", reference)?;
    line.text("run", draft.run.as_ref().map(RunId::as_str))?;
    line.count("seq", Some(stamp.seq))?;
    line.text("session", draft.session.as_ref().map(SessionId::as_str))?;
    line.text("status", draft.status)?;
    line.text("t", Some(FORMAT))?;
    line.text("tool", draft.tool.as_deref().map(|tool| text::prefix(tool, 64)))?;
    line.count("wall_us", Some(stamp.wall_us))?;
    Ok(line.done())
}

/// An object of JSON, written member by member in canonical order; one without a value is left out.
#[derive(Default)]
struct Line(String);

impl Line {
    fn name(&mut self, name: &str) {
        self.0.push_str(if self.0.is_empty() { "{\"" } else { ",\"" });
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn text(&mut self, name: &str, value: Option<&str>) -> Result<(), JsonError> {
        let Some(value) = value else { return Ok(()) };
        self.name(name);
        write_string(value, &mut self.0)
    }

    fn count(&mut self, name: &str, value: Option<u64>) -> Result<(), JsonError> {
        let Some(value) = value else { return Ok(()) };
        self.name(name);
        self.0.push_str(&canonical(&json!(value))?);
        Ok(())
    }

    fn list(&mut self, name: &str, items: &[String]) -> Result<(), JsonError> {
        if items.is_empty() {
            return Ok(());
        }
        self.name(name);
        for (at, item) in items.iter().enumerate() {
            self.0.push(if at == 0 { '[' } else { ',' });
            write_string(item, &mut self.0)?;
        }
        self.0.push(']');
        Ok(())
    }

    fn done(mut self) -> String {
        self.0.push('}');
        self.0
    }
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

    /// The kind; `None` of a later version's.
    #[must_use]
    pub fn known_kind(&self) -> Option<Kind> {
        Kind::parse(&self.kind)
    }

    /// What was decided, of a `call.decision`.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.str("decision").and_then(Decision::parse)
    }

    /// The determining policies.
    #[must_use]
    pub fn policies(&self) -> Vec<String> {
        let listed = self.fields.get("policies").and_then(Value::as_array).into_iter().flatten();
        listed.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// What `body`, the payload of this entry, says; `None` where the entry is of another kind, or the payload is not of its
    /// form: it was too long and is cut, or an edit of the files is still to be found.
    #[must_use]
    pub fn payload_of<P: Payload>(&self, body: &[u8]) -> Option<P> {
        if self.is(P::KIND) { serde_json::from_slice(body).ok() } else { None }
    }

    /// Whether the payload may be shown, exported or searched: that of `key.create` holds verifiers.
    #[must_use]
    pub fn shows_payload(&self) -> bool {
        !self.is(Kind::KeyCreate)
    }

    /// Whether a redaction may erase the payload, see [`Kind::may_be_erased`]; what this version does not know stays.
    #[must_use]
    pub fn may_be_erased(&self) -> bool {
        self.known_kind().is_some_and(Kind::may_be_erased)
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
    use super::{Draft, Header, Kind, Ref, Stamp, Written, commitment, seal};
    use crate::types::json::canonical;
    use crate::types::{CallId, Digest, RunId, SessionId, limits};
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
        let mut draft = Draft::untyped(Kind::CallResult, json!({"output": "x"}));
        draft.answers = Some(Ref::Sibling(2));
        draft.status = Some("ok");
        let written = Written::of(draft).expect("written");
        assert_eq!(written.body, br#"{"output":"x","v":1}"#);
        let header = seal(&written, &stamp(9)).expect("sealed").header;
        assert_eq!(header.seq, 9);
        assert_eq!(header.u64("ref"), Some(9));
        assert_eq!(header.str("status"), Some("ok"));
        assert_eq!(header.payload, commitment(&written.salt, &written.body));
        assert_eq!(header.payload_len, written.body.len() as u64);
        assert!(!header.fields.contains_key("run"), "fields that do not apply are left out");
    }

    #[test]
    fn a_header_of_every_field_is_canonical() {
        let word = || Some("a \"word\" of \u{1}\u{e9}".to_owned());
        let digest = Some(Digest::of(b"some"));
        let draft = Draft {
            run: Some(RunId::generate()),
            session: Some(SessionId::generate()),
            call: Some(CallId::generate()),
            answers: Some(Ref::Seq(3)),
            principal: word(),
            policy: digest,
            manifest: digest,
            decision: Some("allow"),
            policies: vec!["a".to_owned(), "\"b\"".to_owned()],
            status: Some("ok"),
            tool: word(),
            ..Draft::untyped(Kind::CallDecision, json!({}))
        };
        let sealed = seal(&Written::of(draft).expect("written"), &stamp(9)).expect("sealed");
        let fields = sealed.header.fields;
        assert_eq!(fields.len(), 21, "{fields:?}");
        assert_eq!(canonical(&Value::Object(fields)).expect("canonical").into_bytes(), sealed.bytes);
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
        let draft = Draft::untyped(Kind::Start, json!({}));
        let whole = seal(&Written::of(draft).expect("written"), &stamp(9)).expect("sealed").header.fields;
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
            Draft::untyped(Kind::CallResult, json!({"output": "\u{1}".repeat(limits::PAYLOAD_BYTES_MAX)}));
        let body = Written::of(draft).expect("written").body;
        assert!(body.len() <= limits::PAYLOAD_BYTES_MAX);
        let cut: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(cut["cut"], true);
        assert!(cut["bytes"].as_u64() > Some(limits::PAYLOAD_BYTES_MAX as u64));
    }
}
