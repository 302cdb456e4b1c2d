//! Command lines, without what looks like a secret.
//!
//! This is a courtesy and not a wall: a secret in a plain argument looks like any other word. The
//! wall is the rule that decides who may ask for arguments.

use crate::tools::builtin::secret_names::{LEFT_OUT, is_secret_name, without_credentials};
use crate::types::text;
use serde_json::{Value, json};

/// Arguments that are returned.
const ARGUMENTS_MAX: usize = 100;
/// Bytes of one argument that are returned.
const ARGUMENT_BYTES_MAX: usize = 512;

/// The arguments in `cmdline`, in which each ends with a NUL, and whether some were cut.
pub(in crate::tools::builtin) fn arguments(cmdline: &[u8]) -> (Vec<Value>, bool) {
    let text = String::from_utf8_lossy(cmdline);
    let mut out = Vec::new();
    let mut is_value_of_secret = false;
    let mut truncated = false;
    for word in text.trim_end_matches('\0').split('\0').filter(|_| !cmdline.is_empty()) {
        if out.len() == ARGUMENTS_MAX {
            truncated = true;
            break;
        }
        // A title that a process gave itself is one argument of several words.
        let pieces: Vec<String> = word
            .split(' ')
            .map(|piece| {
                let (shown, next) = cleaned(piece, is_value_of_secret);
                is_value_of_secret = next;
                shown
            })
            .collect();
        let whole = pieces.join(" ");
        let shown = text::prefix(&whole, ARGUMENT_BYTES_MAX);
        truncated |= shown.len() < whole.len();
        out.push(json!(shown));
    }
    (out, truncated)
}

/// One word, and whether the next one is the value of a secret.
fn cleaned(word: &str, is_value_of_secret: bool) -> (String, bool) {
    if is_value_of_secret && !word.starts_with('-') {
        // `Authorization: Bearer …` has one more.
        return (LEFT_OUT.to_owned(), matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic"));
    }
    if let Some((name, value)) = word.split_once(['=', ':']).filter(|(name, _)| is_secret_name(name)) {
        let mark = word.get(name.len()..=name.len()).unwrap_or_default();
        let is_open = value.trim_matches(['"', '\'']).is_empty();
        return (if is_open { word.to_owned() } else { format!("{name}{mark}{LEFT_OUT}") }, is_open);
    }
    if let Some(value) = word.strip_prefix("-p").filter(|value| is_joined_password(value)) {
        return (word.replace(value, LEFT_OUT), false);
    }
    (without_credentials(word), word.starts_with('-') && is_secret_name(word))
}

/// `-psecret` of some database clients; not `-p8080`, and not a longer option such as `-print`.
fn is_joined_password(value: &str) -> bool {
    !value.is_empty() && !value.bytes().all(|b| b.is_ascii_digit() || b == b':') && !is_plain_option(value)
}

/// Options of common programs that begin with `-p`.
fn is_plain_option(value: &str) -> bool {
    matches!(value, "rint" | "rune" | "erm" | "ath" | "ort" | "id" | "idfile" | "arent" | "reserve" | "refix")
}

#[cfg(test)]
mod tests {
    use super::arguments;
    use serde_json::{Value, json};

    fn shown(words: &[&str]) -> Vec<Value> {
        let line: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        arguments(&line).0
    }

    #[test]
    fn what_looks_like_a_secret_is_left_out() {
        let out = "[left out]";
        for (given, expect) in [
            (vec!["app", "--password=S3CRET", "-v"], vec!["app", "--password=[left out]", "-v"]),
            (vec!["app", "--api-key", "S3CRET", "-v"], vec!["app", "--api-key", out, "-v"]),
            (vec!["mysql", "-pS3CRET", "-P", "3306"], vec!["mysql", "-p[left out]", "-P", "3306"]),
            (
                vec!["ssh", "-p22", "-p", "22", "find", "-print"],
                vec!["ssh", "-p22", "-p", "22", "find", "-print"],
            ),
            (vec!["x", "postgres://me:S3CRET@db/x"], vec!["x", "postgres://[left out]@db/x"]),
            (vec!["env", "DB_PASSWORD=S3CRET", "run"], vec!["env", "DB_PASSWORD=[left out]", "run"]),
            (
                vec!["curl", "-H", "Authorization: Bearer S3CRET"],
                vec!["curl", "-H", "Authorization: [left out] [left out]"],
            ),
            (vec!["title of --token S3CRET here"], vec!["title of --token [left out] here"]),
            (vec!["nginx: worker process", "/etc/x.conf"], vec!["nginx: worker process", "/etc/x.conf"]),
        ] {
            assert_eq!(json!(shown(&given)), json!(expect));
        }
    }

    #[test]
    fn long_and_strange_command_lines_are_bounded() {
        assert_eq!(arguments(b""), (Vec::new(), false));
        assert_eq!(arguments(b"a\0\0b").0, [json!("a"), json!(""), json!("b")]);
        assert!(arguments(b"\xff\x1b[2J\0").0[0].is_string());
        let (many, truncated) = arguments(&b"x\0".repeat(5_000));
        assert_eq!((many.len(), truncated), (100, true));
        let (long, truncated) = arguments(&[b'y'; 60_000]);
        assert_eq!((long[0].as_str().map(str::len), truncated), (Some(512), true));
    }
}
