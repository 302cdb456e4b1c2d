//! Text that is shown while it comes, without secrets.
//!
//! Text that may be the beginning of a secret is held back until it is clear what it is. What is
//! shown of a text depends on the text alone, and not on the pieces in which it came. If a possible
//! secret is longer than [`HELD_MAX`], or an escape could hide one, the rest of the text is not
//! shown: the caller has it when it is complete, and was searched as a whole.

use super::finder::Finder;
use super::found::SecretCounts;
use crate::types::limits::STREAM_HELD_BYTES_MAX as HELD_MAX;
use regex_automata::hybrid::dfa::Cache;
use std::fmt;
use std::sync::Arc;

/// A text that is passed on in pieces.
pub(super) struct Passing {
    finder: Arc<Finder>,
    /// One for each pattern.
    caches: Vec<Cache>,
    /// All that has come.
    text: String,
    /// What was shown, or replaced.
    at: usize,
    /// The end of the last replacement. Patterns are searched for between replacements.
    piece: usize,
    is_stopped: bool,
}

/// The next step, in positions of the whole text.
struct NextShown {
    show_to: usize,
    then: Then,
}

enum Then {
    /// Replaces the text up to this position.
    Replace { to: usize, name: String, marker: String },
    /// More text must come first.
    Wait,
    /// Nothing more is shown.
    Stop,
}

/// The first position from which a secret may begin.
#[derive(Clone, Copy)]
struct Open {
    at: usize,
    /// Whether it would be longer than what may be held back.
    is_long: bool,
}

impl Passing {
    pub(super) fn new(finder: Arc<Finder>) -> Self {
        let caches = finder.patterns().iter().map(|pattern| pattern.begins.create_cache()).collect();
        Self { finder, caches, text: String::new(), at: 0, piece: 0, is_stopped: false }
    }

    /// Shows nothing more.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// The finder that it began with.
    pub(super) fn finder(&self) -> &Arc<Finder> {
        &self.finder
    }

    /// Takes `more` and returns what may be shown. After the last piece, nothing is held back.
    pub(super) fn push(&mut self, more: &str, is_last: bool, found: &mut SecretCounts) -> String {
        let mut shown = String::new();
        if self.is_stopped {
            return shown;
        }
        self.text.push_str(more);
        loop {
            let NextShown { show_to, then } = self.step(is_last);
            let is_whole = self.text.is_char_boundary(show_to);
            let to = (self.at..=show_to).rev().find(|to| self.text.is_char_boundary(*to)).unwrap_or(self.at);
            shown.push_str(self.text.get(self.at..to).unwrap_or_default());
            self.at = to;
            match then {
                Then::Replace { to, name, marker } if is_whole && self.text.is_char_boundary(to) => {
                    shown.push_str(&marker);
                    found.add(&name);
                    (self.at, self.piece) = (to, to);
                }
                Then::Wait => return shown,
                Then::Stop | Then::Replace { .. } => {
                    self.is_stopped = true;
                    return shown;
                }
            }
        }
    }

    fn step(&mut self, is_last: bool) -> NextShown {
        let Self { finder, caches, text, at, piece, .. } = self;
        let (known, is_escaped) = known(text.as_bytes(), *at, is_last);
        let has_end = is_last && !is_escaped;
        let open = finder.first_open(known, *at, has_end);
        let hit = finder.first_value(known, *at);
        // A value is one for certain if no other can begin before it, or be longer.
        let hit = hit.filter(|(start, ..)| open.is_none_or(|open| *start < open.at));
        let end = hit.as_ref().map(|(start, ..)| *start).or(open.map(|open| open.at)).unwrap_or(known.len());
        let between = known.get(*piece..end).unwrap_or_default();
        let is_closed = hit.is_some() || has_end;
        let from = at.saturating_sub(*piece);
        let may_match = finder.first_pattern_open(caches, between, from, is_closed);
        let matched = finder.first_match(between, from);
        let matched = matched.filter(|(start, ..)| may_match.is_none_or(|open| *start < open.at));
        if let Some((start, to, name)) = matched {
            let marker = finder.marker_of(&name, between.get(start..to).unwrap_or_default());
            return NextShown {
                show_to: *piece + start,
                then: Then::Replace { to: *piece + to, name, marker },
            };
        }
        if let Some(Open { at, is_long }) = may_match {
            return NextShown { show_to: *piece + at, then: if is_long { Then::Stop } else { Then::Wait } };
        }
        let then = match (hit, open) {
            (Some((_, to, name, marker)), _) => Then::Replace { to, name, marker },
            (None, Some(Open { is_long: true, .. })) => Then::Stop,
            _ if is_escaped => Then::Stop,
            _ => Then::Wait,
        };
        NextShown { show_to: end, then }
    }
}

impl Finder {
    /// The first position of `text`, from `from` on, where the text begins as a form does, up to
    /// its end or for too long.
    fn first_open(&self, text: &[u8], from: usize, has_end: bool) -> Option<Open> {
        let open = |at: usize| {
            let rest = text.get(at..)?;
            let is_long = rest.len() > HELD_MAX;
            let head = rest.get(..=HELD_MAX).unwrap_or(rest);
            let counts = (is_long && self.has_long_forms()) || (!is_long && !has_end);
            (counts && self.begins_form(head)).then_some(Open { at, is_long })
        };
        (from..text.len()).find_map(open)
    }

    /// The same for the patterns.
    fn first_pattern_open(
        &self,
        caches: &mut [Cache],
        text: &[u8],
        from: usize,
        is_closed: bool,
    ) -> Option<Open> {
        let of = |(pattern, cache): (&super::known::Pattern, &mut Cache)| {
            (from..text.len()).find_map(|at| {
                let is_long = text.len() - at > HELD_MAX;
                let to = if is_long { at + HELD_MAX + 1 } else { text.len() };
                let counts = is_long || !is_closed;
                (counts && pattern.begins.may_match(cache, text, at..to)).then_some(Open { at, is_long })
            })
        };
        self.patterns().iter().zip(caches).filter_map(of).min_by_key(|open| open.at)
    }
}

/// The text whose meaning is clear, and whether an escape follows it that could hide a secret. An
/// escape at the end that is not complete waits.
fn known(text: &[u8], from: usize, is_last: bool) -> (&[u8], bool) {
    let mut at = from;
    while let Some(escape) = text.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += escape;
        let rest = text.get(at + 1..).unwrap_or_default();
        let digits = rest.iter().skip(1).take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
        let is_unicode = rest.first().is_none_or(|byte| *byte == b'u');
        let until = text.get(..at).unwrap_or_default();
        if is_unicode && digits == 4 {
            return (until, true);
        }
        // One to come, or the beginning of one.
        if is_unicode && rest.len() <= digits + 1 && !is_last {
            return (until, false);
        }
        at += 1;
    }
    (text, false)
}

impl fmt::Debug for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passing").field("is_stopped", &self.is_stopped).finish_non_exhaustive()
    }
}
