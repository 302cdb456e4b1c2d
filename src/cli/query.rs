//! Queries on the command line.
//!
//! A query term such as `-kind:x` negates the term and is not a group of short options. Such terms
//! are marked before clap parses the arguments.

use super::exit::{self, Fail};
use crate::ledger::payload::ToolsLoadPayload;
use crate::ledger::query::KeyNames;
use crate::ledger::{Filter, Kind, Order, ReadError, Reader};
use std::ffi::OsString;

/// Prefix of a query term that begins with `-`. No argument of a process can contain a NUL.
const NEGATED: char = '\0';

/// Returns the arguments of the process, with query terms that begin with `-` marked. Options of
/// the commands that take a query begin with two dashes or are two characters long.
pub(super) fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let takes_query = arguments.windows(2).any(|two| {
        let is = |word: Option<&OsString>, known: &[&str]| {
            word.is_some_and(|word| known.iter().any(|known| word == known))
        };
        is(two.first(), &["audit"]) && is(two.last(), &["show", "export"])
            || is(two.first(), &["runs"]) && is(two.last(), &["list"])
    });
    for argument in arguments.iter_mut().filter(|_| takes_query) {
        let word = argument
            .to_str()
            .filter(|word| word.len() > 2 && word.starts_with('-') && !word.starts_with("--"));
        if let Some(marked) = word.map(|word| format!("{NEGATED}{word}")) {
            *argument = marked.into();
        }
    }
    arguments
}

/// Whether the arguments have a `--`, after which every word is a value.
pub(super) fn has_separator() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// Joins the terms to one query, without the marks.
pub(super) fn join(words: &[String]) -> String {
    words.iter().map(|word| word.strip_prefix(NEGATED).unwrap_or(word)).collect::<Vec<_>>().join(" ")
}

/// Refuses a query for a key, a user or a principal that does not exist, after it found nothing.
pub(super) fn check_names(reader: &Reader, names: &KeyNames, filter: &Filter) -> Result<(), Fail> {
    let has_entry = |alone: &Filter| {
        let (headers, _) = reader.listed(alone, u64::MAX, Order::Descending, 1, usize::MAX)?;
        Ok::<bool, ReadError>(!headers.is_empty())
    };
    let unknown = filter.unknown_name(names, has_entry);
    let unknown = unknown.map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
    unknown.map_or(Ok(()), |unknown| Err(Fail::usage(unknown)))
}

/// Refuses a query for a tool that was not loaded last and that no entry names.
pub(super) fn check_tools(reader: &Reader, filter: &Filter) -> Result<(), Fail> {
    if !filter.names_tool() {
        return Ok(());
    }
    let newest = |filter: &Filter| {
        let (headers, _) = reader.listed(filter, u64::MAX, Order::Descending, 1, usize::MAX)?;
        Ok::<_, ReadError>(headers.into_iter().next())
    };
    let unread = |e: ReadError| Fail::new(exit::UNVERIFIED, e);
    let load = newest(&Filter::field("kind", Kind::ToolsLoad.as_str())).map_err(unread)?;
    let load = load.map(|load| reader.entry(load.seq)).transpose().map_err(unread)?.flatten();
    let load: Option<ToolsLoadPayload> = load.and_then(|load| load.payload());
    // Without a record of the tools there is nothing to compare with.
    let Some(load) = load else { return Ok(()) };
    let known: Vec<String> = load.tools.into_iter().map(|tool| tool.name).collect();
    let unknown = filter.unknown_tool(&known, |alone| Ok(newest(alone)?.is_some())).map_err(unread)?;
    unknown.map_or(Ok(()), |unknown| Err(Fail::usage(unknown)))
}

/// Percent-encodes a value of a query (RFC 3986).
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
