//! The names of segments. A name gives the number of the first entry in its file.

use std::path::{Path, PathBuf};

/// The file of the segment that begins with entry `first`: `ledger.db` for the first segment,
/// `ledger-FIRST.db` for others. FIRST has at least 12 digits.
pub(in crate::ledger) fn path_of(data: &Path, first: u64) -> PathBuf {
    match first {
        0 => data.join("ledger.db"),
        _ => data.join(format!("ledger-{first:012}.db")),
    }
}

/// The digits of a name `ledger-DIGITS.db`.
fn digits(path: &Path) -> Option<&str> {
    let digits = path.file_name()?.to_str()?.strip_prefix("ledger-")?.strip_suffix(".db")?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// The first entry of the segment with this file name.
fn of_name(data: &Path, path: &Path) -> Option<u64> {
    let first = digits(path)?.parse().ok()?;
    (first > 0 && path_of(data, first) == *path).then_some(first)
}

/// Files of `data` that are named like a segment, but with a number that segments do not write that
/// way. They are never read and do not belong there.
pub(in crate::ledger) fn strays(data: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut strays = vec![];
    for entry in std::fs::read_dir(data)? {
        let path = entry?.path();
        if digits(&path).is_some() && of_name(data, &path).is_none() {
            strays.push(path);
        }
    }
    strays.sort_unstable();
    Ok(strays)
}

/// The first entries of the segments whose files are in `data`, in rising order. Files with other
/// names are ignored.
pub(in crate::ledger) fn firsts(data: &Path) -> std::io::Result<Vec<u64>> {
    let mut firsts = vec![];
    for entry in std::fs::read_dir(data)? {
        firsts.extend(of_name(data, &entry?.path()));
    }
    firsts.extend(path_of(data, 0).exists().then_some(0));
    firsts.sort_unstable();
    Ok(firsts)
}
