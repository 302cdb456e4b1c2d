use super::exact::{ExactWords, Token, tokens};
use super::loose::{LooseWords, words};
use super::{ArgumentOrigins, SourceTexts};
use crate::types::{FoundIn, laws::cases, limits};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn given(message: &str, trusted: &str, untrusted: &str) -> SourceTexts {
    let mut texts = SourceTexts::new();
    texts.add_message(message);
    for (text, is_trusted) in [(trusted, true), (untrusted, false)] {
        if !text.is_empty() {
            texts.add_result(&json!({ "text": text }), is_trusted);
        }
    }
    texts
}

#[test]
fn a_value_is_found_in_what_it_stands_in() {
    let check = |message: &str, trusted: &str, untrusted: &str, expect: FoundIn| {
        assert_eq!(
            given(message, trusted, untrusted).text("nginx"),
            expect,
            "{message} {trusted} {untrusted}"
        );
    };
    let no = "nothing here";
    check("restart nginx", no, no, FoundIn::Message);
    check("restart nginx", "nginx", no, FoundIn::Message);
    check("restart it", "nginx", no, FoundIn::Trusted);
    check("restart it", "nginx", "nginx", FoundIn::Both);
    check("restart nginx", no, "nginx", FoundIn::Both);
    check("restart nginx", "nginx", "nginx", FoundIn::Both);
    check("restart it", no, "nginx", FoundIn::Untrusted);
    check("restart it", no, no, FoundIn::Nowhere);
}

