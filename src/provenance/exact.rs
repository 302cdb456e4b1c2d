//! The exact form of a text: its words, as a person wrote them.
//!
//! Words end at white space, at double quotes and at the punctuation of Chinese and Japanese.
//! Brackets, single quotes and the marks of a sentence are taken off the ends of a word, and
//! `name=` off its start. All of this stays in the form as tokens of its own, so two different
//! texts have one form only by these rules:
//!
//! * a capital first letter of a word that is in lower case otherwise counts as a small one, unless
//!   the word has a `/`: the word may begin a sentence;
//! * in an absolute path, `//` and `/./` count as `/`, and a `/` at the end does not count; `..`
//!   stays, because what it means depends on the disk;
//! * in a URL, scheme and host are in lower case, and an empty path is `/`.
//!
//! Everything else is compared by its code points: two strings that Unicode calls equivalent are
//! two names of a file, and what cannot be seen is a part of its word.

use super::number;
use std::collections::BTreeSet;

/// Between two tokens. UTF-8 never has this byte.
const BETWEEN: u8 = 0xFF;
/// What a number takes in memory, about.
const NUMBER_BYTES: usize = 64;
/// Before a token that is punctuation or white space. UTF-8 never has this byte.
const MARK: u8 = 0xFE;

/// Words of texts, in a form in which a run of words is found by its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactWords {
    bytes: Vec<u8>,
    numbers: BTreeSet<String>,
}

impl ExactWords {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new(), numbers: BTreeSet::new() }
    }

    /// Adds a text. A run of words does not go on from one text to the next.
    pub(super) fn add(&mut self, text: &str) {
        self.bytes.push(BETWEEN);
        for token in tokens(text) {
            if let Token::Word(word) = token {
                self.numbers.extend(number::of_word(word));
            }
            push(token, &mut self.bytes);
        }
    }

    pub(super) fn add_number(&mut self, number: String) {
        self.numbers.insert(number);
    }

    /// Whether all of `text` stands here, as whole words.
    pub(super) fn has(&self, text: &str) -> bool {
        let mut sought = vec![BETWEEN];
        let mut has_word = false;
        for token in tokens(text) {
            has_word |= matches!(token, Token::Word(_));
            push(token, &mut sought);
        }
        // Quotes or white space alone stand in every text.
        has_word && memchr::memmem::find(&self.bytes, &sought).is_some()
    }

    pub(super) fn has_number(&self, number: &str) -> bool {
        self.numbers.contains(number)
    }

    /// Bytes in memory, about.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + NUMBER_BYTES * self.numbers.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Mark(&'a str),
}

fn push(token: Token<'_>, out: &mut Vec<u8>) {
    match token {
        Token::Word(word) => out.extend(folded(word).as_bytes()),
        Token::Mark(mark) => {
            out.push(MARK);
            out.extend(mark.as_bytes());
        }
    }
    out.push(BETWEEN);
}

/// The words and marks of a text: put together again, they are the text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    for piece in text.split_inclusive(is_end) {
        let end = piece.char_indices().next_back().filter(|(_, last)| is_end(*last));
        let (word, end) = piece.split_at(end.map_or(piece.len(), |(at, _)| at));
        chunk(word, &mut out);
        if !end.is_empty() {
            out.push(Token::Mark(end));
        }
    }
    out
}

/// Whether a word ends here whatever is around it.
fn is_end(one: char) -> bool {
    one.is_whitespace()
        || matches!(one, '"' | '`' | '\u{ab}' | '\u{bb}' | '\u{201c}'..='\u{201f}' | '\u{2026}')
        || matches!(one, '\u{3001}' | '\u{3002}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301b}')
        || matches!(
            one,
            '\u{ff01}' | '\u{ff08}' | '\u{ff09}' | '\u{ff0c}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}'
        )
}

