//! Policy files, and the tables next to them: tests, labels and links.

use super::calls::{CATALOG, PLACES};
use super::refuses_visibly;
use crate::policy::{Bundle, Labels, PolicyError, SourceFile, Suite, formatted};
use crate::types::{Digest, limits};
use std::collections::BTreeSet;

fn names() -> BTreeSet<String> {
    PLACES.names.keys().cloned().collect()
}

fn source(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), text: text.to_owned() }
}

/// The law of errors in a file: each names a line of that file, in visible text.
fn refused(errors: &[PolicyError], text: &str) {
    assert!(!errors.is_empty(), "refused without an error");
    let lines = text.split('\n').count();
    for error in errors {
        assert!(
            error.line.is_none_or(|line| (1..=lines).contains(&line)),
            "line {:?} of {lines}",
            error.line
        );
        refuses_visibly(&error.to_string());
    }
}

/// A policy file. A bundle that loads can be kept, and rebuilt from what was kept under the same
/// digest. Every policy names a line of the file and has a name that is not reserved. Formatting
/// is a fixed point.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = source("policies/p.cedar", text);
    let bundle = match Bundle::load(std::slice::from_ref(&file), &CATALOG, &names()) {
        Ok(bundle) => bundle,
        Err(errors) => return refused(&errors, text),
    };
    let kept = bundle.archive();
    let again = Bundle::rebuild(kept.as_bytes(), bundle.digest()).expect("what is kept is a bundle");
    assert_eq!((again.digest(), again.archive()), (bundle.digest(), kept.clone()));
    assert!(Bundle::rebuild(kept.as_bytes(), Digest::sha256(b"another")).is_err(), "under another digest");
    let lines = text.split('\n').count();
    for (id, place) in bundle.policies() {
        assert!(!id.is_empty() && !id.starts_with("par."), "`{id}` is PAR's own");
        let line: Option<usize> = place.strip_prefix("policies/p.cedar:").and_then(|line| line.parse().ok());
        assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{place} of {lines} lines");
        assert!(bundle.text(id).is_some());
    }
    let laid = formatted(&file).expect("what loads can be laid out");
    let twice = formatted(&source("policies/p.cedar", &laid)).expect("what is laid out can be laid out");
    assert_eq!(twice, laid, "laid out twice it is another text");
}

/// The tables of a bundle: tests, labels and links. Every error names a line of the file, and a
/// bundle with links can be kept and rebuilt.
pub fn policy_tables(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Suite::parse(&[source("policies/tests/t.toml", text)]) {
        Ok(suite) => assert!(suite.len() <= limits::POLICY_CASES_MAX),
        Err(errors) => refused(&errors, text),
    }
    match Labels::parse(&source("policies/entities.toml", text), &names()) {
        Ok(labels) => {
            assert!(labels.given().all(|label| !label.name.is_empty()), "a label without a name");
        }
        Err(errors) => refused(&errors, text),
    }
    // A load is slow, so only text with a link gets one.
    if !text.contains("[[link]]") {
        return;
    }
    let template =
        "@id(\"mine\") permit(principal in ?principal, action in PAR::Action::\"call_tool\", resource);";
    let files = [source("policies/p.cedar", template), source("policies/links.toml", text)];
    match Bundle::load(&files, &CATALOG, &names()) {
        Ok(bundle) => {
            assert!(bundle.policies().next().is_some(), "links that make no policy");
            let kept = bundle.archive();
            let again = Bundle::rebuild(kept.as_bytes(), bundle.digest()).expect("what is kept is a bundle");
            assert_eq!(again.archive(), kept);
        }
        Err(errors) => errors.iter().for_each(|error| refuses_visibly(&error.to_string())),
    }
}
