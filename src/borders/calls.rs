//! Tools: manifests, proposed calls, and the answer of a server that a tool asked.

use super::refuses_visibly;
use crate::tools::builtin::{
    ChainQuestion, UnitsAsked, ask_systemd, days_left, http_get, judge, write_answer,
};
use crate::tools::{
    Builtin, Catalog, CodeTree, Manifest, Places, ProposedCall, Runner, check_id, journal_result,
};
use crate::types::json::{canonical, has_only_exact_integers, has_only_exact_numbers};
use crate::types::text::visible_line;
use crate::types::{Digest, WebUrl, limits};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The repository.
pub(super) fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folders that manifests and policies may name.
pub(super) static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let paths = [("logs", "/var/log"), ("workspace", "/nonexistent/workspace")];
    let names = BTreeMap::from(paths.map(|(name, path)| (name.to_owned(), path.into())));
    Places { names, private: vec!["/nonexistent/etc".into(), "/nonexistent/data".into()] }
});

/// The shipped tools.
pub(super) static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| Catalog::load(&top().join("tools.d"), &PLACES).expect("shipped tools"));

/// A call that a model proposes, the tool in the first line. A valid call has canonical arguments
/// within the limits and is valid again as the same call.
pub fn tool_call(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (tool, arguments) = text.split_once('\n').unwrap_or((text, ""));
    let proposed = |arguments: &str| ProposedCall {
        id: "call_1".to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    };
    let valid = match CATALOG.validate(proposed(arguments), |_| true) {
        Ok(valid) => valid,
        Err(invalid) => {
            assert_eq!(invalid.proposed, proposed(arguments), "another call is refused");
            // One byte takes at most ten bytes in its visible form.
            assert!(invalid.reason.len() <= 10 * limits::REASON_BYTES_MAX, "{} bytes", invalid.reason.len());
            return refuses_visibly(&invalid.reason);
        }
    };
    assert_eq!(valid.manifest().name, tool);
    assert_eq!(canonical(valid.arguments()).as_deref(), Ok(valid.canonical()));
    assert!(has_only_exact_numbers(valid.arguments()) && arguments.len() <= limits::ARGUMENTS_BYTES_MAX);
    assert!(!valid.canonical().contains("\\u0000"), "a NUL");
    let again = CATALOG.validate(proposed(valid.canonical()), |_| true).expect("the same call is valid");
    assert_eq!(again.canonical(), valid.canonical());
    assert!(CATALOG.validate(proposed(arguments), |_| false).is_err(), "a tool that was not offered");
}

/// The file of a manifest. A manifest that parses has the form that its fields promise, parses
/// again to the same, grants no private folder, and has the digest of all its bytes.
pub fn manifest(bytes: &[u8]) {
    let file = PathBuf::from("/nonexistent/etc/tools.d/tool.toml");
    let manifest = match Manifest::parse(&file, bytes, &PLACES) {
        Ok(manifest) => manifest,
        Err(why) => {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            for line in why.0.iter().filter_map(|fault| fault.line) {
                assert!((1..=lines).contains(&line), "line {line} of {lines}");
            }
            return refuses_visibly(&why.to_string());
        }
    };
    assert_eq!(manifest.text.as_bytes(), bytes);
    assert!(check_id(&manifest.name).is_ok() && !manifest.name.contains(['.', '-']), "{}", manifest.name);
    assert!(
        !matches!(&manifest.runner, Runner::Program(program) if program.script.is_some()),
        "no script is there"
    );
    let is_own = !matches!(manifest.runner, Runner::Program(_));
    assert_eq!(manifest.digest == Digest::sha256(bytes), is_own, "a program is bound to its bytes");
    let again = Manifest::parse(&file, bytes, &PLACES).expect("the same bytes");
    assert_eq!(format!("{again:?}"), format!("{manifest:?}"), "read again it is another");
    let code = manifest.trees.iter().map(CodeTree::path);
    let write = manifest.write.iter().map(|root| root.folder.as_path());
    for folder in manifest.read.iter().map(PathBuf::as_path).chain(write).chain(code) {
        let is_apart = |private: &PathBuf| !folder.starts_with(private) && !private.starts_with(folder);
        assert!(
            folder.is_absolute() && PLACES.private.iter().all(is_apart),
            "{} is granted",
            folder.display()
        );
    }
    let declared = manifest.declared(None);
    assert!(declared.is_none_or(|at| manifest.text.get(at..).is_some()), "declared at {declared:?}");
    let arguments = manifest.input.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, _) in arguments {
        let at = manifest.declared(Some(name));
        assert!(at.is_none_or(|at| manifest.text.get(at..).is_some()), "`{name}` at {at:?}");
    }
    // The catalog refuses an invalid schema; here it must only not panic.
    drop(jsonschema::draft202012::new(&manifest.input_shown()));
}

/// A server that sends its answer in pieces of one size.
struct PieceServer<'a> {
    left: &'a [u8],
    piece: usize,
}

impl Read for PieceServer<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (now, later) = self.left.split_at(self.left.len().min(self.piece).min(into.len()));
        into[..now.len()].copy_from_slice(now);
        self.left = later;
        Ok(now.len())
    }
}