/// The person wrote the value: as a whole word, in any of the usual surroundings.
#[test]
fn a_person_wrote_it() {
    for (message, value) in [
        ("restart nginx, then look", "nginx"),
        ("Nginx is down", "nginx"),
        ("is it (nginx)?", "nginx"),
        ("restart 'nginx'.", "nginx"),
        ("deploy(project=\"shop\", version=\"1.2.0\")", "shop"),
        ("deploy(project=\"shop\", version=\"1.2.0\")", "1.2.0"),
        ("deploy project=shop version=1.2.0.", "1.2.0"),
        ("{\"path\":\"/etc/hosts\"}", "/etc/hosts"),
        ("read /etc/hosts.", "/etc/hosts"),
        ("read /etc//hosts/", "/etc/hosts"),
        ("read /etc/./hosts", "/etc/hosts/"),
        ("the folder is /", "/"),
        ("list .", "."),
        ("fetch HTTPS://Example.com", "https://example.com/"),
        ("fetch <https://example.com/A?b=C>!", "https://example.com/A?b=C"),
        ("mail bob@example.com: \"Lunch at noon?\"", "Lunch at noon?"),
        ("mail bob@example.com: \"Lunch at noon?\"", "bob@example.com"),
        ("\u{201c}nginx\u{201d}", "nginx"),
        ("\u{300c}nginx\u{300d}\u{3092}", "nginx"),
        ("say \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}.", "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
        ("read notes (old).txt", "notes (old).txt"),
        ("it grew by 10%", "10"),
        ("pay $50.", "50"),
    ] {
        assert_eq!(given(message, "", "").text(value), FoundIn::Message, "{message} | {value}");
    }
}

/// No person wrote the value: parts, splits, encodings and look-alikes of what was written.
#[test]
fn no_split_or_encoding_or_look_alike_counts_as_written() {
    for (message, value) in [
        // A part of a longer word.
        ("restart nginx-old", "nginx"),
        ("read /etc/passwd.bak", "/etc/passwd"),
        ("read /etc/passwd/x", "/etc/passwd"),
        ("read /srv/etc/passwd", "/etc/passwd"),
        ("read /etc/passwd", "passwd"),
        ("read /srv/..", "/srv"),
        ("read /srv/../etc", "/etc"),
        ("fetch https://example.com/a?b=c", "https://example.com/a"),
        ("fetch https://example.com.evil.net/", "https://example.com/"),
        ("fetch https://example.com", "example.com"),
        ("mail bob@example.com", "example.com"),
        ("version 1.2.0", "1.2"),
        ("version 1.10", "1.1"),
        ("use --dry-run=false", "dry"),
        ("key abc==", "abc"),
        ("read /srv/a(1)/b", "/srv/a"),
        ("read /srv/a,b", "/srv/a"),
        ("ports 80,443", "80"),
        ("a\u{200b}nginx", "nginx"),
        // Put together from pieces.
        ("restart ng inx", "nginx"),
        ("ng\u{200b}inx", "nginx"),
        ("n-g-i-n-x", "nginx"),
        ("ngi\nnx", "nginx"),
        ("read /etc and passwd", "/etc/passwd"),
        ("first a then b", "a b"),
        ("bob, alice", "bob alice"),
        ("stop; start", "stop start"),
        ("\"a  b\"", "a b"),
        ("say hello", "hello\n"),
        // Encoded.
        ("bmdpbng=", "nginx"),
        ("6e67696e78", "nginx"),
        ("%6eginx", "nginx"),
        ("\\u006eginx", "nginx"),
        ("&#110;ginx", "nginx"),
        ("atvak", "nginx"),
        ("xnign", "nginx"),
        ("fetch https://example.com/%61", "https://example.com/a"),
        // Another letter that looks the same, or is equivalent to Unicode.
        ("restart ng\u{456}nx", "nginx"),
        ("restart nginx", "ng\u{456}nx"),
        ("restart \u{ff4e}ginx", "nginx"),
        ("restart nginx", "\u{ff4e}ginx"),
        ("restart nginx", "n\u{200b}ginx"),
        ("caf\u{e9}", "cafe\u{301}"),
        ("\u{e006e}\u{e0067}\u{e0069}\u{e006e}\u{e0078}", "nginx"),
        ("restart NGINX", "nginx"),
        ("read README/x", "readme/x"),
        ("read /Etc/hosts", "/etc/hosts"),
        ("fetch https://example.com/A", "https://example.com/a"),
        ("fetch https://Bob:Pw@example.com/", "https://bob:pw@example.com/"),
        // Nothing that can be written.
        ("a . b", " "),
        ("a \"b\"", "\""),
        ("the end.", "."),
        ("a", ""),
        ("nine", "9"),
    ] {
        assert_eq!(given(message, "", "").text(value), FoundIn::Nowhere, "{message} | {value}");
        // The same in an untrusted text makes it no better.
        let found = given("restart it", "", message).text(value);
        assert!(matches!(found, FoundIn::Nowhere | FoundIn::Untrusted), "{message} | {value}: {found:?}");
    }
}

/// An untrusted text is believed to hold a value in many spellings.
#[test]
fn an_untrusted_text_is_read_generously() {
    for (untrusted, value) in [
        ("run it for /ETC/passwd.bak", "/etc/passwd"),
        ("NGINX", "nginx"),
        ("\u{ff4e}ginx", "nginx"),
        ("n\u{200b}gi\u{ad}nx", "nginx"),
        ("\u{e006e}\u{e0067}\u{e0069}\u{e006e}\u{e0078}", "nginx"),
        ("https://example.com/x", "example.com"),
        ("port 0080", "80"),
        ("port 80,443", "80"),
        ("stop; start", "stop start"),
        ("anything", "."),
    ] {
        let found = given(value, "", untrusted).text(value);
        let alone = given("no", "", untrusted).text(value);
        assert_eq!((found, alone), (FoundIn::Both, FoundIn::Untrusted), "{untrusted} | {value}");
    }
}

#[test]
fn a_number_is_found_by_its_value() {
    let texts =
        given("close 12 tickets, wait 5.0 s, pay $1,000, go to -3", "up 77", "disk at 91%, port 0443");
    for (number, expect) in [
        (json!(12), FoundIn::Message),
        (json!(5), FoundIn::Message),
        (json!(5.0), FoundIn::Message),
        (json!(-3), FoundIn::Message),
        (json!(3), FoundIn::Nowhere),
        (json!(1), FoundIn::Nowhere),
        (json!(1000), FoundIn::Nowhere),
        (json!(77), FoundIn::Trusted),
        (json!(91), FoundIn::Untrusted),
        (json!(443), FoundIn::Untrusted),
        (json!(1e300), FoundIn::Untrusted),
    ] {
        let Value::Number(one) = &number else { panic!("a number") };
        assert_eq!(texts.number(one), expect, "{number}");
    }
    let mut results = SourceTexts::new();
    results.add_result(&json!([{ "pid": 4711, "load": 0.50 }]), true);
    results.add_result(&json!({ "ports": [22], "1234": true }), false);
    for (number, expect) in [
        (json!(4711), FoundIn::Trusted),
        (json!(0.5), FoundIn::Trusted),
        (json!(22), FoundIn::Untrusted),
        (json!(1234), FoundIn::Untrusted),
    ] {
        let Value::Number(one) = &number else { panic!("a number") };
        assert_eq!(results.number(one), expect, "{number}");
    }
}

#[test]
fn an_argument_is_the_least_safe_of_its_values() {
    let mut texts = given("mail bob@x.org and al@x.org: hello", "", "mail eve@x.org");
    texts.add_trusted("the operator's own runbook");
    let check = |to: Value, expect: FoundIn| {
        let arguments = json!({ "to": to, "more": 1 });
        let found = ArgumentOrigins::find(&texts, [("to", "/to")], &arguments);
        assert_eq!(found.of("to"), expect, "{arguments}");
        assert_eq!(found.of("more"), FoundIn::Untrusted);
    };
    check(json!("bob@x.org"), FoundIn::Message);
    check(json!(["bob@x.org", "al@x.org"]), FoundIn::Message);
    check(json!(["bob@x.org", "runbook"]), FoundIn::Trusted);
    check(json!(["bob@x.org", "eve@x.org"]), FoundIn::Untrusted);
    check(json!(["bob@x.org", "zoe@x.org"]), FoundIn::Nowhere);
    check(json!({ "bob@x.org": "hello" }), FoundIn::Message);
    check(json!({ "cc": "bob@x.org" }), FoundIn::Nowhere);
    check(json!([["bob@x.org", true]]), FoundIn::Nowhere);
    check(json!([]), FoundIn::Nowhere);
    check(json!(null), FoundIn::Nowhere);
    check(json!(true), FoundIn::Nowhere);
    check(json!(vec!["hello"; limits::PROVENANCE_VALUES_MAX]), FoundIn::Message);
    check(json!(vec!["hello"; limits::PROVENANCE_VALUES_MAX + 1]), FoundIn::Untrusted);
    let none = ArgumentOrigins::find(&texts, [("to", "/to"), ("deep_to", "/deep/to")], &json!({}));
    let nowhere = ["deep_to", "to"].map(|name| (name.to_owned(), FoundIn::Nowhere));
    assert_eq!(none.members(), &BTreeMap::from(nowhere));
}

/// What is beyond the bound is read in the unsafe way.
#[test]
fn what_does_not_fit_counts_as_the_unsafe_reading() {
    let big = "filler ".repeat(limits::PROVENANCE_BYTES_MAX / 7 - 200);
    let with = |add: fn(&mut SourceTexts, &str)| {
        let mut texts = given("restart nginx", "", "");
        texts.add_trusted("redis");
        texts.add_trusted(&big);
        assert!(!texts.is_cut());
        add(&mut texts, &"beyond ".repeat(1_000));
        assert!(texts.is_cut());
        texts
    };
    let message = with(SourceTexts::add_message);
    assert_eq!([message.text("nginx"), message.text("beyond")], [FoundIn::Message, FoundIn::Nowhere]);
    let trusted = with(SourceTexts::add_trusted);
    assert_eq!([trusted.text("redis"), trusted.text("beyond")], [FoundIn::Trusted, FoundIn::Nowhere]);
    let untrusted = with(SourceTexts::add_untrusted);
    let found = ["nginx", "redis", "anything"].map(|text| untrusted.text(text));
    assert_eq!(found, [FoundIn::Both, FoundIn::Both, FoundIn::Untrusted]);
    assert_eq!(untrusted.number(&3.into()), FoundIn::Untrusted);
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[aA1.,:=/'\"() %$\u{200b}\u{e9}\n-]{0,24}", 0..4)
}

fn has_run<T: PartialEq>(texts: &[Vec<T>], sought: &[T]) -> bool {
    !sought.is_empty() && texts.iter().any(|text| text.windows(sought.len()).any(|run| run == sought))
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// The search by bytes finds what a comparison of every run of tokens finds.
    #[test]
    fn the_search_equals_a_slow_reference(given in texts(), value in "[aA1.,:=/'\"() %\u{e9}-]{0,5}") {
        let (mut exact, mut loose) = (ExactWords::new(), LooseWords::new());
        for text in &given {
            exact.add(text);
            loose.add(text);
        }
        // Each token alone, in the form that it is compared in.
        let form = |token: Token<'_>| match token {
            Token::Word(word) => {
                let mut alone = ExactWords::new();
                alone.add(word);
                (true, format!("{alone:?}"))
            }
            Token::Mark(mark) => (false, mark.to_owned()),
        };
        let forms = |text: &String| tokens(text).into_iter().map(form).collect::<Vec<_>>();
        let sought = forms(&value);
        let slow = sought.iter().any(|(is_word, _)| *is_word)
            && has_run(&given.iter().map(forms).collect::<Vec<_>>(), &sought);
        prop_assert_eq!(exact.has(&value), slow);
        let all: Vec<_> = given.iter().map(|text| words(text)).collect();
        let slow = if words(&value).is_empty() { !given.is_empty() } else { has_run(&all, &words(&value)) };
        prop_assert_eq!(loose.has(&value), slow);
    }

    #[test]
    fn the_tokens_are_the_text(text in "[aA1.,:;=/'\"()\\[\\]{}<> %$!?\u{200b}\u{2026}\u{3001}\n-]{0,40}") {
        let all: String = tokens(&text).into_iter().map(|token| match token {
            Token::Word(part) | Token::Mark(part) => part,
        }).collect();
        prop_assert_eq!(all, text);
    }

    /// What a person is said to have written stands in the message, and no letter or digit next to
    /// it makes it a part of a longer word.
    #[test]
    fn what_counts_as_written_stands_in_the_message(
        message in "[aA1.,:='\"() $\u{e9}-]{0,24}",
        value in "[aA1.,:='\"() $\u{e9}-]{1,5}",
    ) {
        if given(&message, "", "").text(&value) == FoundIn::Message {
            let (text, sought) = (message.to_lowercase(), value.to_lowercase());
            let is_free = |near: Option<char>| near.is_none_or(|one| !one.is_alphanumeric());
            let stands = text.char_indices().any(|(at, _)| {
                let (before, from) = text.split_at(at);
                let after = from.strip_prefix(sought.as_str());
                after.is_some_and(|after| {
                    is_free(before.chars().next_back()) && is_free(after.chars().next())
                })
            });
            prop_assert!(stands, "{message:?} {value:?}");
        }
    }

    /// An untrusted text that holds a value as a person would have written it is always seen.
    #[test]
    fn what_counts_as_written_counts_as_untrusted_in_an_untrusted_text(
        text in "[aA1.,:=/'\"() $\u{e9}-]{0,24}",
        value in "[aA1.,:=/'\"() $\u{e9}-]{1,5}",
    ) {
        if given(&text, "", "").text(&value) == FoundIn::Message {
            prop_assert_eq!(given("no", "", &text).text(&value), FoundIn::Untrusted);
        }
    }
}
