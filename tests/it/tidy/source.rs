//! The product's source as the other tests read it: without comments, without the content of
//! strings, without tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One file below `src/`.
pub(super) struct File {
    /// Relative to `src/`, such as `ledger/write/open.rs`.
    pub(super) path: PathBuf,
    /// The unchanged text.
    pub(super) text: String,
    /// Without comments, the content of strings, and items under `#[cfg(test)]`; with the same
    /// lines.
    pub(super) code: String,
    /// The number of lines of such items.
    pub(super) test_lines: usize,
}

impl File {
    /// The room: the folder below `src/`. `None` for `lib.rs` and `main.rs`, which are above all
    /// rooms.
    pub(super) fn room(&self) -> Option<&str> {
        let mut parts = self.path.components();
        let first = parts.next()?.as_os_str().to_str()?;
        parts.next().map(|_| first)
    }

    /// The module below the crate, such as `["ledger", "write", "open"]`.
    pub(super) fn module(&self) -> Vec<String> {
        let plain = self.path.with_extension("");
        let mut parts: Vec<String> =
            plain.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        parts
    }

    /// Whether it is compiled for tests only, or for tests and fuzzers: `borders` holds laws and
    /// reaches into every room.
    pub(super) fn is_test(&self) -> bool {
        self.module().iter().any(|part| ["tests", "fixture", "borders"].contains(&part.as_str()))
    }
}