impl Write for PieceServer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer of a web server. It reads the same in pieces of any size, stays within the limits of
/// the call and of the tool, and reports how much of the body it holds.
pub fn http_answer(bytes: &[u8]) {
    let Some((limit, sent)) = bytes.split_first() else { return };
    let limit = usize::from(*limit) * 16;
    let target = WebUrl::parse("http://Example.com:8080/a?b").expect("a URL");
    let arguments = json!({ "limit": limit });
    for cap in [8_192, 65_536] {
        let get = |piece| http_get(PieceServer { left: sent, piece }, &target, &arguments, cap);
        let whole = get(usize::MAX);
        for piece in [1, 7] {
            assert_eq!(get(piece), whole, "in pieces of {piece} it is another answer");
        }
        let mut line = Vec::new();
        let code = write_answer(whole.clone(), &mut line).expect("written");
        let written: Value = serde_json::from_slice(&line).expect("JSON");
        let Ok(answer) = whole else {
            assert_eq!(code, 1);
            return refuses_visibly(written["error"].as_str().expect("a reason"));
        };
        assert_eq!((code, &written), (0, &answer));
        assert!(line.len() <= cap, "{} bytes of {cap}", line.len());
        let held = match (answer["text"].as_str(), answer["base64"].as_str()) {
            (Some(text), None) => text.len(),
            (None, Some(encoded)) => STANDARD.decode(encoded).expect("base64").len(),
            _ => panic!("{answer}: neither a text nor base64"),
        };
        assert!(held <= limit, "{held} bytes of {limit}");
        assert_eq!(answer["bytes"], held);
        assert!(
            (200..=999).contains(&answer["status"].as_u64().expect("a status"))
                || answer["status"].as_u64() < Some(100)
        );
    }
}

/// What comes from a bus, the tool in the first byte. The result is the same in pieces of any size,
/// within the limit of the tool, and of the numbers that entries may contain.
pub fn bus_reply(bytes: &[u8]) {
    let Some((which, sent)) = bytes.split_first() else { return };
    let tools = [
        Builtin::FailedUnits,
        Builtin::ServiceList,
        Builtin::ServiceRestart,
        Builtin::ServiceStatus,
        Builtin::TimerList,
    ];
    let which = tools[usize::from(*which) % tools.len()];
    let sent = [b"DATA\r\nOK 1\r\n", sent].concat();
    let arguments = json!({ "service": "nginx.service" });
    let asked = UnitsAsked { arguments: &arguments, left_out: &["ssh.service"] };
    let ask = |piece| {
        let mut told = ask_systemd(which, PieceServer { left: &sent, piece }, asked, 8_192, "h");
        if let Ok((Value::Object(members), _)) = &mut told {
            members.remove("observed_at");
        }
        told
    };
    let whole = ask(usize::MAX);
    assert_eq!(ask(3), whole, "in pieces it is another result");
    match whole {
        Err(why) => refuses_visibly(&why),
        Ok((value, _)) => {
            assert!(has_only_exact_integers(&value), "{value}: a number that no entry may contain");
            assert!(value.to_string().len() <= 8_192, "{} bytes", value.to_string().len());
        }
    }
}

/// Certificates in DER, as a server sends them: two, the first of the length in the first two
/// bytes. Nothing here is trusted, so no chain is accepted; the answer is bounded and visible.
pub fn certificate(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (first, second) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    let mut chain = vec![CertificateDer::from(first)];
    if !second.is_empty() {
        chain.push(CertificateDer::from(second));
    }
    let roots = RootCertStore::empty();
    let now_s = 1_790_000_000;
    match judge(&ChainQuestion { chain: &chain, name: Some("shop.example.com"), roots: &roots, now_s }) {
        Err(why) => refuses_visibly(&why),
        Ok(answer) => {
            let answer = Value::Object(answer);
            assert_eq!(answer["verdict"], "refused", "{answer}");
            assert!(is_shown(&answer) && has_only_exact_integers(&answer), "{answer}");
            assert!(answer.to_string().len() <= 65_536, "{} bytes", answer.to_string().len());
        }
    }
    let _days = days_left(&chain[0], now_s);
}

/// Whether no text in it could move a cursor, or hide or reorder text.
fn is_shown(value: &Value) -> bool {
    match value {
        Value::String(words) => visible_line(words) == *words,
        Value::Array(items) => items.iter().all(is_shown),
        Value::Object(members) => members.values().all(is_shown),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// What `journalctl` prints. There is at most one entry for each line, and it has no members but
/// those that are shown.
pub fn journal_lines(bytes: &[u8]) {
    const SHOWN: [&str; 9] = [
        "at",
        "unit",
        "identifier",
        "pid",
        "priority",
        "message",
        "message_base64",
        "message_cut",
        "message_left_out",
    ];
    let told = journal_result(bytes, bytes, None, None, "h");
    assert!(has_only_exact_integers(&told), "{told}: a number that no entry may contain");
    let entries = told["entries"].as_array().expect("a list");
    assert!(entries.len() <= bytes.split(|byte| *byte == b'\n').count());
    for entry in entries {
        let members = entry.as_object().expect("an object");
        assert!(members.keys().all(|name| SHOWN.contains(&name.as_str())), "{entry}");
    }
}
