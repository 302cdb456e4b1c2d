//! Sealing: gives a draft its position in the log and writes its header as canonical bytes. Pure:
//! no disk, no clock.

use super::draft::{DraftError, Ref, Written};
use super::header::{FORMAT, Header};
use crate::types::json::{JsonError, canonical, write_string};
use crate::types::{CallId, Digest, RunId, SessionId, text};
use serde_json::json;

/// The fields of a header that the ledger sets.
#[derive(Clone, Debug)]
pub struct Stamp<'a> {
    /// The log's identifier.
    pub log: &'a str,
    /// Position in the log, from 0.
    pub seq: u64,
    /// Leaf hash of the entry before; absent for the first.
    pub prev: Option<Digest>,
    /// Wall clock, microseconds since 1970.
    pub wall_us: u64,
    /// Microseconds since the host booted.
    pub mono_us: u64,
    /// The id of the host's boot.
    pub boot: &'a str,
    /// Sequence number of the first entry of the same append.
    pub first_seq: u64,
}

/// A header with its canonical bytes.
#[derive(Clone, Debug)]
pub struct SealedEntry {
    /// The bytes, as they are stored.
    pub bytes: Vec<u8>,
    /// The same header, parsed.
    pub header: Header,
}

/// Gives `written` its position in the log. Fails if the header cannot be parsed again.
pub fn seal(written: &Written, stamp: &Stamp<'_>) -> Result<SealedEntry, DraftError> {
    let bytes = header_of(written, stamp).map_err(|e| DraftError(format!("header: {e}")))?.into_bytes();
    let header = Header::parse(&bytes).map_err(|e| DraftError(e.to_string()))?;
    Ok(SealedEntry { bytes, header })
}

/// The canonical header. It is written member by member in canonical order, so that the writer need
/// not build a tree.
fn header_of(
    Written { draft, body, commitment, .. }: &Written,
    stamp: &Stamp<'_>,
) -> Result<String, JsonError> {
    let digest = |digest: Option<Digest>| digest.map(|digest| digest.hex());
    let reference = draft.answers.map(|answers| match answers {
        Ref::Seq(seq) => seq,
        Ref::Sibling(at) => stamp.first_seq + at as u64,
    });
    let mut line = ObjectWriter::default();
    line.text("boot", Some(stamp.boot))?;
    line.text("call", draft.call.as_ref().map(CallId::as_str))?;
    line.text("decision", draft.decision)?;
    line.text("kind", Some(draft.body.kind().as_str()))?;
    line.text("log", Some(stamp.log))?;
    line.text("manifest", digest(draft.manifest).as_deref())?;
    line.count("mono_us", Some(stamp.mono_us))?;
    line.text("payload", Some(&commitment.hex()))?;
    line.count("payload_len", Some(body.len() as u64))?;
    line.list("policies", Some(&draft.policies).filter(|list| !list.is_empty()))?;
    line.text("policy", digest(draft.policy).as_deref())?;
    line.text("prev", digest(stamp.prev).as_deref())?;
    line.text("principal", draft.principal.as_deref())?;
    line.count("ref", reference)?;
    line.text("run", draft.run.as_ref().map(RunId::as_str))?;
    line.text("runbook", draft.runbook.as_deref())?;
    let labels = draft.labels.as_ref();
    // A class that no rule gave is left out; no taint is a statement.
    line.list("seen", labels.map(|labels| &labels.seen).filter(|list| !list.is_empty()))?;
    line.count("seq", Some(stamp.seq))?;
    line.text("session", draft.session.as_ref().map(SessionId::as_str))?;
    line.text("status", draft.status)?;
    line.text("t", Some(FORMAT))?;
    line.list("taint", labels.map(|labels| &labels.taint))?;
    line.text("tool", draft.tool.as_deref().map(|tool| text::prefix(tool, 64)))?;
    line.count("wall_us", Some(stamp.wall_us))?;
    Ok(line.done())
}

/// Writes a JSON object member by member, in canonical order. A member without a value is left out.
#[derive(Default)]
struct ObjectWriter(String);

impl ObjectWriter {
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

    fn list<'a>(
        &mut self,
        name: &str,
        items: Option<impl IntoIterator<Item = &'a String>>,
    ) -> Result<(), JsonError> {
        let Some(items) = items else { return Ok(()) };
        self.name(name);
        self.0.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
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

#[cfg(test)]
mod tests {
    use super::{Header, Stamp, seal};
    use crate::ledger::entry::{Draft, Kind, Ref, Written, commitment};
    use crate::types::json::canonical;
    use crate::types::{CallId, DataLabels, Digest, RunId, SessionId, limits};
    use serde_json::{Value, json};

    fn stamp(seq: u64) -> Stamp<'static> {
        Stamp {
            log: "00",
            seq,
            prev: Some(Digest::sha256(b"before")),
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
        let written = Written::from_draft(draft).expect("written");
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
        let digest = Some(Digest::sha256(b"some"));
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
            labels: Some(DataLabels {
                taint: ["b".to_owned(), "a".to_owned()].into(),
                seen: ["c".to_owned()].into(),
            }),
            ..Draft::untyped(Kind::CallDecision, json!({}))
        };
        let sealed = seal(&Written::from_draft(draft).expect("written"), &stamp(9)).expect("sealed");
        let fields = sealed.header.fields;
        assert_eq!(fields.len(), 23, "{fields:?}");
        assert_eq!(canonical(&Value::Object(fields)).expect("canonical").into_bytes(), sealed.bytes);
    }

    /// No taint is recorded as such: only an entry without the field counts as untrusted.
    #[test]
    fn labels_read_back_and_none_is_not_absent() {
        let labelled = |labels| {
            let draft = Draft { labels, ..Draft::untyped(Kind::CallResult, json!({})) };
            seal(&Written::from_draft(draft).expect("written"), &stamp(9)).expect("sealed").header
        };
        assert_eq!(labelled(None).labels(), None);
        let clean = labelled(Some(DataLabels::default()));
        assert_eq!(clean.labels(), Some(DataLabels::default()));
        assert_eq!((&clean.fields["taint"], clean.fields.get("seen")), (&json!([]), None));
        let untrusted = labelled(Some(DataLabels::untrusted()));
        assert_eq!(untrusted.labels(), Some(DataLabels::untrusted()));
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
        let whole =
            seal(&Written::from_draft(draft).expect("written"), &stamp(9)).expect("sealed").header.fields;
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
            ("taint", json!("untrusted")),
            ("seen", json!(1)),
        ] {
            assert!(with(name, value.clone()).is_err(), "{name}: {value}");
        }
        assert!(with("wall_us", json!(-1)).is_ok(), "a clock may be set before 1970");
        assert!(with("later", json!(true)).is_ok(), "an unknown field may have any allowed type");
    }

    #[test]
    fn a_long_payload_is_cut_and_says_so() {
        let draft =
            Draft::untyped(Kind::CallResult, json!({"output": "\u{1}".repeat(limits::PAYLOAD_BYTES_MAX)}));
        let body = Written::from_draft(draft).expect("written").body;
        assert!(body.len() <= limits::PAYLOAD_BYTES_MAX);
        let cut: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(cut["cut"], true);
        assert!(cut["bytes"].as_u64() > Some(limits::PAYLOAD_BYTES_MAX as u64));
    }
}
