//! The known word that a mistyped one most likely stands for.

/// The one of `known` that `word` is most likely a misspelling of: at most one edit for three
/// characters, or three edits if both begin with the same three characters; and the first of
/// several that are as near.
///
/// An edit inserts, removes or replaces a character, or swaps two neighbours.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = word.chars().count().div_ceil(3);
    let alike = |one: &str| word.chars().zip(one.chars()).take_while(|(a, b)| a == b).count() >= 3;
    known
        .into_iter()
        .map(|one| (edits(word, one), one))
        .filter(|(edits, one)| (1..=most).contains(edits) || ((1..=3).contains(edits) && alike(one)))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, one)| one)
}

/// A message of serde about an unknown word, with the known word that was likely meant: ``unknown
/// variant `reed`, expected one of `read`, `write` `` gets ``: did you mean `read`?``.
#[must_use]
pub fn with_meant(message: &str) -> String {
    let is_unknown = message.starts_with("unknown variant `") || message.starts_with("unknown field `");
    let mut words = message.split('`').skip(1).step_by(2);
    let close = words.next().and_then(|word| nearest(word, words)).filter(|_| is_unknown);
    close.map_or_else(|| message.to_owned(), |close| format!("{message}: did you mean `{close}`?"))
}

/// The number of edits between two words; words of more than 64 bytes are far from any other.
fn edits(from: &str, to: &str) -> usize {
    if from.len().max(to.len()) > 64 {
        return usize::MAX;
    }
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Distances of the prefixes of `to` from the last two prefixes of `from`.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
    for (row, have) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, want) in to.iter().enumerate() {
            let replaced = at(&last, column) + usize::from(have != want);
            let edited = at(&last, column + 1).min(at(&next, column)) + 1;
            let earlier = column.checked_sub(1);
            let is_swap = earlier.is_some_and(|earlier| {
                to.get(earlier) == Some(have)
                    && row.checked_sub(1).and_then(|row| from.get(row)) == Some(want)
            });
            let swapped = if is_swap { at(&before, column - 1) + 1 } else { usize::MAX };
            next.push(replaced.min(edited).min(swapped));
        }
        before = std::mem::replace(&mut last, next);
    }
    at(&last, to.len())
}

#[cfg(test)]
mod tests {
    use super::{nearest, with_meant};

    #[test]
    fn a_misspelling_finds_its_word_and_another_word_finds_none() {
        let known = ["class", "command", "risk", "read"];
        for (word, expect) in [
            ("clas", Some("class")),
            ("calss", Some("class")),
            ("comand", Some("command")),
            ("commands", Some("command")),
            ("raed", Some("read")),
            ("rsik", Some("risk")),
            ("class", None),
            ("colour", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, known), expect, "{word}");
        }
    }

    #[test]
    fn a_message_about_an_unknown_word_names_the_one_that_was_meant() {
        let unknown = "unknown variant `reed`, expected one of `read`, `write`";
        assert_eq!(with_meant(unknown), format!("{unknown}: did you mean `read`?"));
        for as_is in ["unknown variant `q`, expected `read`", "invalid type: `reed`, expected `read`", "`"] {
            assert_eq!(with_meant(as_is), as_is);
        }
    }

    /// Words as people mistype them on a command line (A10, C10).
    #[test]
    fn a_mistyped_query_or_tool_finds_its_word() {
        for (word, expect) in [
            ("denied", Some("deny")),
            ("call.decison", Some("call.decision")),
            ("lst_dir", Some("list_dir")),
            ("raed_file", Some("read_file")),
            ("xyzzy", None),
        ] {
            let known = ["deny", "allow", "call.decision", "list_dir", "read_file", "kind"];
            assert_eq!(nearest(word, known), expect, "{word}");
        }
    }
}
