//! Finds and replaces secrets: one automaton over every form of every value, then JSON literals,
//! then patterns.

use super::forms::forms;
use super::found::SecretCounts;
use super::known::{Named, Pattern, SecretError, SecretRefused};
use crate::types::{Digest, digest, limits, secret};
use aho_corasick::{AhoCorasick, Input, MatchKind};
use hmac::{Hmac, KeyInit as _, Mac as _};
use memchr::{memchr, memchr2};
use regex::bytes::Regex;
use serde::de::IgnoredAny;
use sha2::Sha256;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use zeroize::Zeroizing;

/// Depth to which JSON inside JSON strings is parsed.
const DEPTH_MAX: u8 = 4;
/// Maximum number of passes. A replacement may combine with its surroundings into another secret,
/// which does not happen by chance: if text still changes after this many passes, all of it is
/// withheld.
const TURNS_MAX: usize = 16;
/// Shortest beginning of a secret that is replaced at the end of truncated text, in bytes.
const TAIL_BYTES_MIN: usize = 4;

/// Everything that is searched for. Immutable; a reload makes a new one.
pub struct Finder {
    key: Zeroizing<Vec<u8>>,
    names: BTreeSet<String>,
    named: Vec<Named>,
    automaton: AhoCorasick,
    /// The forms in the automaton, in its order, each with the index of its secret.
    forms: Vec<(Vec<u8>, usize)>,
    /// The length of the longest form.
    longest: usize,
    /// Name and replacement of each secret.
    secrets: Vec<(String, String)>,
    patterns: Vec<Pattern>,
    /// Matches replacements with known names: patterns skip them.
    markers: Regex,
}

