//! `recall`: an earlier entry of the caller's own runs, or a search of them.

use super::answer::FrontAnswer;
use super::asker::FrontAsker;
use super::stored::{OwnRecord, StoredText};
use crate::ledger::{Filter, Header, Kind, Order, ReadError};
use crate::tools::builtin::{Fitting, NOT_FOUND};
use crate::types::clock::Wall;
use crate::types::{DataLabels, limits, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Bytes of an entry that a call returns if it does not say.
const LIMIT_BYTES: u64 = 8_192;
/// Hits that a search returns if the call does not say.
const LIMIT_HITS: u64 = 20;
/// Bytes around a hit.
const EXCERPT_BYTES: usize = 200;
/// Bytes of the result that are reserved for JSON around text and hits.
const FRAME_BYTES: usize = 1_024;
/// Pages of headers that one search reads.
const PAGES_MAX: usize = 4;
/// Candidates of one page.
const PAGE_HITS: usize = 100;

/// Returns an entry or hits, with the labels of all that it repeats.
pub(super) async fn recall(asker: FrontAsker, arguments: Value, room: usize) -> FrontAnswer {
    let work = move || match (number(&arguments, "entry"), arguments.get("text").and_then(Value::as_str)) {
        (Some(seq), None) => entry(&asker, seq, &arguments, room),
        (None, Some(words)) => search(&asker, words, &arguments, room),
        _ => Ok(Err("give either `entry` or `text`".to_owned()).into()),
    };
    let unread = |why: String| Err(format!("the record cannot be read: {why}")).into();
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => unread(error.to_string()),
        Err(error) => unread(error.to_string()),
    }
}

fn number(arguments: &Value, name: &str) -> Option<u64> {
    arguments.get(name).and_then(Value::as_u64)
}

fn entry(asker: &FrontAsker, seq: u64, arguments: &Value, room: usize) -> Result<FrontAnswer, ReadError> {
    let found = OwnRecord::of(asker).read(seq)?;
    let shown = match found {
        StoredText::Shown(shown) => shown,
        StoredText::Erased => return Ok(Err(format!("[erased, entry {seq}]")).into()),
        StoredText::Hidden => return Ok(Err(NOT_FOUND.to_owned()).into()),
    };
    let (whole, repeats) = shown.into_parts();
    // Searched as a whole: a part could begin in the middle of a secret.
    let whole = String::clone(&asker.agent.secrets().clean(whole));
    let offset = usize::try_from(number(arguments, "offset").unwrap_or(0)).unwrap_or(usize::MAX);
    let limit = number(arguments, "limit").unwrap_or(LIMIT_BYTES);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(room.saturating_sub(FRAME_BYTES) / 2);
    let Some(rest) = whole.get(offset..) else {
        let length = whole.len();
        return Ok(Err(format!("`offset` is not the beginning of a character within {length} bytes")).into());
    };
    let part = fitting(rest, limit, room.saturating_sub(FRAME_BYTES));
    let end = offset + part.len();
    let mut answer = json!({
        "entry": seq,
        "text": part,
        "offset_bytes": offset,
        "total_bytes": whole.len(),
        "truncated": end < whole.len(),
    });
    if let Some(members) = answer.as_object_mut().filter(|_| end < whole.len()) {
        members.insert("next_offset".to_owned(), json!(end));
    }
    Ok(FrontAnswer { repeats, ..Ok(answer).into() })
}

/// The beginning of `rest`: at most `limit` bytes, and at most `room` as JSON.
fn fitting(rest: &str, limit: usize, room: usize) -> &str {
    let mut part = text::prefix(rest, limit);
    while !part.is_empty() && json!(part).to_string().len() > room {
        part = text::prefix(part, part.len() / 2);
    }
    part
}

/// The newest entries of the caller's own runs whose text has `words`.
fn search(asker: &FrontAsker, words: &str, arguments: &Value, room: usize) -> Result<FrontAnswer, ReadError> {
    let filter = match Filter::parse(&query(words)) {
        Ok(filter) if filter.has_text() => filter,
        Ok(_) => return Ok(Err("`text` has no word".to_owned()).into()),
        Err(error) => return Ok(Err(error.to_string()).into()),
    };
    let own = filter.clone().in_runs_of(BTreeSet::from([asker.id()]));
    let (record, ledger) = (OwnRecord::of(asker), asker.agent.ledger());
    let limit = number(arguments, "limit").unwrap_or(LIMIT_HITS);
    let mut hits = Fitting::new(limit, room.saturating_sub(FRAME_BYTES));
    let mut repeats = DataLabels::default();
    let newest = ledger.head().size.saturating_sub(1);
    let mut next = Some(number(arguments, "before").map_or(newest, |before| before.saturating_sub(1)));
    let mut pages = 0;
    while let Some(at) = next.filter(|_| pages < PAGES_MAX && !hits.is_full()) {
        pages += 1;
        let (headers, on) =
            ledger.reader().headers(&own, at, Order::Descending, PAGE_HITS, limits::PAGE_SCAN_MAX)?;
        next = on;
        for header in headers {
            if hits.is_full() {
                next = Some(header.seq);
                break;
            }
            // Its own run is in the conversation already.
            if header.str("run") == Some(asker.run.as_str()) {
                continue;
            }
            let StoredText::Shown(shown) = record.read(header.seq)? else { continue };
            let (whole, labels) = shown.into_parts();
            let whole = String::clone(&asker.agent.secrets().clean(whole));
            // What is hidden, erased or a secret by now is not found either.
            let body = json!({ "text": whole }).to_string();
            if !filter.matches_text(&header, Some(body.as_bytes())) {
                continue;
            }
            repeats.add(&labels);
            hits.push(hit(&header, &whole, words));
        }
    }
    let (found, is_cut) = hits.finish();
    let mut answer = json!({ "found": found, "truncated": is_cut || next.is_some() });
    if let (Some(at), Some(members)) = (next, answer.as_object_mut()) {
        members.insert("next_before".to_owned(), json!(at.saturating_add(1)));
    }
    Ok(FrontAnswer { repeats, ..Ok(answer).into() })
}

/// Each word as text that an entry must have: nothing in it is a field of the query grammar.
fn query(words: &str) -> String {
    let words = words.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
    let quoted = words.map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")));
    quoted.collect::<Vec<_>>().join(" ")
}

fn hit(header: &Header, whole: &str, words: &str) -> Value {
    let kind = header.known_kind().map(Kind::as_str);
    json!({
        "entry": header.seq,
        "kind": kind,
        "tool": header.str("tool"),
        "run": header.str("run"),
        "at": header.u64("wall_us").map(|us| Wall(us).rfc3339()),
        "total_bytes": whole.len(),
        "excerpt": excerpt(whole, words),
    })
}

/// The text around the first of `words`.
fn excerpt(whole: &str, words: &str) -> String {
    let first = words.split_whitespace().next().unwrap_or_default().to_lowercase();
    let at = whole.to_lowercase().find(&first).unwrap_or(0);
    let mut begin = at.saturating_sub(EXCERPT_BYTES / 4).min(whole.len());
    while !whole.is_char_boundary(begin) {
        begin = begin.saturating_sub(1);
    }
    let part = whole.get(begin..).unwrap_or_default();
    text::visible_line(text::prefix(part, EXCERPT_BYTES))
}