/// Takes the punctuation off the ends of what stands between two ends of words.
fn chunk<'a>(whole: &'a str, out: &mut Vec<Token<'a>>) {
    let (mut rest, mut after) = (whole, Vec::new());
    while let Some(less) = less_at_end(rest) {
        let (left, mark) = rest.split_at(less.len());
        after.push(Token::Mark(mark));
        rest = left;
    }
    while let Some((mark, less)) = less_at_start(rest) {
        out.push(Token::Mark(mark));
        rest = less;
        // What was a bracket's partner may now be alone.
        while let Some(less) = less_at_end(rest) {
            let (left, mark) = rest.split_at(less.len());
            after.push(Token::Mark(mark));
            rest = left;
        }
    }
    if let Some((name, value)) = assigned(rest) {
        out.extend([Token::Word(name), Token::Mark("=")]);
        rest = value;
    }
    if !rest.is_empty() {
        out.push(Token::Word(rest));
    }
    out.extend(after.into_iter().rev());
}

const PAIRS: [(char, char); 6] =
    [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>'), ('\'', '\''), ('\u{2018}', '\u{2019}')];

/// `word` without the mark at its end; `None` if it ends with none, or is nothing else: a path may
/// be `.`.
fn less_at_end(word: &str) -> Option<&str> {
    let mut all = word.char_indices();
    let (at, last) = all.next_back()?;
    let less = word.get(..at).filter(|less| less.contains(char::is_alphanumeric))?;
    // `.` and `..` at the end of a path are names.
    let is_name = last == '.' && less.trim_end_matches('.').ends_with('/');
    let is_mark = (matches!(last, '.' | ',' | ';' | ':' | '!' | '?') && !is_name)
        || (last == '%' && less.ends_with(|one: char| one.is_ascii_digit()));
    let is_lone = PAIRS.iter().any(|(open, close)| *close == last && !less.contains(*open));
    (is_mark || is_lone).then_some(less)
}

/// The mark at the start of `word`, and the rest. A bracket whose partner is in the middle stays.
fn less_at_start(word: &str) -> Option<(&str, &str)> {
    let first = word.chars().next()?;
    let (mark, less) = word.split_at(first.len_utf8());
    if !less.contains(char::is_alphanumeric) {
        return None;
    }
    let is_mark = matches!(first, ',' | ';' | ':')
        || (matches!(first, '$' | '\u{20ac}' | '\u{a3}' | '\u{a5}')
            && less.starts_with(|one: char| one.is_ascii_digit()));
    let is_free = PAIRS.iter().any(|(open, close)| {
        let partner = less.find(*close);
        *open == first && partner.is_none_or(|at| at + close.len_utf8() == less.len())
    });
    (is_mark || is_free).then_some((mark, less))
}

/// The parts of `name=value`. A URL or a path has none.
fn assigned(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_assigned =
        !name.is_empty() && name.bytes().all(is_name) && !matches!(value.as_bytes(), [] | [b'=', ..]);
    is_assigned.then_some((name, value))
}

/// The one spelling of a word.
fn folded(word: &str) -> String {
    if let Some((scheme, rest)) = word.split_once("://") {
        return url(scheme, rest).unwrap_or_else(|| word.to_owned());
    }
    if word.starts_with('/') {
        return path(word);
    }
    let mut letters = word.chars();
    match letters.next() {
        Some(first) if first.is_ascii_uppercase() && !letters.any(|one| one.is_uppercase() || one == '/') => {
            let (_, rest) = word.split_at(1);
            format!("{}{rest}", first.to_ascii_lowercase())
        }
        _ => word.to_owned(),
    }
}

fn url(scheme: &str, rest: &str) -> Option<String> {
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, after) = rest.split_at(end);
    // What is before an `@` is a name and a password.
    let host = if host.contains('@') { host.to_owned() } else { host.to_ascii_lowercase() };
    let slash = if after.is_empty() { "/" } else { "" };
    Some(format!("{}://{host}{slash}{after}", scheme.to_ascii_lowercase()))
}

fn path(word: &str) -> String {
    let names = word.split('/').filter(|name| !matches!(*name, "" | "."));
    let mut out = String::with_capacity(word.len());
    for name in names {
        out.push('/');
        out.push_str(name);
    }
    if out.is_empty() { "/".to_owned() } else { out }
}