impl Finder {
    /// Searches for `named` and `patterns`; `key` is the key of the digests. If two secrets have
    /// the same value, the first one's name is used.
    pub fn new(
        key: Zeroizing<Vec<u8>>,
        named: Vec<Named>,
        patterns: Vec<Pattern>,
    ) -> Result<Self, SecretRefused> {
        let refuse = |name: &str, reason| Err(SecretRefused::new(name, reason));
        let names: BTreeSet<String> =
            named.iter().map(|one| &one.name).chain(patterns.iter().map(|one| &one.name)).cloned().collect();
        if let Some(over) = patterns.get(limits::SECRETS_MAX) {
            return refuse(&over.name, SecretError::TooManyPatterns);
        }
        let mut bytes = 0_usize;
        let mut by_form = BTreeMap::new();
        let mut secrets = Vec::with_capacity(named.len());
        for (at, one) in named.iter().enumerate() {
            bytes += one.value.len();
            if at >= limits::SECRETS_MAX || bytes > limits::SECRETS_BYTES_MAX {
                return refuse(&one.name, SecretError::TooManyValues);
            }
            // Replacing such a value would never terminate.
            if names.iter().any(|name| contains(format!("[secret:{name}:cut]").as_bytes(), &one.value)) {
                return refuse(&one.name, SecretError::ValueInReplacement);
            }
            for form in one.parts().flat_map(forms) {
                by_form.entry(form).or_insert(at);
            }
            secrets.push((one.name.clone(), marker(&one.name, &digest_of(&key, &one.value))));
        }
        let too_big = |fault| SecretRefused::new("[secrets]", fault);
        let forms: Vec<(Vec<u8>, usize)> = by_form.into_iter().collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms.iter().map(|(form, _)| form))
            .map_err(|e| too_big(SecretError::Values(e)))?;
        let alternatives: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
        let markers = format!(r"\[secret:(?:{}):(?:[0-9a-f]{{8}}|cut)\]", alternatives.join("|"));
        let markers = Regex::new(&markers).map_err(|e| too_big(SecretError::Names(e)))?;
        let longest = forms.iter().map(|(form, _)| form.len()).max().unwrap_or(0);
        Ok(Self { key, names, named, automaton, forms, longest, secrets, patterns, markers })
    }

    /// The names of all secrets and patterns, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether it finds the same secrets as `other`, under the same names.
    #[must_use]
    pub fn finds_same_as(&self, other: &Self) -> bool {
        let patterns = |finder: &Self| -> Vec<(String, String)> {
            let written = |one: &Pattern| (one.name.clone(), one.regex.as_str().to_owned());
            finder.patterns.iter().map(written).collect()
        };
        self.forms == other.forms && self.secrets == other.secrets && patterns(self) == patterns(other)
    }

    /// The secret called `name`, to be searched for by another finder too.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Named> {
        self.named.iter().find(|one| one.name == name).cloned()
    }

    /// The proof of the values called `names`, with which the process that passes them to a tool
    /// verifies that this finder searches for them. An unknown name gives the proof of no value.
    #[must_use]
    pub fn proof(&self, salt: &[u8; 32], names: &[String]) -> Digest {
        let value =
            |name: &String| self.named.iter().find(|one| one.name == *name).map(|one| one.value.as_slice());
        let proof = |name| secret::proof_of_same(salt, value(name).unwrap_or_default());
        secret::proof_of_all(names.iter().map(proof))
    }

    /// The digest that identifies a value: the first four bytes, in hexadecimal, of an HMAC-SHA256
    /// over `par/secret/1`, a NUL and the value.
    #[must_use]
    pub fn digest(&self, value: &[u8]) -> String {
        digest_of(&self.key, value)
    }

    /// Tells the key of a model from another on the ledger: the first sixteen bytes, in
    /// hexadecimal, of an HMAC-SHA256 over `par/model-key/1`, a NUL and the key. Without the key of
    /// the home, which is on no ledger, no guess can be tested with it.
    #[must_use]
    pub fn key_identity(&self, value: &[u8]) -> String {
        let mac = hmac_of(&self.key, b"par/model-key/1\0", value);
        digest::hex(mac.first_chunk::<16>().map_or(&[], <[u8; 16]>::as_slice))
    }

    /// `bytes` with every secret replaced; `None` if nothing was replaced. If `is_cut`, an end that
    /// may be the beginning of a secret is replaced too.
    #[must_use]
    pub fn replaced(&self, bytes: &[u8], is_cut: bool, found: &mut SecretCounts) -> Option<Vec<u8>> {
        self.turns(bytes, is_cut, DEPTH_MAX, found)
    }

    pub(super) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether a form begins with `bytes` and is longer.
    pub(super) fn begins_form(&self, bytes: &[u8]) -> bool {
        // The forms are sorted, so the first that is greater begins with them, if any does.
        let next = self.forms.partition_point(|(form, _)| form.as_slice() <= bytes);
        self.forms.get(next).is_some_and(|(form, _)| form.starts_with(bytes))
    }

    /// Whether a form is longer than the text that a stream may hold back.
    pub(super) fn has_long_forms(&self) -> bool {
        self.longest > limits::STREAM_HELD_BYTES_MAX
    }

    /// The first value in `bytes` from `from` on: both its ends, its name and its replacement.
    pub(super) fn first_value(&self, bytes: &[u8], from: usize) -> Option<(usize, usize, String, String)> {
        let hit = self.automaton.find(Input::new(bytes).range(from.min(bytes.len())..))?;
        let (_, at) = self.forms.get(hit.pattern().as_usize())?;
        let (name, marker) = self.secrets.get(*at)?;
        Some((hit.start(), hit.end(), name.clone(), marker.clone()))
    }

    /// The first match of a pattern in `bytes` from `from` on: both its ends and its name.
    pub(super) fn first_match(&self, bytes: &[u8], from: usize) -> Option<(usize, usize, String)> {
        let of = |pattern: &Pattern| {
            let (start, end) = pattern.find(bytes, from)?;
            Some((start, end, pattern.name.clone()))
        };
        self.patterns.iter().filter_map(of).min_by_key(|(start, ..)| *start)
    }

    /// The replacement of `value`, found as `name`.
    pub(super) fn marker_of(&self, name: &str, value: &[u8]) -> String {
        marker(name, &self.digest(value))
    }

    fn turns(&self, bytes: &[u8], is_cut: bool, depth: u8, found: &mut SecretCounts) -> Option<Vec<u8>> {
        let mut changed: Option<Vec<u8>> = None;
        for _ in 0..TURNS_MAX {
            match self.turn(changed.as_deref().unwrap_or(bytes), is_cut, depth, found) {
                Some(next) => changed = Some(next),
                None => return changed,
            }
        }
        Some(b"[secrets: withheld]".to_vec())
    }

    fn turn(&self, bytes: &[u8], is_cut: bool, depth: u8, found: &mut SecretCounts) -> Option<Vec<u8>> {
        if let Some(next) = self.values(bytes, found) {
            return Some(next);
        }
        let is_json = is_json(bytes);
        if let Some(next) = self.literals(bytes, is_json, is_cut, depth, found) {
            return Some(next);
        }
        // In JSON, patterns are applied inside strings only: a match across a quote would break the
        // syntax.
        if is_json {
            return None;
        }
        self.matches(bytes, found).or_else(|| if is_cut { self.tail(bytes, found) } else { None })
    }

    /// Replaces every form of every value. JSON stays JSON: an escape that a form begins or ends in
    /// is replaced with it, and a text that still would not parse is withheld.
    fn values(&self, bytes: &[u8], found: &mut SecretCounts) -> Option<Vec<u8>> {
        let mut hits = self.automaton.find_iter(bytes).peekable();
        hits.peek()?;
        let was_json = is_json(bytes);
        let mut out = Splice::new(bytes);
        for hit in hits {
            let secret = self.forms.get(hit.pattern().as_usize()).and_then(|(_, at)| self.secrets.get(*at));
            let Some((name, marker)) = secret else { continue };
            let (start, end) = match was_json {
                true => with_whole_escapes(bytes, hit.start(), hit.end()),
                false => (hit.start(), hit.end()),
            };
            out.put(start, end, marker.as_bytes());
            found.add(name);
        }
        let told = out.done()?;
        Some(if was_json && !is_json(&told) { b"\"[secrets: withheld]\"".to_vec() } else { told })
    }

    /// Replaces JSON strings that contain a secret after unescaping. In text that is not JSON, any
    /// quoted piece may be such a string.
    fn literals(
        &self,
        bytes: &[u8],
        is_json: bool,
        is_cut: bool,
        depth: u8,
        found: &mut SecretCounts,
    ) -> Option<Vec<u8>> {
        let depth = depth.checked_sub(1)?;
        let mut out = Splice::new(bytes);
        let mut at = 0;
        while let Some((open, close)) = quoted(bytes, at) {
            let literal = bytes.get(open..=close).unwrap_or_default();
            // A literal without escapes was searched for values already, but not for patterns.
            let clean = if is_json || literal.contains(&b'\\') {
                serde_json::from_slice::<String>(literal)
                    .ok()
                    .and_then(|text| self.turns(text.as_bytes(), is_cut && is_json, depth, found))
            } else {
                None
            };
            at = if is_json || clean.is_some() { close + 1 } else { close };
            if let Some(clean) = clean {
                let written = serde_json::Value::from(String::from_utf8_lossy(&clean)).to_string();
                out.put(open, close + 1, written.as_bytes());
            }
        }
        out.done()
    }

    /// Replaces the matches of patterns.
    fn matches(&self, bytes: &[u8], found: &mut SecretCounts) -> Option<Vec<u8>> {
        let mut changed: Option<Vec<u8>> = None;
        for pattern in &self.patterns {
            let next = self.matches_of(pattern, changed.as_deref().unwrap_or(bytes), found);
            changed = next.or(changed);
        }
        changed
    }

    /// Each piece between two replacements is searched separately.
    fn matches_of(&self, pattern: &Pattern, bytes: &[u8], found: &mut SecretCounts) -> Option<Vec<u8>> {
        let mut out = Splice::new(bytes);
        let mut from = 0;
        let ends = self.markers.find_iter(bytes).map(|marker| (marker.start(), marker.end()));
        for (to, next) in ends.chain([(bytes.len(), bytes.len())]) {
            let piece = bytes.get(from..to).unwrap_or_default();
            let mut at = 0;
            while let Some((start, end)) = pattern.find(piece, at) {
                let marker = self.marker_of(&pattern.name, piece.get(start..end).unwrap_or_default());
                out.put(from + start, from + end, marker.as_bytes());
                found.add(&pattern.name);
                at = end;
            }
            from = next;
        }
        out.done()
    }

    /// Replaces an end that is the beginning of a form, or of a match. Truncated base64 may end in
    /// a character made from fewer bits, and in padding.
    fn tail(&self, bytes: &[u8], found: &mut SecretCounts) -> Option<Vec<u8>> {
        let unpadded = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == b'=').count();
        let is_padded = unpadded < bytes.len();
        let ends = [Some(bytes.len()), Some(unpadded), unpadded.checked_sub(1).filter(|_| is_padded)];
        let begins = ends.into_iter().flatten().filter_map(|end| self.begin_of_tail(bytes.get(..end)?));
        let (begin, name) = begins.min()?;
        found.add(name);
        let mut out = bytes.get(..begin)?.to_vec();
        out.extend(marker(name, "cut").bytes());
        Some(out)
    }

    fn begin_of_tail(&self, bytes: &[u8]) -> Option<(usize, &str)> {
        let longest = |form: &[u8]| {
            let most = form.len().saturating_sub(1).min(bytes.len());
            (TAIL_BYTES_MIN..=most)
                .rev()
                .find(|length| form.get(..*length).is_some_and(|f| bytes.ends_with(f)))
        };
        let of_values = self.forms.iter().filter_map(|(form, at)| {
            let (name, _) = self.secrets.get(*at)?;
            Some((bytes.len() - longest(form)?, name.as_str()))
        });
        let of_patterns = self.patterns.iter().filter_map(|pattern| {
            let tail = pattern.tail.as_ref()?.find(bytes)?;
            Some((tail.start(), pattern.name.as_str()))
        });
        of_values.chain(of_patterns).min()
    }
}

