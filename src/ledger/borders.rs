//! Laws of the ledger's borders, see [`crate::borders`]: headers, notes, answers of witnesses,
//! proofs, exports, queries.
//!
//! Proofs and exports are checked against one small log with fixed keys. These keys sign nothing
//! else, so anything that verifies and is not in that log is a forgery.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a law that does not hold ends the target"
)]

use super::checkpoint::{WitnessAnswer, epoch_name, log_id, origin};
use super::entry::{PlainHeader, Stamp, Written, seal};
use super::export::proof_file::{Evidence, Item};
use super::export::verify::check;
use super::payload::{ExportPayload, RunReplyPayload, RunRequestPayload, Usage};
use super::tree::{Frontier, leaf, proof};
use super::{Checkpoint, Draft, Filter, Head, Header, Note, VerifierKey, WitnessKey};
use crate::borders::refuses_visibly;
use crate::types::json::canonical;
use crate::types::{Ceiling, Digest, RunId, RunStatus, SessionId, digest, limits};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::Value;
use std::io::BufReader;
use std::sync::LazyLock;

/// A header. The fast reader agrees with the reader of all JSON and reads every plain header, and
/// a plain header is written again in the same bytes.
pub fn entry_header(bytes: &[u8]) {
    let any = Header::parse_any(bytes);
    assert_eq!(Header::parse(bytes), any, "two readers disagree");
    if let Some(plain) = PlainHeader::read(bytes) {
        let (answers, seq, kind) = (plain.answers, plain.seq, plain.kind.to_owned());
        let (text, number) = (plain.text("boot").map(str::to_owned), plain.number("wall_us"));
        let header = plain.header();
        assert_eq!(any.as_ref(), Ok(&header), "the fast reader reads another header");
        assert_eq!(
            (answers, Some(seq), kind.as_str()),
            (header.u64("ref"), header.u64("seq"), &*header.kind)
        );
        assert_eq!(text.as_deref(), header.str("boot"));
        assert_eq!(number, header.fields.get("wall_us").and_then(Value::as_i64));
        let written = canonical(&Value::Object(header.fields)).expect("exact integers");
        assert_eq!(written.as_bytes(), bytes, "the plain form is canonical");
    }
    let header = match any {
        Ok(header) => header,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    assert!(bytes.len() < limits::HEADER_ENTRY_BYTES_MAX);
    let names_are_plain = header.fields.keys().all(|name| !name.is_empty() && name.is_ascii());
    let written = canonical(&Value::Object(header.fields.clone())).expect("exact integers");
    // The canonical form has only the escapes that it needs, so it is within the limit too.
    assert_eq!(
        Header::parse(written.as_bytes()).as_ref(),
        Ok(&header),
        "it is read otherwise once it is written"
    );
    let is_plain = PlainHeader::read(written.as_bytes()).is_some();
    assert!(is_plain || written.contains('\\') || !names_are_plain, "the fast reader leaves {written}");
}

/// A note, or a text that holds one. Notes, checkpoints and verifier keys are written again in the
/// same bytes.
pub fn note(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for line in text.lines() {
        if let Some(key) = VerifierKey::parse(line) {
            assert_eq!(key.to_string(), line, "a key has two texts");
            assert_eq!(WitnessKey::parse(line), None, "a key that signs notes is a witness's");
        }
        if let Some(key) = WitnessKey::parse(line) {
            assert_eq!(key.to_string(), line, "a witness's key has two texts");
        }
    }
    let last = Note::last(text);
    if let Some(last) = &last {
        assert!(Checkpoint::parse(last.text()).is_ok(), "the last checkpoint's note is of something else");
        let written = last.to_string();
        assert!(
            text.contains(&written) || text.contains(&written.replace('\n', "\\n")),
            "{written} is not there"
        );
    }
    let note = match Note::parse(text) {
        Ok(note) => note,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    assert_eq!(note.to_string(), text, "a note has two texts");
    assert!(note.signers().next().is_some() && note.text().ends_with('\n'));
    match Checkpoint::parse(note.text()) {
        Ok(checkpoint) => {
            assert_eq!(checkpoint.text(), note.text(), "a checkpoint has two texts");
            assert_eq!(last, Some(note.clone()), "it is the last one of its own text");
            if note.is_signed_by(&KNOWN.key) {
                assert_eq!(note.text(), KNOWN.note.text(), "the log's key signed something else");
            }
        }
        Err(why) => refuses_visibly(&why.to_string()),
    }
}

/// The answer of a witness, its status in the first two bytes. Only its own signature of the exact
/// checkpoint counts, and a size has one form.
pub fn witness(bytes: &[u8]) {
    let Some((status, body)) = bytes.split_first_chunk::<2>() else { return };
    let status = u16::from_be_bytes(*status);
    match WitnessAnswer::read(status, body, &KNOWN.note, &KNOWN.witness) {
        WitnessAnswer::Cosigned(line, time) => {
            assert_eq!((status, time), (200, COSIGNED_S), "the witness signed at another time");
            let body = std::str::from_utf8(body).expect("lines");
            assert!(body.split_terminator('\n').any(|one| one == line.trim_end()), "{line} is not there");
            assert_eq!(line, KNOWN.cosignature, "it is another signature");
        }
        WitnessAnswer::Seen(size) => assert_eq!((status, body), (409, format!("{size}\n").as_bytes())),
        WitnessAnswer::Conflict(why) => {
            assert!([200, 409, 422].contains(&status), "{status} is no conflict");
            refuses_visibly(&why);
        }
        WitnessAnswer::Refused(why) => {
            assert!(![200, 409, 422].contains(&status), "{status} says something");
            refuses_visibly(&why);
        }
    }
}

/// A proof file. It is written and read again as the same, and proves nothing that is not in the
/// log.
pub fn proof_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let evidence = match Evidence::read(text) {
        Ok(evidence) => evidence,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    let written = evidence.write().expect("what was read is written");
    assert_eq!(Evidence::read(&written).expect("what is written is read"), evidence);
    let proven = match evidence.check(&KNOWN.key) {
        Ok(proven) => proven,
        Err(why) => return refuses_visibly(&why.to_string()),
    };
    assert_eq!(proven.checkpoint.text(), KNOWN.note.text(), "another tree");
    assert_eq!(proven.entries.len(), evidence.items.len());
    for (item, (header, payload)) in evidence.items.iter().zip(&proven.entries) {
        is_known(item);
        assert_eq!(Header::parse(&item.header).as_ref(), Ok(header));
        assert_eq!(payload.is_some(), item.payload.is_some(), "a payload is told that is not there");
    }
    if evidence.run.is_some() {
        assert_eq!(
            (evidence.run.as_deref(), proven.entries.len()),
            (Some(RUN), 2),
            "a run that is not whole"
        );
    }
}

/// The law of a verified entry: it is in the known log, at the same place.
fn is_known(item: &Item) {
    let known = KNOWN.items.iter().find(|known| known.header == item.header).expect("an entry of the log");
    assert_eq!(item.path, known.path, "by another path");
    assert!(item.payload.is_none() || item.payload == known.payload, "with another payload");
}

/// An export. The result is the same however its bytes arrive, and only the recorded export is
/// accepted.
pub fn export(bytes: &[u8]) {
    let by = |capacity, key| check(&mut BufReader::with_capacity(capacity, bytes), key);
    let found = by(1 << 16, Some(&KNOWN.key));
    let slow = by(7, Some(&KNOWN.key));
    match (&found, slow) {
        (Ok(found), Ok(slow)) => assert_eq!(format!("{found:?}"), format!("{slow:?}")),
        (Err(found), Err(slow)) => assert_eq!(found.to_string(), slow.to_string()),
        (found, slow) => panic!("{found:?} and {slow:?}"),
    }
    match found {
        Ok(found) => {
            assert_eq!((found.size, found.entries, found.record, &*found.query), (2, 2, 2, ""));
            assert_eq!(found.checkpoint.text(), KNOWN.note.text());
            // A payload may have been erased since the record; none can have been added.
            assert!(found.payloads <= found.entries);
        }
        Err(why) => refuses_visibly(&why.to_string()),
    }
    if let Ok(found) = by(1 << 16, None) {
        let again = by(1 << 16, Some(&found.key)).expect("by its own key");
        assert_eq!(format!("{again:?}"), format!("{found:?}"));
    }
}

/// Spans of time in a query end here, in microseconds since 1970.
const NOW_US: i64 = 1_790_000_000_000_000;

/// A query. Its printed form parses to the same query at any later time.
pub fn query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let filter = match Filter::parse_at(text, NOW_US) {
        Ok(filter) => filter,
        Err(why) => {
            let why = why.to_string();
            assert!(why.len() <= 32 * limits::SHOWN_BYTES_MAX, "{} bytes", why.len());
            return refuses_visibly(&why);
        }
    };
    let printed = filter.to_string();
    assert!(!printed.contains('\n') || text.contains('\n'), "a line more");
    let again =
        Filter::parse_at(&printed, NOW_US + 1_000_000).unwrap_or_else(|why| panic!("{printed}: {why}"));
    assert_eq!(again, filter, "`{printed}` is another query");
    assert_eq!(again.to_string(), printed);
    assert_eq!(filter.is_empty(), text.trim().is_empty());
    for item in &KNOWN.items {
        let header = Header::parse(&item.header).expect("a header");
        let body = item.payload.as_ref().map(|(_, body)| body.as_slice());
        assert_eq!(filter.matches(&header), again.matches(&header));
        assert!(filter.has_text() || filter.matches_text(&header, body), "no text was asked for");
    }
}

const RUN: &str = "run_01JD0000000000000000000000";
const WITNESS: &str = "witness.example/w1";
/// Time of the cosignature, in seconds since 1970.
const COSIGNED_S: u64 = 1_700_000_000;

/// A log of three entries: the request and the reply of a run, and the record of an export of
/// both.
struct KnownLog {
    key: VerifierKey,
    note: Note,
    items: Vec<Item>,
    witness: WitnessKey,
    cosignature: String,
}

static KNOWN: LazyLock<KnownLog> = LazyLock::new(KnownLog::new);

impl KnownLog {
    fn new() -> Self {
        let (log, epoch) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let id = log_id(log.verifying_key().as_bytes(), epoch.verifying_key().as_bytes());
        let (name, epoch_name) = (origin(&id), epoch_name(&origin(&id), 1));
        let mut items: Vec<Item> = Vec::new();
        for (at, draft) in drafts().into_iter().enumerate() {
            let written = Written::salted(draft, [3; 32]).expect("a payload");
            let stamp = Stamp {
                log: &id,
                seq: at as u64,
                prev: items.last().map(|before| leaf(&before.header)),
                wall_us: 1_700_000_000_000_000 + at as u64,
                mono_us: at as u64,
                boot: "0",
                first_seq: at as u64,
            };
            let header = seal(&written, &stamp).expect("a header").bytes;
            items.push(Item { header, payload: Some((written.salt, written.body)), path: Vec::new() });
        }
        let leaves: Vec<Digest> = items.iter().map(|item| leaf(&item.header)).collect();
        let size = leaves.len() as u64;
        let mut subtree = |height: u32, index: u64| -> Result<Digest, ()> {
            let first = usize::try_from(index << height).map_err(drop)?;
            let mut tree = Frontier::default();
            leaves[first..first + (1 << height)].iter().for_each(|leaf| tree.push(*leaf));
            Ok(tree.root())
        };
        let head = Head { size, root: proof::root(size, &mut subtree).expect("a root") };
        for (at, item) in items.iter_mut().enumerate() {
            item.path = proof::inclusion(at as u64, size, &mut subtree).expect("a path");
        }
        let text = Checkpoint { origin: name.clone(), head, extensions: Vec::new() }.text();
        let note = Note::sign(text, &[(&name, &log), (&epoch_name, &epoch)]);
        let (witness, cosignature) = cosigned(&note);
        let key = VerifierKey::new(name, &log);
        Self { key, note, items, witness, cosignature }
    }
}

fn drafts() -> [Draft; 3] {
    let (run, session) = (RunId::parse(RUN), SessionId::parse("ses_01JD0000000000000000000000"));
    let in_run = |draft: Draft| Draft { run: run.clone(), session: session.clone(), ..draft };
    let request = RunRequestPayload {
        message: "what says the log?".to_owned(),
        calls_max: 4,
        tools: vec!["read_file".to_owned()],
        ceiling: Ceiling::OPEN,
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        system_sha256: None,
        source_ip: None,
        channel: None,
        via: None,
        runbook: None,
        response_schema: None,
        secrets: None,
    };
    let reply = RunReplyPayload {
        run: run.clone().expect("an id"),
        session: session.clone().expect("an id"),
        status: RunStatus::Done,
        answer: Some("a line".to_owned()),
        said_by: None,
        limit: None,
        steps: Vec::new(),
        usage: Usage::default(),
        models: Vec::new(),
        ceiling: Ceiling::OPEN,
        runbook: None,
        answer_json: None,
        response: None,
        stopped: None,
    };
    let record = ExportPayload {
        query: String::new(),
        format: "jsonl".to_owned(),
        size: 2,
        entries: 2,
        seqs: Digest::sha256(b"0\n1\n"),
        power: None,
    };
    let done = Draft { status: Some("done"), ..Draft::new(reply) };
    [
        in_run(Draft::new(request)),
        in_run(done),
        Draft { principal: Some("os:root".to_owned()), ..Draft::new(record) },
    ]
}

/// The key of a witness, and its signature line for `note`.
fn cosigned(note: &Note) -> (WitnessKey, String) {
    let secret = SigningKey::from_bytes(&[5; 32]);
    let public = secret.verifying_key().to_bytes();
    let hash = Digest::sha256_parts(&[WITNESS.as_bytes(), b"\n", &[4], &public]);
    let text =
        format!("{WITNESS}+{}+{}", digest::hex(&hash.0[..4]), STANDARD.encode([&[4][..], &public].concat()));
    let message = format!("cosignature/v1\ntime {COSIGNED_S}\n{}", note.text());
    let signed =
        [&hash.0[..4], &COSIGNED_S.to_be_bytes(), &secret.sign(message.as_bytes()).to_bytes()].concat();
    let line = format!("\u{2014} {WITNESS} {}\n", STANDARD.encode(signed));
    (WitnessKey::parse(&text).expect("a key"), line)
}

/// Seeds made from the known log: target, name, bytes.
#[cfg(test)]
pub(crate) fn made_seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    use serde_json::json;
    let name = epoch_name(KNOWN.key.name(), 1);
    let first = VerifierKey::new(name, &SigningKey::from_bytes(&[2; 32])).to_string();
    let evidence = |run: Option<&str>, items: &[Item]| Evidence {
        first: first.clone(),
        seals: Vec::new(),
        checkpoint: KNOWN.note.to_string(),
        run: run.map(str::to_owned),
        items: items.to_vec(),
    };
    let line = |item: &Item| {
        let (salt, body) = item.payload.as_ref().expect("a payload");
        let path: Vec<String> = item.path.iter().map(|step| STANDARD.encode(step.0)).collect();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        json!({ "header": text(&item.header), "payload": text(body), "salt": digest::hex(salt), "path": path })
    };
    let head = json!({
        "t": "par/export/1", "key": KNOWN.key.to_string(), "checkpoint": KNOWN.note.to_string(),
        "epochs": { "first": first, "seals": [] }, "record": line(&KNOWN.items[2]),
    });
    let lines = [head, line(&KNOWN.items[0]), line(&KNOWN.items[1])];
    let exported: String = lines.iter().map(|line| canonical(line).expect("canonical") + "\n").collect();
    let proof = |run, items| evidence(run, items).write().expect("a proof").into_bytes();
    let logged = format!("INFO anchor: note={}\n", KNOWN.note.to_string().replace('\n', "\\n"));
    let answer = |status: u16, body: &str| [&status.to_be_bytes(), body.as_bytes()].concat();
    vec![
        ("entry_header", "request", KNOWN.items[0].header.clone()),
        ("entry_header", "export", KNOWN.items[2].header.clone()),
        ("note", "checkpoint", KNOWN.note.to_string().into_bytes()),
        ("note", "logged", logged.into_bytes()),
        ("note", "keys", format!("{}\n{}\n", KNOWN.key, KNOWN.witness).into_bytes()),
        ("witness", "cosigned", answer(200, &KNOWN.cosignature)),
        ("witness", "seen", answer(409, "12\n")),
        ("proof_file", "entry", proof(None, &KNOWN.items[1..2])),
        ("proof_file", "run", proof(Some(RUN), &KNOWN.items[..2])),
        ("export", "all", exported.into_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, RUN, made_seeds};
    use crate::ledger::export::proof_file::Evidence;
    use crate::ledger::export::verify::check;
    use std::io::BufReader;

    /// Without this, the laws about verified input would never run.
    #[test]
    fn the_known_log_proves_itself() {
        let seeds = made_seeds();
        let seed = |target: &str, name: &str| {
            let of = seeds.iter().find(|(of, is, _)| (*of, *is) == (target, name)).expect("a seed");
            String::from_utf8(of.2.clone()).expect("text")
        };
        let run = Evidence::read(&seed("proof_file", "run")).expect("a proof");
        assert_eq!(run.run.as_deref(), Some(RUN));
        assert_eq!(run.check(&KNOWN.key).expect("holds").entries.len(), 2);
        let one = Evidence::read(&seed("proof_file", "entry")).expect("a proof");
        assert_eq!(one.check(&KNOWN.key).expect("holds").entries.len(), 1);
        let found = check(&mut BufReader::new(seed("export", "all").as_bytes()), Some(&KNOWN.key));
        assert_eq!(found.expect("holds").payloads, 2);
    }
}
