//! Ten phrases that read like a translation, and lines that are too long: refused in comments,
//! messages, help and documents.

use super::source::{top, without_words};
use regex::Regex;
use std::path::{Path, PathBuf};

/// Each phrase with what to write instead. In the order of how often the tree had them.
const PHRASES: [(&str, &str); 10] = [
    (r"(?i)\b(nobody|somebody)\b", "no caller, a person, the code that …"),
    (r"(?P<bad>\b\w+ (is|are) no [a-z]+)", "is not a …"),
    (r"(?i)\black(s|ing)?\b", "missing, without"),
    (r"(?i)\banew\b", "again"),
    (
        r"(?i)\bbehind (a|an|the|each|every|another|its) (start|stop|crash|restart|kill|call|entry|entries|run|question|seal|reply|decision|checkpoint|commit|answer|event|last|first)\b",
        "after",
    ),
    (r"\b(is|are) none\b", "is not a valid …"),
    (r"(^|[.:;!?] )Of [a-z]", "a sentence with a subject and a verb"),
    (r"(?i)\b(by|for|to|of) who\b", "a noun: the caller, the holder of a key"),
    (r"(?i)\b(likewise|once more|beside)\b", "a full sentence; again; next to"),
    (r"(?i)\bmet by\b", "matches"),
];

/// Characters of a line of a comment or a document. Code has its own width, by rustfmt.
const COLUMNS_MAX: usize = 100;

/// Files that the rules are not for, each with the reason.
const LEFT_OUT: [(&str, &str); 2] =
    [("tests/it/tidy/english.rs", "it names the phrases"), ("LICENSE", "it is not ours to word")];

/// Endings of files that are read. Goldens are what a program printed, so they are checked at their source.
const READ: [&str; 14] =
    ["rs", "md", "toml", "cedar", "sh", "py", "pl", "js", "css", "sql", "service", "socket", "yml", "conf"];

/// A line of words: where it is, and what it says without quoted code.
struct Line {
    at: String,
    words: String,
    /// As it is in the file, for its length; empty for a message, whose line is code.
    whole: String,
}

#[test]
fn the_phrases_of_a_translation_are_gone() {
    let lines = lines();
    assert!(lines.len() > 10_000, "only {} lines of words were found", lines.len());
    let mut found = Vec::new();
    for (phrase, instead) in PHRASES {
        let pattern = Regex::new(phrase).expect("pattern");
        let has_bad = pattern.capture_names().flatten().any(|name| name == "bad");
        let is_bad = |words: &str| match has_bad {
            true => pattern.captures_iter(words).any(|found| {
                // "there is no entry 7" and "is no longer there" are plain English.
                let bad = found.name("bad").map_or("", |bad| bad.as_str()).to_lowercase();
                !bad.starts_with("there ") && !bad.ends_with(" longer") && !bad.ends_with(" more")
            }),
            false => pattern.is_match(words),
        };
        let with: Vec<&Line> = lines.iter().filter(|line| is_bad(&line.words)).collect();
        println!("{:>5}  {phrase}", with.len());
        found.extend(with.iter().map(|line| format!("{}: {} ({instead})", line.at, line.words.trim())));
    }
    assert!(found.is_empty(), "{} phrases:\n{}", found.len(), found.join("\n"));
}

#[test]
fn comments_and_documents_are_at_most_100_columns() {
    let lines = lines();
    let is_long = |line: &&Line| line.whole.chars().count() > COLUMNS_MAX;
    let long: Vec<&str> = lines.iter().filter(is_long).map(|line| line.at.as_str()).collect();
    assert!(long.is_empty(), "{} lines over {COLUMNS_MAX} columns:\n{}", long.len(), long.join("\n"));
}

/// Every line of words in the tree.
fn lines() -> Vec<Line> {
    let mut found = Vec::new();
    let mut folders = vec![top()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).expect("folder") {
            let path = item.expect("entry").path();
            let name = path.file_name().expect("name").to_string_lossy().into_owned();
            if path.is_dir() {
                let is_data = ["target", ".git", "golden", "corpus", "proptest-regressions"];
                if !is_data.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if is_read(&path) {
                read(&path, &mut found);
            }
        }
    }
    found
}

fn is_read(path: &Path) -> bool {
    let below = below(path);
    !LEFT_OUT.iter().any(|(file, _)| Path::new(file) == below)
        && path.extension().is_some_and(|ending| READ.iter().any(|read| *read == ending))
}

fn below(path: &Path) -> PathBuf {
    path.strip_prefix(top()).expect("below").to_owned()
}

fn read(path: &Path, found: &mut Vec<Line>) {
    let text = std::fs::read_to_string(path).expect("text");
    let file = below(path);
    let at = |number: usize| format!("{}:{}", file.display(), number + 1);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ending == "rs" {
        let code = without_words(&text);
        let is_test =
            file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches");
        let starts = code.find("#[cfg(test)]").map_or(usize::MAX, |at| code[..at].lines().count());
        for (number, (line, kept)) in text.lines().zip(code.lines()).enumerate() {
            let words: String = line
                .chars()
                .zip(kept.chars())
                .map(|(c, kept)| if c == kept && c != ' ' { ' ' } else { c })
                .collect();
            let is_comment = words.trim_start().starts_with("//");
            // What a test's strings say is often what a stranger sent.
            if is_comment || !(is_test || number >= starts) {
                // A table's row cannot be broken, and a text that is several lines of Cedar is not a comment.
                let is_wrapped = is_comment && !words.contains('|') && !words.contains("\\n");
                let whole = if is_wrapped { line.to_owned() } else { String::new() };
                let words = match is_comment {
                    true => words.trim_start().trim_start_matches(['/', '!']).trim_start().to_owned(),
                    false => sentences(&words),
                };
                found.push(Line { at: at(number), words: without_quoted(&words), whole });
            }
        }
        return;
    }
    let mark = match ending {
        "md" => None,
        "cedar" | "js" => Some("//"),
        "css" => Some("/*"),
        "sql" => Some("--"),
        _ => Some("#"),
    };
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if mark.is_none() && start.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let (words, has_width) = match mark {
            // A table's row cannot be broken, and neither can a link or what a program printed.
            None => {
                (start.trim_start_matches(['*', '-', '>', '#', ' ']), !is_fenced && !start.starts_with('|'))
            }
            Some(mark) if start.starts_with(mark) => (start.trim_start_matches(mark).trim_start(), true),
            // Of a manifest the model reads what is said, too.
            Some(_) if ending == "toml" && is_said(start) => (start, false),
            Some(_) => continue,
        };
        let is_breakable = words.split_whitespace().count() > 1;
        let whole = if has_width && is_breakable { line.to_owned() } else { String::new() };
        found.push(Line { at: at(number), words: without_quoted(words), whole });
    }
}

/// The strings of a line of code that have more than one word: others are names.
fn sentences(strings: &str) -> String {
    strings.split("  ").filter(|string| string.trim().contains(' ')).collect::<Vec<_>>().join("  ")
}

fn is_said(line: &str) -> bool {
    ["summary", "description", "name ="].iter().any(|key| line.starts_with(key))
}

/// Without what is between backticks: names of code, and of the system.
fn without_quoted(words: &str) -> String {
    words.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[test]
fn quoted_code_is_no_prose() {
    assert_eq!(without_quoted("the user `nobody` reads"), "the user ` reads");
    assert_eq!(without_quoted("plain"), "plain");
}