impl Default for Finder {
    /// Searches for nothing.
    fn default() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "an automaton of nothing, and a pattern that is part of the source"
        )]
        Self::new(Zeroizing::default(), Vec::new(), Vec::new()).expect("an empty set is within every limit")
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Finder({:?})", self.names)
    }
}

/// The text that replaces a secret.
pub(super) fn marker(name: &str, digest: &str) -> String {
    format!("[secret:{name}:{digest}]")
}

fn hmac_of(key: &[u8], purpose: &[u8], value: &[u8]) -> [u8; 32] {
    // HMAC takes a key of any length, so this cannot fail.
    Hmac::<Sha256>::new_from_slice(key).map_or([0; 32], |mut mac| {
        mac.update(purpose);
        mac.update(value);
        mac.finalize().into_bytes().into()
    })
}

fn digest_of(key: &[u8], value: &[u8]) -> String {
    let mac = hmac_of(key, b"par/secret/1\0", value);
    digest::hex(mac.first_chunk::<4>().map_or(&[], <[u8; 4]>::as_slice))
}

fn contains(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len().max(1)).any(|window| window == part)
}

fn is_json(bytes: &[u8]) -> bool {
    let first = bytes.trim_ascii_start().first();
    matches!(first, Some(b'{' | b'[' | b'"')) && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// `start..end`, extended over the escapes of a JSON string that it begins or ends in.
fn with_whole_escapes(bytes: &[u8], start: usize, end: usize) -> (usize, usize) {
    let around = |at: usize| {
        let mut escapes = (at.saturating_sub(5)..at).filter(|from| begins_escape(bytes, *from));
        escapes.find_map(|from| {
            let length = if bytes.get(from + 1) == Some(&b'u') { 6 } else { 2 };
            (from + length > at).then_some((from, from + length))
        })
    };
    let start = around(start).map_or(start, |(from, _)| from);
    (start, around(end).map_or(end, |(_, to)| to.min(bytes.len())))
}

/// Whether the byte at `at` is a backslash that no other one escapes.
fn begins_escape(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    let slashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    bytes.get(at) == Some(&b'\\') && slashes % 2 == 0
}

/// The positions of both quotes of the next quoted piece from `at` on.
fn quoted(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let open = at + memchr(b'"', bytes.get(at..)?)?;
    let mut from = open + 1;
    loop {
        let hit = from + memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes.get(hit) == Some(&b'"') {
            return Some((open, hit));
        }
        // The byte after a backslash ends nothing.
        from = hit + 2;
    }
}

/// Bytes with some pieces replaced, in order; nothing is copied before the first replacement.
struct Splice<'a> {
    from: &'a [u8],
    copied: usize,
    out: Vec<u8>,
    changed: bool,
}

impl<'a> Splice<'a> {
    fn new(from: &'a [u8]) -> Self {
        Self { from, copied: 0, out: Vec::new(), changed: false }
    }

    fn put(&mut self, start: usize, end: usize, new: &[u8]) {
        self.out.extend(self.from.get(self.copied..start).unwrap_or_default());
        self.out.extend(new);
        (self.copied, self.changed) = (end, true);
    }

    fn done(mut self) -> Option<Vec<u8>> {
        self.changed.then(|| {
            self.out.extend(self.from.get(self.copied..).unwrap_or_default());
            self.out
        })
    }
}
