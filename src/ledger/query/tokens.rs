//! The words of a text, as free text is searched for: in payloads, and in the index. Pure.

use serde_json::Value;
use std::collections::VecDeque;

/// Only the first characters of a word count. No person types a longer one.
const WORD_CHARS_MAX: usize = 64;

/// Precedes each word of a run's message where it stands again after all words of the request. No
/// word of a query contains it.
pub(super) const ASKED: char = '¶';

/// The words of `text`, in order: runs of letters and digits in lower case, cut to 64 characters.
pub(in crate::ledger) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|run| !run.is_empty())
        .map(|run| run.chars().flat_map(char::to_lowercase).take(WORD_CHARS_MAX).collect())
}

/// Passes each string and number of a payload to `see`, until it returns true.
pub(super) fn any_text(payload: &Value, see: &mut impl FnMut(&str) -> bool) -> bool {
    match payload {
        Value::String(text) => see(text),
        Value::Number(number) => see(&number.to_string()),
        Value::Array(items) => items.iter().any(|item| any_text(item, see)),
        Value::Object(members) => members.values().any(|value| any_text(value, see)),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Whether the words of `phrase` follow each other in `text`. With `is_start`, the last one may be
/// only the start of a word.
pub(in crate::ledger) fn has(text: &str, phrase: &[String], is_start: bool) -> bool {
    let Some((last, before)) = phrase.split_last() else { return false };
    let mut window: VecDeque<String> = VecDeque::with_capacity(before.len() + 1);
    words(text).any(|word| {
        let is_last = if is_start { word.starts_with(last.as_str()) } else { word == *last };
        let holds = is_last && window.len() == before.len() && window.iter().eq(before);
        if !before.is_empty() {
            if window.len() == before.len() {
                window.pop_front();
            }
            window.push_back(word);
        }
        holds
    })
}

#[cfg(test)]
mod tests {
    use super::{any_text, has, words};
    use serde_json::json;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let all = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(all("/var/log/Nginx-2.log: 502!"), ["var", "log", "nginx", "2", "log", "502"]);
        assert_eq!(all("ÄRGER\u{1f980}日本"), ["ärger", "日本"]);
        assert_eq!(all(&"x".repeat(100)), ["x".repeat(64)]);
        assert!(all("--- \"\" *").is_empty());
    }

    #[test]
    fn a_phrase_matches_neighbouring_words() {
        for (text, phrase, is_start, expect) in [
            ("a connection was refused", "connection refused", false, false),
            ("the Connection, refused", "connection refused", false, true),
            ("connection connection refused", "connection refused", false, true),
            ("nginx", "ngin", false, false),
            ("nginx", "ngin", true, true),
            ("log nginx", "log ngin", true, true),
            ("logs nginx", "log ngin", true, false),
            ("", "x", true, false),
        ] {
            let phrase: Vec<String> = words(phrase).collect();
            assert_eq!(has(text, &phrase, is_start), expect, "{text}: {phrase:?}");
        }
    }

    #[test]
    fn strings_and_numbers_are_text_and_names_are_not() {
        let payload = json!({ "message": ["Hello", { "n": 502 }], "is": true, "none": null });
        let mut seen = Vec::new();
        assert!(!any_text(&payload, &mut |text| {
            seen.push(text.to_owned());
            false
        }));
        assert_eq!(seen, ["Hello", "502"]);
    }
}
