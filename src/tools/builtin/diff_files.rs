//! The lines in which two files differ.

use super::answer::{Answer, FRAME_BYTES, Fitting, integer, json_len, stamped};
use rustix::fs::fstat;
use rustix::io::{Errno, pread};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

/// Differences that are returned if the call sets no limit.
const LIMIT_DEFAULT: u64 = 50;
/// Size of a file that is compared, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Length of a line that is returned, in bytes.
const LINE_BYTES_MAX: usize = 400;
/// Lines of one difference that are returned, of each file.
const LINES_MAX: usize = 50;
/// Removed and added lines up to which the shortest list of differences is searched for.
const EDITS_MAX: usize = 1_500;

/// Lines that were removed and added at one place; lines count from 1.
#[derive(Debug, PartialEq, Eq)]
struct LineChange {
    old: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
}

/// Compares two files that are open for reading, with their names.
///
/// The answer holds `identical`, counts of removed and added lines, and the `differences`. It fits
/// `output_bytes_max`.
pub fn diff_files(
    old: (&str, BorrowedFd<'_>),
    new: (&str, BorrowedFd<'_>),
    arguments: &Value,
    output_bytes_max: usize,
    host: &str,
) -> Answer {
    let [before, after] = [old, new].map(|(path, file)| read(path, file));
    let (before, after) = (before?, after?);
    let (a, b) = (lines(&before), lines(&after));
    let (changes, is_shortest) = changes(&a, &b);
    let taken = FRAME_BYTES + json_len(old.0) + json_len(new.0);
    let room = output_bytes_max.saturating_sub(taken);
    let mut list = Fitting::new(integer(arguments, "limit", LIMIT_DEFAULT), room);
    for change in &changes {
        let (removed, removed_cut) = shown(a.get(change.old.clone()).unwrap_or_default());
        let (added, added_cut) = shown(b.get(change.new.clone()).unwrap_or_default());
        list.push(json!({
            "old_line": change.old.start + 1,
            "new_line": change.new.start + 1,
            "removed": removed,
            "added": added,
            "cut": removed_cut || added_cut,
        }));
    }
    let (differences, truncated) = list.finish();
    let count = |part: fn(&LineChange) -> usize| changes.iter().map(part).sum::<usize>();
    Ok(stamped(
        json!({
            "old": old.0,
            "new": new.0,
            "identical": before == after,
            "lines_removed": count(|change| change.old.len()),
            "lines_added": count(|change| change.new.len()),
            "differences_found": changes.len(),
            "differences": differences,
            "shortest": is_shortest,
            "truncated": truncated,
        }),
        host,
    ))
}

fn read(path: &str, file: BorrowedFd<'_>) -> Result<Vec<u8>, String> {
    let size = fstat(file).map_or(0, |stat| usize::try_from(stat.st_size).unwrap_or(usize::MAX));
    if size > FILE_BYTES_MAX {
        return Err(format!("`{path}` is larger than {FILE_BYTES_MAX} bytes"));
    }
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let mut filled = 0;
    while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
        match pread(file, free, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(e) => return Err(format!("`{path}`: {e}")),
        }
    }
    bytes.truncate(filled);
    if bytes.contains(&0) {
        return Err(format!("`{path}` contains a NUL byte: it is not text"));
    }
    Ok(bytes)
}

/// Without the ends of lines.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut all: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if all.last().is_some_and(|last| last.is_empty()) {
        all.pop();
    }
    all
}

/// Lines as text, and whether some were cut or left out.
fn shown(lines: &[&[u8]]) -> (Vec<String>, bool) {
    let mut is_cut = lines.len() > LINES_MAX;
    let one = |line: &&[u8]| {
        is_cut |= line.len() > LINE_BYTES_MAX;
        String::from_utf8_lossy(line.get(..LINE_BYTES_MAX).unwrap_or(line)).into_owned()
    };
    let text = lines.iter().take(LINES_MAX).map(one).collect();
    (text, is_cut)
}

/// The differences in order, and whether they are the shortest list of them.
fn changes(old: &[&[u8]], new: &[&[u8]]) -> (Vec<LineChange>, bool) {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let a = rest_a.get(..rest_a.len() - tail).unwrap_or_default();
    let b = rest_b.get(..rest_b.len() - tail).unwrap_or_default();
    let Some(pairs) = common(a, b) else {
        let whole = LineChange { old: head..head + a.len(), new: head..head + b.len() };
        return (vec![whole], false);
    };
    let mut found = Vec::new();
    let (mut x, mut y) = (0, 0);
    for (in_a, in_b) in pairs.into_iter().chain([(a.len(), b.len())]) {
        if x < in_a || y < in_b {
            found.push(LineChange { old: head + x..head + in_a, new: head + y..head + in_b });
        }
        (x, y) = (in_a + 1, in_b + 1);
    }
    (found, true)
}

