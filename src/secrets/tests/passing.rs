//! Text that is shown while it comes: at no time a part of a secret, and the same text whatever the
//! pieces.

use super::{contains, finder};
use crate::secrets::Secrets;
use crate::secrets::forms::forms;
use crate::types::limits::STREAM_HELD_BYTES_MAX;
use proptest::prelude::*;

/// What is shown after each piece, and at the end.
fn shown<'a>(known: &Secrets, pieces: impl IntoIterator<Item = &'a str>) -> (Vec<String>, String) {
    let mut stream = known.stream();
    let (mut after, mut all) = (Vec::new(), String::new());
    for piece in pieces {
        all.push_str(&stream.push(piece));
        after.push(all.clone());
    }
    all.push_str(&stream.finish());
    (after, all)
}

fn chars(text: &str) -> Vec<&str> {
    text.split("").filter(|piece| !piece.is_empty()).collect()
}

fn clean(known: &Secrets, text: &str) -> String {
    known.clean(text.to_owned()).into_inner()
}

fn secrets(named: &[(&str, &[u8])], patterns: &[(&str, &str)]) -> Secrets {
    Secrets::new(finder(named, patterns).expect("a finder"))
}

/// Whether `shown`, apart from replacements, has four bytes of `form` in a row.
fn leaks(shown: &str, form: &[u8]) -> bool {
    let parts = shown.split("[secret:").map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    let shown = parts.collect::<Vec<_>>().join(" ");
    form.windows(4).any(|window| contains(shown.as_bytes(), window))
}

/// The law of a stream: no prefix of what was shown has four bytes of any form of a secret.
#[test]
fn a_secret_over_two_pieces_is_shown_in_neither() {
    let value = "s3cr\"et/p\u{e4}ss\\w rd+9";
    let known = secrets(&[("db", value.as_bytes())], &[]);
    let all = forms(value.as_bytes());
    assert!(all.len() > 20, "{} forms", all.len());
    for form in all {
        let text = format!("....{}....", String::from_utf8(form.clone()).expect("UTF-8"));
        // An escape of any character may hide any secret: there the text ends.
        let is_whole = !text.contains("\\u");
        let whole = shown(&known, [text.as_str()]).1;
        assert_eq!(is_whole, whole.ends_with("....") && whole.contains("[secret:db:"), "{text}: {whole}");
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (head, tail) = text.split_at(at);
            let (after, all) = shown(&known, [head, tail]);
            assert_eq!(all, whole, "{text} at {at}");
            assert!(after.iter().all(|shown| !leaks(shown, &form)), "{text} at {at}: {after:?}");
        }
        let (after, all) = shown(&known, chars(&text));
        assert_eq!(all, whole, "{text}");
        assert!(after.iter().all(|shown| !leaks(shown, &form)), "{text}: {after:?}");
    }
}

#[test]
fn text_that_begins_like_a_secret_is_shown_once_it_is_clear() {
    let known = secrets(&[("db", b"opensesame")], &[]);
    let (after, all) = shown(&known, ["an open", "s", "esa", " door", " opense"]);
    assert_eq!(after, ["an ", "an ", "an ", "an opensesa door", "an opensesa door "]);
    assert_eq!(all, "an opensesa door opense");
    let whole = format!("{}.", clean(&known, "opensesame"));
    assert_eq!(shown(&known, chars("opensesame.")).1, whole);
}

/// The longer of two values wins, as it does in a whole text.
#[test]
fn a_value_that_is_the_beginning_of_another_waits_for_it() {
    let known = secrets(&[("a", b"opensesame"), ("b", b"opensesame-2")], &[]);
    for text in
        ["opensesame-2", "opensesame-3", "opensesame", "opensesameopensesame-2", "xopensesame-opensesame-"]
    {
        assert_eq!(shown(&known, chars(text)).1, clean(&known, text), "{text}");
    }
}

