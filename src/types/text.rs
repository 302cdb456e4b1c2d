//! Makes untrusted text safe to display: escapes, direction marks and NUL become visible.

/// Replaces each character that could move a cursor, or hide or reorder text, by `\u{…}`.
///
/// Newline and tab stay. Covers C0, DEL, C1, the bidirectional controls (Unicode UAX #9),
/// zero-width characters, line separators, letters without a shape (fillers), tags, the
/// supplementary variation selectors and the byte order mark.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Like [`visible`], on one line: newline and tab become visible too.
#[must_use]
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The longest prefix of `text` that is at most `bytes_max` bytes long and ends on a character
/// boundary.
#[must_use]
pub fn prefix(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control(),
    }
}

/// The number of names in a path, that is, of non-empty parts between slashes.
#[must_use]
pub fn names(path: &str) -> usize {
    path.split('/').filter(|name| !name.is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::{prefix, visible, visible_line};

    #[test]
    fn escapes_and_direction_marks_are_shown() {
        for (input, expect) in [
            ("plain, ünïcode\n\tline", "plain, ünïcode\n\tline"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("nul\0cr\r", "nul\\u{0}cr\\u{d}"),
            ("a\u{3164}b\u{e0100}", "a\\u{3164}b\\u{e0100}"),
        ] {
            assert_eq!(visible(input), expect);
        }
        assert_eq!(visible_line("a\nb"), "a\\nb");
    }

    #[test]
    fn prefix_ends_on_a_character() {
        assert_eq!(prefix("aé", 2), "a");
        assert_eq!(prefix("aé", 3), "aé");
        assert_eq!(prefix("aé", 9), "aé");
    }
}