/// Positions of the lines that both have, by Myers' algorithm ("An O(ND) Difference Algorithm and
/// Its Variations", 1986): the longest such list. `None` if it takes more than [`EDITS_MAX`] edits.
fn common(a: &[&[u8]], b: &[&[u8]]) -> Option<Vec<(usize, usize)>> {
    let mut reached: BTreeMap<i64, usize> = BTreeMap::from([(1, 0)]);
    let mut trace: Vec<BTreeMap<i64, usize>> = Vec::new();
    let is_same = |x: usize, y: usize| a.get(x).zip(b.get(y)).is_some_and(|(a, b)| a == b);
    for edits in 0..=i64::try_from(EDITS_MAX.min(a.len() + b.len())).ok()? {
        trace.push(reached.clone());
        let mut k = -edits;
        while k <= edits {
            let mut x = step(&reached, k, edits);
            let mut y = usize::try_from(i64::try_from(x).ok()? - k).unwrap_or(usize::MAX);
            while is_same(x, y) {
                (x, y) = (x + 1, y + 1);
            }
            reached.insert(k, x);
            if x >= a.len() && y >= b.len() {
                return back(&trace, a.len(), b.len());
            }
            k += 2;
        }
    }
    None
}

/// Where diagonal `k` begins: from the neighbour that got further.
fn step(reached: &BTreeMap<i64, usize>, k: i64, edits: i64) -> usize {
    let at = |k: i64| reached.get(&k).copied().unwrap_or(0);
    if k == -edits || (k != edits && at(k - 1) < at(k + 1)) { at(k + 1) } else { at(k - 1) + 1 }
}

/// Walks back from the end through what each number of edits reached.
fn back(trace: &[BTreeMap<i64, usize>], mut x: usize, mut y: usize) -> Option<Vec<(usize, usize)>> {
    let mut pairs = Vec::new();
    for (edits, reached) in trace.iter().enumerate().rev() {
        let (edits, k) = (i64::try_from(edits).ok()?, i64::try_from(x).ok()? - i64::try_from(y).ok()?);
        let at = |k: i64| reached.get(&k).copied().unwrap_or(0);
        let down = k == -edits || (k != edits && at(k - 1) < at(k + 1));
        let earlier_k = if down { k + 1 } else { k - 1 };
        let earlier_x = if edits == 0 { 0 } else { at(earlier_k) };
        let earlier_y =
            if edits == 0 { 0 } else { usize::try_from(i64::try_from(earlier_x).ok()? - earlier_k).ok()? };
        while x > earlier_x && y > earlier_y {
            (x, y) = (x - 1, y - 1);
            pairs.push((x, y));
        }
        (x, y) = (earlier_x, earlier_y);
    }
    pairs.reverse();
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::{changes, diff_files, lines};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    fn diff(old: &[u8], new: &[u8], arguments: &Value, cap: usize) -> Result<Value, String> {
        let [old, new] = [old, new].map(|bytes| {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(bytes).expect("written");
            file
        });
        diff_files(("/d/a", old.as_fd()), ("/d/b", new.as_fd()), arguments, cap, "h")
    }

    #[test]
    fn changed_lines_are_shown_with_their_numbers() {
        let answer = diff(b"one\ntwo\nthree\nfour\n", b"one\n2\nthree\nfour\nfive", &json!({}), 65_536)
            .expect("an answer");
        assert_eq!(
            answer["differences"],
            json!([
                { "old_line": 2, "new_line": 2, "removed": ["two"], "added": ["2"], "cut": false },
                { "old_line": 5, "new_line": 5, "removed": [], "added": ["five"], "cut": false },
            ])
        );
        assert_eq!((&answer["lines_removed"], &answer["lines_added"]), (&json!(1), &json!(2)));
        let same = diff(b"x\n", b"x\n", &json!({}), 65_536).expect("an answer");
        assert_eq!((&same["identical"], &same["differences"]), (&json!(true), &json!([])));
    }

    #[test]
    fn limits_are_kept() {
        let old: String = (0..6_000).map(|at| format!("{at}\n")).collect();
        let new: String = (0..6_000).map(|at| format!("{at}x\u{1b}[2J\n")).collect();
        let answer = diff(old.as_bytes(), new.as_bytes(), &json!({}), 65_536).expect("an answer");
        assert_eq!((&answer["shortest"], &answer["lines_added"]), (&json!(false), &json!(6_000)));
        assert!(answer.to_string().len() < 65_536);
        let many: String =
            (0..900).map(|at| if at % 2 == 0 { format!("{at}\n") } else { "same\n".to_owned() }).collect();
        let answer =
            diff("same\n".repeat(450).as_bytes(), many.as_bytes(), &json!({}), 65_536).expect("an answer");
        assert_eq!(
            (&answer["truncated"], answer["differences"].as_array().map(Vec::len)),
            (&json!(true), Some(50))
        );
        assert!(diff(b"a\0b", b"", &json!({}), 65_536).expect_err("not text").contains("NUL"));
        assert!(
            diff(&vec![b'x'; (1 << 20) + 1], b"", &json!({}), 65_536).expect_err("large").contains("larger")
        );
        assert!(
            diff(b"\xff\n", b"\xfe\n", &json!({}), 65_536).expect("an answer")["differences"][0]["added"][0]
                .is_string()
        );
    }

    proptest! {
        /// The differences turn one file into the other.
        #[test]
        fn the_differences_explain_the_new_file(a in "[ab\n]{0,60}", b in "[ab\n]{0,60}") {
            let (old, new) = (lines(a.as_bytes()), lines(b.as_bytes()));
            let (found, _) = changes(&old, &new);
            let mut built: Vec<&[u8]> = Vec::new();
            let mut at = 0;
            for change in &found {
                built.extend(&old[at..change.old.start]);
                built.extend(&new[change.new.clone()]);
                at = change.old.end;
            }
            built.extend(&old[at..]);
            prop_assert_eq!(built, new);
        }
    }
}
