//! Numbers by their value: `5`, `+5` and `5.0` are one number.

use serde_json::Number;

/// The one spelling of the decimal `word`: a sign if it is negative, digits, and places without
/// zeros at the end. `None` if the word is not a plain decimal, as one with an exponent, with
/// groups of digits or with digits of another script.
pub(super) fn of_word(word: &str) -> Option<String> {
    let (is_negative, rest) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    let (whole, places) = rest.split_once('.').map_or((rest, None), |(whole, places)| (whole, Some(places)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !places.is_none_or(is_digits) {
        return None;
    }
    let whole = Some(whole.trim_start_matches('0')).filter(|whole| !whole.is_empty()).unwrap_or("0");
    let places = places.unwrap_or_default().trim_end_matches('0');
    let point = if places.is_empty() { "" } else { "." };
    let sign = if is_negative && (whole != "0" || !places.is_empty()) { "-" } else { "" };
    Some(format!("{sign}{whole}{point}{places}"))
}

/// The same spelling of a number of JSON; `None` if it has an exponent when it is written out.
pub(super) fn of_json(number: &Number) -> Option<String> {
    of_word(&number.to_string())
}

#[cfg(test)]
mod tests {
    use super::of_word;

    #[test]
    fn a_number_has_one_spelling() {
        for (word, expect) in [
            ("5", "5"),
            ("+5", "5"),
            ("005", "5"),
            ("5.0", "5"),
            ("5.10", "5.1"),
            ("-0.50", "-0.5"),
            ("-0", "0"),
            ("0", "0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            assert_eq!(of_word(word).as_deref(), Some(expect), "{word}");
        }
        for word in ["", "-", ".5", "5.", "1e3", "1,000", "0x10", "5.0.1", "\u{664}", "5 ", "--5"] {
            assert_eq!(of_word(word), None, "{word}");
        }
    }
}