/// Every source file of the product.
pub(super) fn files() -> Vec<File> {
    let top = top().join("src");
    let mut found = Vec::new();
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).expect("folder") {
            let path = item.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                let (code, test_lines) = without_tests(&without_words(&text));
                let path = path.strip_prefix(&top).expect("below").to_owned();
                found.push(File { path, text, code, test_lines });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// The repository.
pub(crate) fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What surrounds one place of a text.
enum Within {
    Code,
    Line,
    Block(usize),
    Text,
    Raw(usize),
}

/// `text` with blanks in place of comments and the content of strings and characters. Keeps the
/// lines.
pub(super) fn without_words(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut within = Within::Code;
    let mut at = 0;
    while let Some(&one) = chars.get(at) {
        let starts = |words: &str| words.chars().enumerate().all(|(by, c)| chars.get(at + by) == Some(&c));
        let (next, step, keep) = match within {
            Within::Code if starts("//") => (Within::Line, 2, false),
            Within::Code if starts("/*") => (Within::Block(1), 2, false),
            Within::Code if one == '"' => (Within::Text, 1, true),
            Within::Code if one == 'r' && !is_word(at.checked_sub(1).and_then(|at| chars.get(at))) => {
                match raw_hashes(&chars[at + 1..]) {
                    Some(hashes) => (Within::Raw(hashes), hashes + 2, false),
                    None => (Within::Code, 1, true),
                }
            }
            Within::Code if one == '\'' => match character(&chars[at..]) {
                Some(length) => (Within::Code, length, false),
                None => (Within::Code, 1, true),
            },
            Within::Code => (Within::Code, 1, true),
            Within::Line if one == '\n' => (Within::Code, 1, true),
            Within::Block(1) if starts("*/") => (Within::Code, 2, false),
            Within::Block(depth) if starts("*/") => (Within::Block(depth - 1), 2, false),
            Within::Block(depth) if starts("/*") => (Within::Block(depth + 1), 2, false),
            Within::Text if one == '\\' => (Within::Text, 2, false),
            Within::Text if one == '"' => (Within::Code, 1, true),
            Within::Raw(hashes) if one == '"' && starts(&format!("\"{}", "#".repeat(hashes))) => {
                (Within::Code, hashes + 1, false)
            }
            same => (same, 1, false),
        };
        within = next;
        for passed in chars.iter().skip(at).take(step) {
            code.push(if keep || *passed == '\n' { *passed } else { ' ' });
        }
        at += step;
    }
    code
}

fn is_word(one: Option<&char>) -> bool {
    one.is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_')
}

/// The number of `#` of a raw string that begins after its `r`.
fn raw_hashes(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|c| **c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(hashes)
}

/// The length of the character literal that begins here; `None` for a lifetime.
fn character(rest: &[char]) -> Option<usize> {
    match (rest.get(1), rest.get(2)) {
        (Some('\\'), _) => rest.iter().skip(3).position(|c| *c == '\'').map(|more| more + 4),
        (Some(_), Some('\'')) => Some(3),
        _ => None,
    }
}

/// `code` with blanks in place of each item under `#[cfg(test)]`, and of nothing else; and the
/// number of their lines. Keeps the lines.
fn without_tests(code: &str) -> (String, usize) {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let (mut rest, mut lines) = (code, 0);
    while let Some(at) = rest.find(MARK) {
        kept.push_str(&rest[..at]);
        let item = &rest[at..];
        let length = MARK.len() + item_length(&item[MARK.len()..]);
        kept.extend(item[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        lines += item[..length].lines().count();
        rest = &item[length..];
    }
    kept.push_str(rest);
    (kept, lines)
}

/// The bytes up to the end of the item that begins here: its `;`, or the end of its first block in
/// braces.
fn item_length(item: &str) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, c) in item.char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                // The end of a block, or of the block whose last item this is.
                if braces == 0 && others == 0 {
                    return at + 1;
                }
            }
            ';' | ',' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

/// Paths in `code` that begin with `crate`, `super` or `self`, one for each leaf of a `use` with
/// braces.
pub(super) fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    // A visibility, such as `pub(in crate::ledger)`, says who may name an item, and names nothing
    // itself.
    let code = code.replace("(in crate::", "(in ");
    let mut rest = code.as_str();
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let word: String = rest.chars().take_while(|c| is_word(Some(c))).collect();
        if word.is_empty() {
            before = Some(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let is_first = before != Some(':');
        if is_first
            && ["crate", "super", "self"].contains(&word.as_str())
            && rest[word.len()..].starts_with("::")
        {
            let used = leaves(rest, &[], &mut found);
            rest = &rest[used..];
            before = None;
        } else {
            rest = &rest[word.len()..];
            before = word.chars().last();
        }
    }
    found
}

/// Reads one path, including what it has in braces; returns its length in bytes.
pub(super) fn leaves(text: &str, head: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = head.to_vec();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blanks = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let word: String = rest.chars().take_while(|c| is_word(Some(c)) || *c == '*').collect();
        at += blanks + word.len();
        if word.is_empty() && rest.starts_with('{') {
            at += 1;
            loop {
                at += leaves(&text[at..], &path, found);
                let rest = text[at..].trim_start();
                at = text.len() - rest.len();
                match rest.chars().next() {
                    Some('}') => return at + 1,
                    None => return at,
                    Some(other) => at += other.len_utf8(),
                }
            }
        }
        if !word.is_empty() {
            path.push(word);
        }
        if text[at..].starts_with("::") {
            at += 2;
            continue;
        }
        // `name as other`.
        let rest = text[at..].trim_start();
        if path.len() > head.len() {
            found.push(path);
        }
        if rest.starts_with("as ") && !head.is_empty() {
            let to = text[at..].find([',', '}', ';']).unwrap_or(0);
            at += to;
        }
        return at;
    }
}

/// The order in which each module's file declares its children, lowest first.
pub(super) fn declared(files: &[File]) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut all = BTreeMap::new();
    for file in files {
        let mut children = Vec::new();
        for line in file.code.lines() {
            let line = line.trim();
            let words = line.split_whitespace().collect::<Vec<_>>();
            if let Some(at) = words.iter().position(|word| *word == "mod")
                && let Some(name) = words.get(at + 1).and_then(|name| name.strip_suffix(';'))
                && words[..at]
                    .iter()
                    .all(|word| word.starts_with("pub") || *word == "in" || word.starts_with("crate"))
            {
                children.push(name.to_owned());
            }
        }
        if !children.is_empty() {
            all.insert(file.module(), children);
        }
    }
    all
}

/// The path of a file below `src/`, for display.
pub(super) fn shown(path: &Path) -> String {
    format!("src/{}", path.display())
}
