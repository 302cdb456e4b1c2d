//! What is replaced, what is kept, and that no secret remains: properties over random secrets and
//! texts.

mod passing;

use super::forms::forms;
use super::{Finder, Named, Parted, Pattern, SecretCounts, Secrets};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use zeroize::Zeroizing;

fn finder(named: &[(&str, &[u8])], patterns: &[(&str, &str)]) -> Result<Finder, String> {
    let named = named.iter().map(|(name, value)| Named::new(name, Zeroizing::new(value.to_vec())));
    let named: Vec<Named> = named.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let patterns = patterns.iter().map(|(name, pattern)| Pattern::new(name, pattern));
    let patterns = patterns.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    Finder::new(Zeroizing::new(vec![7; 32]), named, patterns).map_err(|e| e.to_string())
}

fn replaced(finder: &Finder, bytes: &[u8], is_cut: bool) -> (Vec<u8>, SecretCounts) {
    let mut found = SecretCounts::default();
    let out = finder.replaced(bytes, is_cut, &mut found).unwrap_or_else(|| bytes.to_vec());
    (out, found)
}

fn contains(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len()).any(|window| window == part)
}

#[test]
fn each_form_is_replaced_by_the_name_and_one_digest() {
    let value = "s3cr\"et/päss\\w rd+9";
    let finder = finder(&[("db", value.as_bytes())], &[]).expect("finder");
    let marker = format!("[secret:db:{}]", finder.digest(value.as_bytes()));
    assert_eq!(marker.len(), "[secret:db:9f3c2a1b]".len());
    let in_json = serde_json::json!({ "a": { "b": value } }).to_string();
    let in_both = serde_json::json!({ "arguments": in_json }).to_string();
    for (text, expect) in [
        (format!("<{value}>"), format!("<{marker}>")),
        (in_json, format!(r#"{{"a":{{"b":"{marker}"}}}}"#)),
        (in_both, format!(r#"{{"arguments":"{{\"a\":{{\"b\":\"{marker}\"}}}}"}}"#)),
        (format!("{value}{value}"), format!("{marker}{marker}")),
    ] {
        let (out, _) = replaced(&finder, text.as_bytes(), false);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expect);
    }
    for before in ["", "x", "xy", "xyz"] {
        let whole = [before, value, " behind"].concat();
        for text in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
            let (out, _) = replaced(&finder, text.as_bytes(), false);
            assert!(contains(&out, marker.as_bytes()), "{text}");
        }
    }
}

/// A form that begins or ends in the middle of an escape takes the escape with it: what was JSON
/// stays JSON.
#[test]
fn a_form_in_the_middle_of_an_escape_leaves_json() {
    let check = |value: &str, text: &str, is_kept: bool| {
        let finder = finder(&[("db", value.as_bytes())], &[]).expect("finder");
        let (out, found) = replaced(&finder, text.as_bytes(), false);
        let out = String::from_utf8(out).expect("UTF-8");
        assert!(!found.is_none(), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{text} became {out}");
        assert!(!out.contains(value), "{out}");
        assert_eq!(out.contains("[secret:db:"), is_kept, "{text} became {out}");
    };
    check("open sesame 42", r#"{"a":"\u06f70656e20736573616d65203432020"}"#, true);
    check("nopensesame", r#"{"a":"x\nopensesame"}"#, true);
    check("opensesame\\", r#"{"a":"opensesame\"x"}"#, true);
    check("opensesame\"x", r#"{"opensesame":"x","opensesame\"x":1}"#, true);
    check("\":\"opensesame", r#"{"a":"opensesame","b":1}"#, false);
}

/// A model may write any character of a JSON string as `\u….`; the unescaped text counts.
#[test]
fn unnecessary_escapes_hide_nothing() {
    let finder = finder(&[("db", b"opensesame")], &[]).expect("finder");
    let escaped: String = "opensesame".bytes().map(|b| format!("\\u00{b:02x}")).collect();
    let arguments = format!("{{\"path\":\"/x/{escaped}\"}}");
    let twice = serde_json::json!({ "calls": [{ "arguments": arguments }] }).to_string();
    for text in [arguments.clone(), twice, format!("a log line: \"{escaped}\" and more")] {
        let (out, found) = replaced(&finder, text.as_bytes(), false);
        let out = String::from_utf8(out).expect("UTF-8");
        assert!(out.contains("[secret:db:") && !out.contains("\\u006f") && !found.is_none(), "{out}");
    }
}

/// Complete text that ends like the beginning of a secret, as a path may, contains no secret.
#[test]
fn an_end_that_was_not_cut_is_kept() {
    let finder = finder(&[("db", b"opensesame")], &[]).expect("finder");
    for text in ["/srv/open", "\"/srv/open\"", "{\"canonical\":\"/srv/open\"}"] {
        let (out, found) = replaced(&finder, text.as_bytes(), false);
        assert_eq!((out.as_slice(), found.is_none()), (text.as_bytes(), true), "{text}");
    }
}

#[test]
fn an_end_that_was_cut_is_held_back() {
    let finder = finder(&[("db", b"opensesame-123")], &[]).expect("finder");
    let check = |text: &str, expect: &str| {
        let (out, _) = replaced(&finder, text.as_bytes(), true);
        assert_eq!(String::from_utf8_lossy(&out), expect);
        assert_eq!(replaced(&finder, text.as_bytes(), false).0, text.as_bytes());
    };
    check("the word is opensesame", "the word is [secret:db:cut]");
    check("the word is open", "the word is [secret:db:cut]");
    check("the word is ope", "the word is ope");
    check("the word is opens it", "the word is opens it");
    check(
        r#"{"text":"it is opens","truncated":true}"#,
        r#"{"text":"it is [secret:db:cut]","truncated":true}"#,
    );
    let half = STANDARD.encode("xyopensesa");
    let (out, _) = replaced(&finder, half.as_bytes(), true);
    assert!(String::from_utf8_lossy(&out).ends_with("[secret:db:cut]"), "{half}");
}

#[test]
fn a_value_of_several_lines_is_found_by_its_lines() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nshort\n-----END PRIVATE KEY-----";
    let finder = finder(&[("tls", key.as_bytes())], &[]).expect("finder");
    let marker = format!("[secret:tls:{}]", finder.digest(key.as_bytes()));
    let (out, _) = replaced(&finder, b"3: MIIEvQIBADANBgkqhkiG9w0B\n", false);
    assert_eq!(out, format!("3: {marker}\n").as_bytes());
    let (out, _) = replaced(&finder, b"-----BEGIN PRIVATE KEY-----", false);
    assert_eq!(out, b"-----BEGIN PRIVATE KEY-----");
}

#[test]
fn patterns_keep_to_strings_and_out_of_replacements() {
    let finder = finder(&[("db", b"opensesame-123")], &[("pw", r"password=\S+"), ("hex", "[0-9a-f]{8}")])
        .expect("finder");
    let (out, found) = replaced(&finder, br#"{"line":"password=hunter2 ok","n":12345678}"#, false);
    let out = String::from_utf8(out).expect("UTF-8");
    let value: serde_json::Value = serde_json::from_str(&out).expect("still JSON");
    assert!(value["line"].as_str().expect("line").ends_with("] ok") && value["n"] == 12_345_678, "{out}");
    assert!(!out.contains("hunter2") && !found.is_none());
    // The digest of a replacement looks like a match of `hex`.
    let (once, _) = replaced(&finder, b"opensesame-123 and password=[secret:db:00000000]", false);
    assert_eq!(replaced(&finder, &once, false).0, once);
    assert_eq!(
        String::from_utf8_lossy(&once).matches("[secret:hex").count(),
        0,
        "{}",
        String::from_utf8_lossy(&once)
    );
}

#[test]
fn a_secret_that_cannot_be_searched_for_is_refused_by_name() {
    let check = |named: &[(&str, &[u8])], patterns: &[(&str, &str)], expect: &str| {
        let error = finder(named, patterns).expect_err(expect);
        assert!(error.contains(expect), "{error:?} does not contain {expect:?}");
    };
    check(&[("short", b"seven77")], &[], "`short`: the value is shorter than 8 bytes");
    check(&[("long", &[b'x'; 9_000])], &[], "`long`: the value is longer than 8192 bytes");
    check(&[("a b", b"12345678")], &[], "`a b`: invalid name");
    check(&[("", b"12345678")], &[], "invalid name");
    check(&[("x", b"[secret:")], &[], "`x`: the value is part of a replacement");
    check(&[("production", b"production")], &[], "`production`: the value is part of a replacement");
    check(&[], &[("any", "x*")], "`any`: the pattern matches the empty text");
    check(&[], &[("edge", r"\b")], "`edge`: the pattern matches the empty text");
    check(&[], &[("bad", "(")], "`bad`: regex parse error");
    check(&[], &[("big", r"\w{500}{50}")], "`big`: the pattern is too big");
    check(&[], &[("wide", &"x".repeat(2_000))], "`wide`: the pattern is longer than 1024 bytes");
}

#[test]
fn a_reload_counts_for_every_clone() {
    let secrets = Secrets::default();
    let other = secrets.clone();
    assert_eq!(*other.clean("opensesame-123".to_owned()), "opensesame-123");
    secrets.exchange(finder(&[("db", b"opensesame-123")], &[]).expect("finder"));
    let clean = other.clean("opensesame-123".to_owned());
    assert!(clean.starts_with("[secret:db:"));
    let mut payload = serde_json::Map::new();
    clean.found().put(&mut payload);
    assert_eq!(serde_json::Value::Object(payload), serde_json::json!({ "secrets": { "db": 1 } }));
}

#[derive(Debug, PartialEq)]
struct Two(String, Vec<u8>);

impl Parted for Two {
    type Parts = (String, Vec<u8>);

    fn apart(self) -> (Self::Parts, fn(Self::Parts) -> Self) {
        ((self.0, self.1), |(text, bytes)| Self(text, bytes))
    }
}

/// Values as people, generators and random devices make them.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~]{8,40}".prop_map(String::into_bytes),
        "[A-Za-z0-9/+=_-]{8,64}".prop_map(String::into_bytes),
        "[ab\"\\\\/]{8,12}".prop_map(String::into_bytes),
        "\\PC{8,20}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 8..40),
    ]
}

proptest! {
    #![proptest_config(crate::types::laws::cases(256))]

    /// Whatever surrounds it, and however often: no form of the value remains, and a second pass
    /// changes nothing.
    #[test]
    fn no_form_of_a_secret_stays(
        values in prop::collection::vec(value(), 1..4),
        parts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,12}"), 0..6),
        is_cut: bool,
    ) {
        let names = ["first", "second", "third"];
        let named: Vec<(&str, &[u8])> = names.iter().copied().zip(values.iter().map(Vec::as_slice)).collect();
        // A value that is part of a replacement is refused, see above.
        let Ok(finder) = finder(&named, &[("digits", "[0-9]{12}")]) else { return Ok(()) };
        let mut text = Vec::new();
        for (which, form, between) in &parts {
            let all: Vec<Vec<u8>> = forms(which.get(values.as_slice()).as_slice()).into_iter().collect();
            text.extend(form.get(&all));
            text.extend(between.bytes());
        }
        let (out, _) = replaced(&finder, &text, is_cut);
        for value in &values {
            for form in forms(value) {
                prop_assert!(!contains(&out, &form), "{:?} in {:?}", form, out);
            }
        }
        prop_assert_eq!(replaced(&finder, &out, is_cut).0, out);
    }

    /// A value in pieces is replaced if the pieces are joined before they are output.
    #[test]
    fn the_place_of_a_secret_in_json_does_not_matter(value in "\\PC{8,24}", keys in prop::collection::vec("[a-z]{1,6}", 1..4)) {
        let Ok(finder) = finder(&[("db", value.as_bytes())], &[]) else { return Ok(()) };
        let mut tree = serde_json::json!(value);
        for key in keys {
            tree = serde_json::json!({ key: [tree, 1, "x"], value.clone(): value });
        }
        let (out, _) = replaced(&finder, tree.to_string().as_bytes(), false);
        let back: serde_json::Value = serde_json::from_slice(&out).expect("still JSON");
        prop_assert!(!back.to_string().contains(&value) && !contains(&out, value.as_bytes()));
    }

    /// The end of truncated text never shows four bytes of a secret's beginning, nor does a string
    /// in valid JSON. (Truncated text that is valid JSON by chance was truncated in its strings.)
    #[test]
    fn a_split_secret_shows_no_beginning(value in "[!-~]{8,40}", before in "\\PC{0,20}", at in 4_usize..40) {
        let Ok(finder) = finder(&[("db", value.as_bytes())], &[]) else { return Ok(()) };
        let shown = value.get(..at.min(value.len() - 1)).expect("ASCII");
        let text = format!("{before}{shown}");
        prop_assume!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err());
        let shows = |out: &[u8]| contains(out, shown.as_bytes()) && !contains(before.as_bytes(), shown.as_bytes());
        let (out, _) = replaced(&finder, text.as_bytes(), true);
        prop_assert!(out.ends_with(b":cut]") && !shows(&out), "{:?}", out);
        // A value that ends in a quote may be followed by JSON's own quote: then all is withheld.
        let json = serde_json::json!({ "text": text, "truncated": true }).to_string();
        let (out, _) = replaced(&finder, json.as_bytes(), true);
        let is_told = contains(&out, b"[secret:db:") || out == b"\"[secrets: withheld]\"";
        prop_assert!(is_told && !shows(&out), "{:?}", out);
        prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&out).is_ok(), "{:?}", out);
    }

    /// Text without secrets is unchanged, byte for byte.
    #[test]
    fn text_without_secrets_is_unchanged(value in "[!-~]{12,40}", text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let Ok(finder) = finder(&[("db", value.as_bytes())], &[]) else { return Ok(()) };
        prop_assume!(!forms(value.as_bytes()).iter().any(|form| contains(text.as_bytes(), form) || contains(&bytes, form)));
        let secrets = Secrets::new(finder);
        let clean = secrets.clean(Two(text.clone(), bytes.clone()));
        prop_assert!(clean.found().is_none());
        prop_assert_eq!(clean.into_inner(), Two(text, bytes));
    }
}
