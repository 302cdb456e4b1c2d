//! Widths of text on a terminal, and text cut or wrapped to fit. Pure.

/// A path that is cut to fewer columns cannot be recognised any more.
const PATH_MIN: usize = 7;

/// The number of columns that `text` takes. Control characters must have been made visible.
pub(in crate::cli) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// The columns of one character: none for a combining mark, two for a wide one (Unicode UAX #11).
fn columns(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x0483..=0x0489 | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
        0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1f64f | 0x1f900..=0x1f9ff => 2,
        0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The longest beginning of `text` that takes at most `max` columns.
fn head(text: &str, max: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += columns(*c);
        used > max
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// The longest end of `text` that takes at most `max` columns.
fn tail(text: &str, max: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        used += columns(*c);
        used > max
    });
    start.and_then(|(at, c)| text.get(at + c.len_utf8()..)).unwrap_or(text)
}

/// Cuts `text` to at most `max` columns, with `…`: a path in it loses its middle, and text without
/// one loses its end. The end of a path, which is the name, keeps two thirds.
pub(super) fn cut(text: &str, max: usize) -> String {
    let all = width(text);
    if all <= max {
        return text.to_owned();
    }
    let longest = text.split(' ').filter(|word| word.contains('/')).max_by_key(|word| width(word));
    let (word, room) = match longest {
        Some(word) => (word, (max + width(word)).saturating_sub(all)),
        None => (text, 0),
    };
    if room < PATH_MIN {
        return format!("{}…", head(text, max.saturating_sub(1)));
    }
    let front = head(word, (room - 1) / 3);
    let cut = format!("{front}…{}", tail(word, room - 1 - width(front)));
    text.replacen(word, &cut, 1)
}

/// Breaks each line of `text` into lines of at most `max` columns, between words where possible.
/// Spaces at the beginning of a line stay.
pub(in crate::cli) fn wrap(text: &str, max: usize) -> Vec<String> {
    text.split('\n').flat_map(|line| wrap_line(line, max.max(1))).collect()
}

/// Breaks a line into pieces of at most `max` columns. Every character stays.
pub(in crate::cli) fn fold(text: &str, max: usize) -> Vec<String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while width(rest) > max.max(2) {
        let piece = head(rest, max.max(2));
        pieces.push(piece.to_owned());
        rest = rest.get(piece.len()..).unwrap_or_default();
    }
    pieces.push(rest.to_owned());
    pieces
}

fn wrap_line(text: &str, max: usize) -> Vec<String> {
    let words = text.trim_start_matches(' ');
    let mut line = " ".repeat((text.len() - words.len()).min(max / 2));
    let mut lines = Vec::new();
    for (at, word) in words.split(' ').enumerate() {
        if at > 0 && width(&line) + 1 + width(word) > max {
            lines.push(std::mem::take(&mut line));
        } else if at > 0 {
            line.push(' ');
        }
        line.push_str(word);
        while width(&line) > max {
            let piece = match head(&line, max) {
                "" => line.chars().take(1).collect(),
                piece => piece.to_owned(),
            };
            line.drain(..piece.len());
            lines.push(piece);
        }
    }
    if lines.is_empty() || !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{cut, fold, width, wrap};

    #[test]
    fn text_is_cut_to_the_columns_that_it_takes() {
        for (text, max, expect) in [
            ("short", 9, "short"),
            ("/var/log/nginx/access.log", 16, "/var/…access.log"),
            ("read_file /var/log/nginx/access.log", 24, "read_file /var…ccess.log"),
            ("read_file /etc/shadow", 12, "read_file /…"),
            ("a question of many words", 12, "a question …"),
            ("日本語日本語", 7, "日本語…"),
            ("abc", 1, "…"),
            ("abc", 0, "…"),
        ] {
            let cut = cut(text, max);
            assert_eq!(cut, expect);
            assert!(width(&cut) <= max.max(1), "{text}");
        }
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn a_folded_line_keeps_every_character() {
        for (text, max, pieces) in [
            ("", 4, vec![""]),
            ("a  b  c", 3, vec!["a  ", "b  ", "c"]),
            ("日本語", 3, vec!["日", "本", "語"]),
            ("日本", 1, vec!["日", "本"]),
        ] {
            assert_eq!(fold(text, max), pieces, "{text}");
        }
    }

    #[test]
    fn words_are_wrapped_and_longer_ones_broken() {
        for (text, max, lines) in [
            ("", 5, vec![""]),
            ("one two three", 7, vec!["one two", "three"]),
            ("a /very/long/path b", 6, vec!["a", "/very/", "long/p", "ath b"]),
            ("日本語", 1, vec!["日", "本", "語"]),
            ("one\n    | two three", 10, vec!["one", "    | two", "three"]),
        ] {
            assert_eq!(wrap(text, max), lines, "{text}");
        }
    }
}
