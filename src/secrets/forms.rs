//! The forms in which well-behaved programs write a value.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Each form of `value`, once: unchanged; in JSON strings, also doubly escaped; hexadecimal; base64
/// (RFC 4648 sections 4 and 5) at each of three offsets within other bytes; percent-encoded (RFC
/// 3986 section 2.1).
pub(super) fn forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.to_vec()]);
    if let Ok(text) = std::str::from_utf8(value) {
        forms.extend(JSON.iter().map(|style| json(text, *style).into_bytes()));
        forms.extend(JSON.iter().map(|style| json(&json(text, *style), *style).into_bytes()));
    }
    forms.extend([hex(value, false), hex(value, true)].map(String::into_bytes));
    for skip in 0..3 {
        forms.insert(base64(value, skip, |bytes| STANDARD_NO_PAD.encode(bytes)));
        forms.insert(base64(value, skip, |bytes| URL_SAFE_NO_PAD.encode(bytes)));
    }
    for kept in [UNRESERVED, COMPONENT, ADDRESS] {
        for upper in [true, false] {
            forms.insert(percent(value, kept, upper, false));
            forms.insert(percent(value, kept, upper, true));
        }
    }
    forms.extend([true, false].map(|upper| percent(value, |_| false, upper, false)));
    forms
}

/// What a JSON writer escapes beyond the minimum.
#[derive(Clone, Copy)]
struct Json {
    /// `\/`
    slash: bool,
    /// `\u003c` for `<`, `>` and `&`.
    markup: bool,
    /// Everything beyond ASCII.
    ascii: bool,
    /// Upper-case digits after `\u`, and short forms only for characters that must be escaped.
    upper: bool,
}

const PLAIN: Json = Json { slash: false, markup: false, ascii: false, upper: false };
const JSON: [Json; 6] = [
    PLAIN,
    Json { slash: true, ..PLAIN },
    Json { markup: true, ..PLAIN },
    Json { ascii: true, ..PLAIN },
    Json { ascii: true, slash: true, ..PLAIN },
    Json { ascii: true, markup: true, upper: true, ..PLAIN },
];

fn json(text: &str, style: Json) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let short = match c {
            '"' | '\\' => Some(c),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '/' if style.slash => Some('/'),
            _ => None,
        };
        let is_long = c < ' ' || (style.markup && "<>&".contains(c)) || (style.ascii && !c.is_ascii());
        match short {
            Some(short) => out.extend(['\\', short]),
            None if is_long => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let written =
                        if style.upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
                    // Writing to a string cannot fail.
                    let _done: std::fmt::Result = written;
                }
            }
            None => out.push(c),
        }
    }
    out
}

fn hex(value: &[u8], upper: bool) -> String {
    let digit = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
    value.iter().map(digit).collect()
}

/// The base64 characters that depend on `value` alone, if `skip` other bytes precede it in its
/// first group of three.
fn base64(value: &[u8], skip: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let whole = encode(&[&vec![0; skip], value].concat()).into_bytes();
    // The preceding 8·skip bits determine the first characters; a last character counts only if all
    // its six bits come from `value`.
    let from = (8 * skip).div_ceil(6);
    let to = 8 * (skip + value.len()) / 6;
    whole.get(from..to).unwrap_or_default().to_vec()
}

const UNRESERVED: fn(u8) -> bool = |b| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
/// The characters that browsers leave unescaped in a URL component, and in a whole URL
/// (`encodeURIComponent`, `encodeURI`).
const COMPONENT: fn(u8) -> bool = |b| UNRESERVED(b) || b"!'()*".contains(&b);
const ADDRESS: fn(u8) -> bool = |b| COMPONENT(b) || b";/?:@&=+$,#".contains(&b);

fn percent(value: &[u8], is_kept: fn(u8) -> bool, upper: bool, is_form: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b' ' if is_form => out.push(b'+'),
            kept if is_kept(*kept) => out.push(*kept),
            other if upper => out.extend(format!("%{other:02X}").bytes()),
            other => out.extend(format!("%{other:02x}").bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::forms;

    #[test]
    fn forms_are_those_of_other_programs() {
        let value = "p\"ä/<s>\\ 7+k";
        let all: Vec<String> = forms(value.as_bytes())
            .into_iter()
            .map(|form| String::from_utf8_lossy(&form).into_owned())
            .collect();
        for expect in [
            value,
            r#"p\"ä/<s>\\ 7+k"#,
            r#"p\"ä\/<s>\\ 7+k"#,
            r#"p\"\u00e4/<s>\\ 7+k"#,
            r#"p\"ä/\u003cs\u003e\\ 7+k"#,
            r#"p\\\"ä/<s>\\\\ 7+k"#,
            "7022c3a42f3c733e5c20372b6b",
            "7022C3A42F3C733E5C20372B6B",
            "cCLDpC88cz5cIDcra",
            "p%22%C3%A4%2F%3Cs%3E%5C%207%2Bk",
            "p%22%c3%a4%2f%3cs%3e%5c+7%2bk",
            "p%22%C3%A4/%3Cs%3E%5C%207+k",
        ] {
            assert!(all.iter().any(|form| form == expect), "{expect} is not among {all:#?}");
        }
    }
}
