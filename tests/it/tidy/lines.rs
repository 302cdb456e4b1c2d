//! No file of source or tests is too long to read in one go, and the whole file counts, including
//! comments and tests.

use super::source::top;
use std::collections::BTreeMap;
use std::path::Path;

/// Lines of a file.
const LINES_MAX: usize = 500;
/// Extensions of files that people write by hand. Goldens, recordings and lock files are data.
const WRITTEN: [&str; 8] = ["rs", "py", "c", "sh", "js", "mjs", "css", "sql"];

/// Longer files, each with the reason.
const LONGER: [(&str, &str); 1] = [(
    "tests/verify_ledger.py",
    "the second verifier: an auditor takes this one file along and reads it from the top, without PAR's source",
)];

#[test]
fn no_file_is_long() {
    let lines = lines_of_files();
    let all: usize = lines.values().sum();
    println!("{} files, {all} lines", lines.len());
    // A walk that misses a folder would find nothing long in it.
    for seen in ["src/lib.rs", "src/launcher/child/run.rs", "tests/it/main.rs", "tests/it/tidy/lines.rs"] {
        assert!(lines.contains_key(seen), "`{seen}` was not read");
    }
    let longer: Vec<&str> = LONGER.iter().map(|(file, _)| *file).collect();
    let long: Vec<String> = lines
        .iter()
        .filter(|(file, lines)| **lines > LINES_MAX && !longer.contains(&file.as_str()))
        .map(|(file, lines)| format!("{file}: {lines}"))
        .collect();
    assert!(long.is_empty(), "files of more than {LINES_MAX} lines:\n{}", long.join("\n"));
    for file in longer {
        let is_long = lines.get(file).is_some_and(|lines| *lines > LINES_MAX);
        assert!(is_long, "`{file}` is not longer than {LINES_MAX} lines: take it out of the list");
    }
    for (file, reason) in LONGER {
        assert!(reason.len() > 20, "`{file}` needs its reason");
    }
}

/// The lines of each file below `src/` and `tests/`, by its path below the repository.
fn lines_of_files() -> BTreeMap<String, usize> {
    let top = top();
    let mut lines = BTreeMap::new();
    let mut folders = vec![top.join("src"), top.join("tests")];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).expect("folder") {
            let path = item.expect("entry").path();
            // Build output of a separate package.
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if is_written(&path) {
                let text = std::fs::read_to_string(&path).expect("text");
                let below = path.strip_prefix(&top).expect("below").display().to_string();
                lines.insert(below, text.lines().count());
            }
        }
    }
    lines
}

fn is_written(path: &Path) -> bool {
    path.extension().is_some_and(|ending| WRITTEN.iter().any(|written| *written == ending))
}
