//! The loose form of a text: what another party could have meant a model to read in it.
//!
//! Words are runs of letters and digits; everything else ends a word and does not count. Letters
//! are compared in compatibility form (NFKC) and in lower case, what cannot be seen is left out,
//! letters of invisible tags are read as the letters that they stand for, and zeros before a number
//! do not count. A path is so found in a longer path, and a host in a URL.

use super::number;
use std::collections::BTreeSet;
use unicode_normalization::UnicodeNormalization as _;

/// Between two words. UTF-8 never has this byte.
const BETWEEN: u8 = 0xFF;
/// What a number takes in memory, about.
const NUMBER_BYTES: usize = 64;

/// Words of texts, in a form in which a run of words is found by its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct LooseWords {
    bytes: Vec<u8>,
    numbers: BTreeSet<String>,
}

impl LooseWords {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new(), numbers: BTreeSet::new() }
    }

    /// Adds a text. A run of words does not go on from one text to the next.
    pub(super) fn add(&mut self, text: &str) {
        self.bytes.push(BETWEEN);
        push(text, &mut self.bytes);
        let is_part = |one: char| one.is_ascii_digit() || matches!(one, '.' | '-' | '+');
        for word in text.split(|one| !is_part(one)) {
            self.numbers.extend(number::of_word(word.trim_end_matches(['.', '-', '+'])));
        }
    }

    pub(super) fn add_number(&mut self, number: String) {
        self.add(&number);
    }

    /// Whether the words of `text` stand here in a row. A text without a letter or a digit stands
    /// in every text.
    pub(super) fn has(&self, text: &str) -> bool {
        let mut sought = vec![BETWEEN];
        push(text, &mut sought);
        match sought.len() {
            1 => !self.bytes.is_empty(),
            _ => memchr::memmem::find(&self.bytes, &sought).is_some(),
        }
    }

    pub(super) fn has_number(&self, number: &str) -> bool {
        self.numbers.contains(number) || self.has(number)
    }

    /// Bytes in memory, about.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + NUMBER_BYTES * self.numbers.len()
    }
}

fn push(text: &str, out: &mut Vec<u8>) {
    for word in words(text) {
        out.extend(word.as_bytes());
        out.push(BETWEEN);
    }
}

/// The words of a text.
pub(super) fn words(text: &str) -> Vec<String> {
    let (mut out, mut word) = (Vec::new(), String::new());
    let mut end = |word: &mut String| {
        let word = std::mem::take(word);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        match word.trim_start_matches('0') {
            _ if word.is_empty() => {}
            "" => out.push("0".to_owned()),
            short if is_number => out.push(short.to_owned()),
            _ => out.push(word),
        }
    };
    for one in text.chars().filter_map(seen).nfkc().flat_map(char::to_lowercase) {
        if one.is_alphanumeric() {
            word.push(one);
        } else {
            end(&mut word);
        }
    }
    end(&mut word);
    out
}

/// The character as a reader sees it; `None` if it is not seen.
fn seen(one: char) -> Option<char> {
    match one {
        // Tags: each stands for a character of ASCII.
        '\u{e0020}'..='\u{e007e}' => char::from_u32(u32::from(one) - 0xe_0000),
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e01ef}' => None,
        one if one.is_control() && !one.is_whitespace() => None,
        one => Some(one),
    }
}
