//! What the journal takes on disk, and the limits that are set for it.
//!
//! The names of archived files say when their first entry was written, so no journal file is
//! opened.

use super::folders::SystemView;
use super::lines::FileLines;
use crate::tools::builtin::answer::Answer;
use crate::types::clock::Wall;
use crate::types::json::INTEGER_MAX;
use serde_json::{Map, Value, json};

/// Bytes of the configuration that are read.
const CONF_BYTES_MAX: u64 = 64 << 10;
/// The limits of journald.conf(5) that are shown, as members of the result.
const LIMITS: [(&str, &str); 3] = [
    ("SystemMaxUse", "max_use_bytes"),
    ("SystemKeepFree", "keep_free_bytes"),
    ("MaxRetentionSec", "max_retention_s"),
];
/// Units of sizes.
const SIZES: [(&str, u64); 6] =
    [("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40), ("P", 1 << 50)];
/// Units of time (systemd.time(7)), in seconds.
const TIMES: [(&str, u64); 8] = [
    ("", 1),
    ("s", 1),
    ("min", 60),
    ("h", 3_600),
    ("day", 86_400),
    ("week", 604_800),
    ("month", 2_629_800),
    ("year", 31_557_600),
];

/// Number and size of some files.
#[derive(Debug, Default)]
struct FileSum {
    files: u64,
    bytes: u64,
}

/// Adds up the files of the journal, active and archived.
pub(super) fn journal_size(view: &SystemView<'_>) -> Answer {
    let (mut active, mut archived) = (FileSum::default(), FileSum::default());
    let mut oldest_us: Option<u64> = None;
    for folder in view.named("journal") {
        if folder.is_cut {
            view.note(&folder.path);
        }
        for entry in folder.entries.iter().filter(|entry| entry.is_file) {
            let name = entry.name.rsplit('/').next().unwrap_or_default();
            let sum = if name.contains('@') { &mut archived } else { &mut active };
            sum.files += 1;
            sum.bytes = sum.bytes.saturating_add(entry.size_bytes).min(INTEGER_MAX.unsigned_abs());
            oldest_us = [oldest_us, first_entry_us(name)].into_iter().flatten().min();
        }
    }
    if oldest_us.is_none() {
        view.note("oldest_entry");
    }
    let limits = limits(view);
    Ok(json!({
        "files": active.files + archived.files,
        "bytes": active.bytes.saturating_add(archived.bytes).min(INTEGER_MAX.unsigned_abs()),
        "active_files": active.files,
        "active_bytes": active.bytes,
        "archived_files": archived.files,
        "archived_bytes": archived.bytes,
        "oldest_at": oldest_us.map(|micros| Wall(micros).rfc3339()),
        "limits": limits,
    }))
}

/// When the first entry of an archived file was written, in microseconds since 1970: the last
/// number in `system@ID-SEQUENCE-TIME.journal`. A file that was not closed has none.
fn first_entry_us(name: &str) -> Option<u64> {
    let (_, numbers) = name.strip_suffix(".journal")?.split_once('@')?;
    let (_, time) = numbers.rsplit_once('-').filter(|_| numbers.len() == 66)?;
    u64::from_str_radix(time, 16).ok().filter(|micros| *micros <= INTEGER_MAX.unsigned_abs())
}

/// The limits in the main configuration file; `null` for those that it does not set, or sets in
/// another form.
fn limits(view: &SystemView<'_>) -> Map<String, Value> {
    // Files in `journald.conf.d` come after the main file, and are not read.
    view.note("journald.conf.d");
    let mut found: Map<String, Value> =
        LIMITS.iter().map(|(_, member)| ((*member).to_owned(), Value::Null)).collect();
    for folder in view.named("journald.conf") {
        let Some(file) = folder.entries.first().and_then(|entry| view.open(folder, entry)) else { continue };
        let mut lines = FileLines::new(file, view, CONF_BYTES_MAX);
        while let Some(line) = lines.next_line() {
            let Some((key, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once('='))
            else {
                continue;
            };
            if let Some((_, member)) = LIMITS.iter().find(|(known, _)| *known == key.trim()) {
                let units: &[_] = if member.ends_with("_s") { &TIMES } else { &SIZES };
                found.insert((*member).to_owned(), json!(quantity(value.trim(), units)));
            }
        }
    }
    found
}

/// A whole number with one unit.
fn quantity(words: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = words.find(|c: char| !c.is_ascii_digit()).unwrap_or(words.len());
    let (number, unit) = words.split_at_checked(end)?;
    let unit = unit.trim();
    let (_, factor) = units.iter().find(|(known, _)| *known == unit || format!("{known}s") == unit)?;
    let quantity = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    Some(quantity).filter(|quantity| *quantity <= INTEGER_MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::{SIZES, TIMES, first_entry_us, quantity};

    #[test]
    fn quantities_are_a_number_and_a_unit() {
        for (words, expect) in [
            ("4G", Some(4 << 30)),
            ("512", Some(512)),
            ("1.5G", None),
            ("", None),
            ("9999999999P", None),
            ("4\u{1b}[2J", None),
        ] {
            assert_eq!(quantity(words, &SIZES), expect, "{words}");
        }
        for (words, expect) in [("1month", Some(2_629_800)), ("2 weeks", Some(1_209_600)), ("0", Some(0))] {
            assert_eq!(quantity(words, &TIMES), expect, "{words}");
        }
    }

    #[test]
    fn the_name_of_an_archived_file_says_when_it_begins() {
        let id = "0".repeat(32);
        let named = |time: &str| format!("system@{id}-0000000000000001-{time}.journal");
        assert_eq!(first_entry_us(&named("000600a1b2c3d4e5")), Some(0x0006_00a1_b2c3_d4e5));
        for other in [named("ffffffffffffffff"), named("x00600a1b2c3d4e5"), "system.journal".to_owned()] {
            assert_eq!(first_entry_us(&other), None, "{other}");
        }
        assert_eq!(first_entry_us("system@000600a1b2c3d4e5-0123456789abcdef.journal~"), None);
    }
}
