//! Links within this server, safe for any value.

use std::fmt::Write as _;

/// Builds a link within this server. `path` is a constant of ours; the values may come from
/// outside.
pub(super) fn link(path: &str, query: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (at, (name, value)) in query.iter().enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        encode(&mut out, value);
    }
    out
}

/// Encodes like a form (WHATWG URL, 5.2), except for some more characters that a query may contain
/// (RFC 3986). None of those ends a quote in HTML or in a shell.
fn encode(out: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:*/".contains(&byte) {
            out.push(char::from(byte));
        } else if byte == b' ' {
            out.push('+');
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::link;

    #[test]
    fn links_hold_any_value() {
        assert_eq!(
            link("/ui/audit", &[("q", "tool:a'\"<&b c"), ("n", "1")]),
            "/ui/audit?q=tool:a%27%22%3C%26b+c&n=1"
        );
    }
}