#[test]
fn a_pattern_is_held_back_from_where_it_may_begin() {
    let patterns = [("token", "tok_[a-z0-9]{8,12}"), ("pass", r"(?i)\bpassword=\S+")];
    let known = secrets(&[], &patterns);
    let (after, _) = shown(&known, ["a tok", "_abc", "d1234", "5", " and"]);
    assert_eq!(after[..4], ["a ", "a ", "a ", "a "]);
    for text in [
        "a tok_abcd1234 b",
        "tok_abcd12345678901",
        "tok_short tok_",
        "Password=hunter2 xpassword=hunter2 password=",
        "password=hunter2 tok_password=x1",
        "p\u{e4}ssword=\u{e4} tok_\u{e4}",
    ] {
        let whole = clean(&known, text);
        assert_eq!(shown(&known, [text]).1, whole, "{text}");
        assert_eq!(shown(&known, chars(text)).1, whole, "{text}");
    }
}

/// What may be a secret and is longer than the limit ends what is shown, whatever the pieces.
#[test]
fn a_long_possible_secret_ends_what_is_shown() {
    let long = "k".repeat(STREAM_HELD_BYTES_MAX + 9);
    let by_value = secrets(&[("key", format!("{long}!").as_bytes())], &[]);
    let by_pattern = secrets(&[], &[("key", "kkkk[k ]+!")]);
    for text in [format!("a {long}! b"), format!("a {long} b")] {
        for known in [&by_value, &by_pattern] {
            assert_eq!(shown(known, [text.as_str()]).1, "a ");
            let pieces = text.as_bytes().chunks(150).map(|piece| std::str::from_utf8(piece).expect("ASCII"));
            assert_eq!(shown(known, pieces).1, "a ");
        }
    }
}

/// Secrets that are exchanged while a text comes are not known to the stream.
#[test]
fn a_reload_ends_what_is_shown() {
    let known = secrets(&[("db", b"opensesame")], &[]);
    let mut stream = known.stream();
    assert_eq!(&*stream.push("one "), "one ");
    known.exchange(finder(&[("db", b"another-one")], &[]).expect("a finder"));
    assert_eq!(&*stream.push("another-one"), "");
    assert_eq!(&*stream.finish(), "");
}

proptest! {
    #![proptest_config(crate::types::laws::cases(256))]

    /// Any split of a text shows the same, and without escapes and quotes that is the text as it is
    /// cleaned as a whole.
    #[test]
    fn any_split_shows_the_same(
        values in prop::collection::vec("[!-~]{8,12}", 1..3),
        parts in prop::collection::vec((0..4_usize, 0..14_usize, "[a-z \u{e9}]{0,3}"), 0..9),
        sizes in prop::collection::vec(1..6_usize, 1..9),
    ) {
        let named: Vec<(&str, &[u8])> = values.iter().map(|value| ("db", value.as_bytes())).collect();
        let Ok(finder) = finder(&named, &[("digits", "[0-9]{6}x")]) else { return Ok(()) };
        let known = Secrets::new(finder);
        let mut text = String::new();
        for (which, length, between) in parts {
            let value = values.get(which).map_or("123456x", String::as_str);
            text.push_str(value.get(..length.min(value.len())).expect("ASCII"));
            text.push_str(&between);
        }
        let (mut rest, mut pieces, mut at) = (text.as_str(), Vec::new(), 0);
        while !rest.is_empty() {
            let mut size = sizes[at % sizes.len()].min(rest.len());
            while !rest.is_char_boundary(size) {
                size += 1;
            }
            let (piece, after) = rest.split_at(size);
            pieces.push(piece);
            (rest, at) = (after, at + 1);
        }
        let whole = shown(&known, [text.as_str()]).1;
        prop_assert_eq!(&shown(&known, pieces).1, &whole);
        if !text.contains(['"', '\\']) {
            prop_assert_eq!(whole, clean(&known, &text));
        }
    }
}
