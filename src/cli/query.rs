//! Queries as words of the command line.
//!
//! `-kind:x` is a word of a query that turns it round, and no row of options: such words pass the parser of
//! options behind a mark.

use std::ffi::OsString;

/// Stands in front of a word of a query that begins with `-`: no argument of the system can hold it.
const NEGATED: char = '\0';

/// The arguments, with the words of queries that begin with a `-` marked: `-kind:x` is no row of options.
/// Options of these commands have two dashes, or are two characters long.
pub(super) fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let takes_query = arguments.windows(2).any(|two| {
        two.first().is_some_and(|one| one == "audit")
            && two.last().is_some_and(|other| other == "show" || other == "export")
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

/// The query that these words make.
pub(super) fn join(words: &[String]) -> String {
    words.iter().map(|word| word.strip_prefix(NEGATED).unwrap_or(word)).collect::<Vec<_>>().join(" ")
}
