//! The last lines of a regular file.

use super::answer::{Answer, FRAME_BYTES, NOT_FOUND, integer, json_len, shown, stamped};
use super::line_time::Since;
use crate::types::clock::Wall;
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, pread};
use serde_json::{Value, json};
use std::os::fd::BorrowedFd;

/// Lines that are shown if the call names no number.
const LINES_DEFAULT: u64 = 10;
/// Bytes at the end of the file that are read.
const BYTES_MAX: u64 = 1 << 20;

/// A line of the part that was read, with its end, and whether it is not older than `since`.
struct TailLine<'a> {
    bytes: &'a [u8],
    is_new: bool,
}

/// Reads the last `lines` lines of `file`, and leaves out those that are older than `since`
/// ([`Since::read`]). The file is open for reading; `path` is its name.
///
/// The answer holds `observed_at`, `host`, `path`, `size_bytes` (of the file), `bytes` (of the
/// content), `lines` (how many it contains), `truncated` (whether lines are missing that the call
/// asked for), and `text` if the content is UTF-8, else `base64`. With `since` it also holds
/// `older` (how many of the last lines were left out) and `has_time` (whether a time was found at
/// the end of the file). It fits `output_bytes_max`. At most 1 MiB is read; a line that this cuts
/// at its start is left out.
pub fn tail_file(
    file: BorrowedFd<'_>,
    path: &str,
    arguments: &Value,
    output_bytes_max: usize,
    host: &str,
) -> Answer {
    let mut since = Since::read(arguments, Wall::now())?;
    let stat = fstat(file).map_err(|_| NOT_FOUND.to_owned())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!("`{path}` is not a regular file"));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let bytes = read_end(file, size).map_err(|e| format!("`{path}`: {e}"))?;
    let is_whole = bytes.len() as u64 >= size;
    let asked = usize::try_from(integer(arguments, "lines", LINES_DEFAULT)).unwrap_or(usize::MAX);
    let all = lines_of(&bytes, is_whole, since.as_mut());
    let last = all.get(all.len().saturating_sub(asked)..).unwrap_or_default();
    // What comes before a line that is old is old, too.
    let has_time = |line: &TailLine<'_>| since.as_ref().is_some_and(|since| since.time(line.bytes).is_some());
    let is_old = all.first().is_some_and(|line| !line.is_new && has_time(line));
    let is_cut_by_read = !is_whole && all.len() < asked && !is_old;

    let room = output_bytes_max.saturating_sub(FRAME_BYTES + json_len(path));
    let wanted: Vec<&[u8]> = last.iter().filter(|line| line.is_new).map(|line| line.bytes).collect();
    let fitting = wanted.get(wanted.len() - how_many_fit(&wanted, room)..).unwrap_or_default();
    // One line that does not fit is shown from its end.
    let rest = match wanted.last().filter(|_| fitting.is_empty()) {
        Some(line) => end_of(line, room),
        None => Vec::new(),
    };
    let content = if fitting.is_empty() { rest } else { fitting.concat() };
    let lines = if content.is_empty() { 0 } else { fitting.len().max(1) };
    let (key, content, read) = shown(&content, false, room);
    let mut answer = json!({
        "path": path, "size_bytes": size, "lines": lines, key: content, "bytes": read,
        "truncated": is_cut_by_read || fitting.len() < wanted.len(),
    });
    if let (Some(since), Some(members)) = (since, answer.as_object_mut()) {
        members.insert("older".to_owned(), json!(last.len() - wanted.len()));
        members.insert("has_time".to_owned(), json!(since.has_found_a_time()));
    }
    Ok(stamped(answer, host))
}

/// The last [`BYTES_MAX`] bytes of the first `size` ones, or fewer if the file has shrunk.
fn read_end(file: BorrowedFd<'_>, size: u64) -> Result<Vec<u8>, Errno> {
    let start = size.saturating_sub(BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
    let mut filled = 0;
    while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
        match pread(file, free, start.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The lines of `bytes`. If these are not the whole file, the first is the rest of a line: it is
/// left out, unless there is no other.
fn lines_of<'a>(bytes: &'a [u8], is_whole: bool, mut since: Option<&mut Since>) -> Vec<TailLine<'a>> {
    let mut lines: Vec<TailLine<'a>> = Vec::new();
    let mut pieces = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
    if !is_whole {
        let first = pieces.next().unwrap_or_default();
        if pieces.peek().is_none() {
            return vec![TailLine { bytes: first, is_new: since.is_none() }];
        }
    }
    for line in pieces {
        let is_new = since.as_mut().is_none_or(|since| since.lets(line));
        lines.push(TailLine { bytes: line, is_new });
    }
    lines
}

/// How many of the last lines fit into `room` bytes, both as JSON text and as base64.
fn how_many_fit(lines: &[&[u8]], room: usize) -> usize {
    let (mut as_text, mut raw) = (2_usize, 0_usize);
    let fits = |line: &&&[u8]| {
        as_text = as_text.saturating_add(text_cost(line));
        raw = raw.saturating_add(line.len());
        as_text <= room && raw <= room / 4 * 3
    };
    lines.iter().rev().take_while(fits).count()
}

/// Bytes of JSON that `bytes` take as text. Bytes that are not UTF-8 are never written as text.
fn text_cost(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).map_or(bytes.len(), |text| json_len(text) - 2)
}

/// The end of a line, as much of it as fits into `room` bytes. A character is not cut in two.
fn end_of(line: &[u8], room: usize) -> Vec<u8> {
    // A control character takes six bytes as JSON.
    let start = line.len().saturating_sub(room / 6);
    let end = line.get(start..).unwrap_or_default();
    let continues = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let cut = if start > 0 { end.iter().take(3).take_while(continues).count() } else { 0 };
    end.get(cut..).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, tail_file};
    use crate::tools::builtin::answer::hold_to_schema;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    const CAP: usize = 65_536;

    fn tail(content: &[u8], arguments: &Value, cap: usize) -> Result<Value, String> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        let mut answer = tail_file(file.as_fd(), "/f", arguments, cap, "h")?;
        hold_to_schema(include_str!("../../../tools.d/tail_file.toml"), &answer);
        let members = answer.as_object_mut().expect("an object");
        assert!(members.remove("observed_at").is_some() && members.remove("host") == Some(json!("h")));
        Ok(answer)
    }

    fn text(content: &[u8], arguments: &Value) -> String {
        let answer = tail(content, arguments, CAP).expect("an answer");
        answer["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// As tail(1) does.
    #[test]
    fn the_last_lines_are_shown() {
        for (content, lines, expect) in [
            ("one\ntwo\nthree\n", 1, "three\n"),
            ("one\ntwo\nthree\n", 2, "two\nthree\n"),
            ("one\ntwo\nthree", 2, "two\nthree"),
            ("one\ntwo\n\n", 2, "two\n\n"),
            ("one\n", 9, "one\n"),
            ("\u{1b}[2J\r\n", 1, "\u{1b}[2J\r\n"),
            ("", 3, ""),
        ] {
            assert_eq!(text(content.as_bytes(), &json!({ "lines": lines })), expect, "{content:?}");
        }
        let answer = tail(b"one\ntwo\n", &json!({ "lines": 1 }), CAP).expect("an answer");
        let expect = json!({ "path": "/f", "size_bytes": 8, "lines": 1, "text": "two\n", "bytes": 4, "truncated": false });
        assert_eq!(answer, expect);
        let answer = tail(b"one\nt\xffo\n", &json!({ "lines": 1 }), CAP).expect("an answer");
        assert_eq!((&answer["base64"], &answer["bytes"]), (&json!("dP9vCg=="), &json!(4)));
        let folder = std::fs::File::open("/").expect("open");
        let error = tail_file(folder.as_fd(), "/", &json!({ "lines": 1 }), CAP, "h").expect_err("a folder");
        assert_eq!(error, "`/` is not a regular file");
    }

    #[test]
    fn lines_of_every_form_are_shown_since_a_time() {
        let since = "2026-11-24T13:00:00Z";
        for (format, old, new) in [
            ("rfc3339", "2026-11-24T12:59:59Z", "2026-11-24T13:00:00Z"),
            ("slashes", "2026/11/24 12:59:59", "2026/11/24 13:00:00"),
            ("common_log", "h - - [24/Nov/2026:12:59:59 +0000]", "h - - [24/Nov/2026:14:00:00 +0100]"),
            ("epoch", "1795525199", "1795525200"),
        ] {
            let log = format!("{old} a\n of a\n{new} b\n of b\n");
            for arguments in [
                json!({ "lines": 9, "since": since }),
                json!({ "lines": 9, "since": since, "time_format": format }),
            ] {
                let answer = tail(log.as_bytes(), &arguments, CAP).expect("an answer");
                assert_eq!(answer["text"], format!("{new} b\n of b\n"), "{arguments}");
                let told = (&answer["older"], &answer["has_time"], &answer["lines"]);
                assert_eq!(told, (&json!(2), &json!(true), &json!(2)), "{answer}");
            }
        }
        // The form without a year, and an age: both are read from the time of the call.
        let arguments = json!({ "lines": 9, "since": "2d", "time_format": "syslog" });
        let answer = tail(b"Jan  1 00:00:00 h a\n of a\n", &arguments, CAP).expect("an answer");
        assert_eq!(answer["has_time"], true);
        let east = json!({ "lines": 9, "since": since, "utc_offset": "+02:00" });
        assert_eq!(text(b"2026-11-24 14:59:59 a\n2026-11-24 15:00:00 b\n", &east), "2026-11-24 15:00:00 b\n");
    }

    /// The number counts lines of the file: those that are old are not replaced by others. A line
    /// without a time has that of the line before it, although that is not among the last.
    #[test]
    fn the_last_lines_are_taken_before_their_time_is_asked() {
        let log = b"2026-11-24T14:00:00Z new\n of new\n2026-11-24T12:00:00Z old\n of old\n";
        let since = |lines: u64| json!({ "lines": lines, "since": "2026-11-24T13:00:00Z" });
        assert_eq!(text(log, &since(2)), "");
        assert_eq!(text(log, &since(3)), " of new\n");
        let answer = tail(b"no time\nat all\n", &since(9), CAP).expect("an answer");
        assert_eq!((&answer["text"], &answer["has_time"]), (&json!(""), &json!(false)));
        assert_eq!((&answer["older"], &answer["truncated"]), (&json!(2), &json!(false)));
        let other = json!({ "lines": 9, "since": "2026-11-24T13:00:00Z", "time_format": "slashes" });
        assert_eq!(tail(log, &other, CAP).expect("an answer")["has_time"], false);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (arguments, expect) in [
            (json!({ "lines": 1, "since": "yesterday" }), "is neither a time"),
            (json!({ "lines": 1, "since": "1h", "time_format": "iso" }), "is unknown"),
            (json!({ "lines": 1, "since": "1h", "utc_offset": "CET" }), "is not of the form"),
        ] {
            let error = tail(b"", &arguments, CAP).expect_err("refused");
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn the_answer_fits_the_output_limit() {
        for line in ["x".repeat(99), "\u{1b}".repeat(99), "é\"\\".repeat(30), "\n".repeat(99)] {
            let log = format!("{line}\n").repeat(2_000);
            for cap in [2_000, 10_000, CAP] {
                let answer = tail(log.as_bytes(), &json!({ "lines": 1_000 }), cap).expect("an answer");
                assert!(answer.to_string().len() <= cap && answer["lines"] != 0, "{cap}: {answer}");
                let shown = answer["text"].as_str().expect("text");
                assert!(log.ends_with(shown) && shown.ends_with('\n'), "{cap}");
            }
        }
        let answer = tail(b"a\nb\nc\n", &json!({ "lines": 2 }), CAP).expect("an answer");
        assert_eq!(answer["truncated"], false, "more lines than were asked for are not missing");
    }

    /// A line that is longer than the result, or than what is read, is shown from its end.
    #[test]
    fn a_line_without_an_end_is_bounded() {
        for length in [200_000, usize::try_from(BYTES_MAX).expect("a size") + 5] {
            let line = format!("{}end", "é".repeat(length));
            for content in [line.clone(), format!("before\n{line}\n"), format!("é{line}")] {
                let answer = tail(content.as_bytes(), &json!({ "lines": 3 }), 8_192).expect("an answer");
                let shown = answer["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
                assert!(shown.trim_end().ends_with("éend") && shown.starts_with('é'), "{shown}");
                assert_eq!((&answer["lines"], &answer["truncated"]), (&json!(1), &json!(true)));
                let since = json!({ "lines": 3, "since": "1h" });
                let answer = tail(content.as_bytes(), &since, 8_192).expect("an answer");
                assert_eq!((&answer["lines"], &answer["has_time"]), (&json!(0), &json!(false)));
            }
        }
    }

    /// A large file is read from its last 1 MiB, and the line that this cuts is left out.
    #[test]
    fn of_a_large_file_the_end_is_read() {
        let log = "2026-11-24T14:00:00Z a line of a log\n".repeat(100_000);
        let arguments = json!({ "lines": 3, "since": "2026-11-24T13:00:00Z" });
        let answer = tail(log.as_bytes(), &arguments, CAP).expect("an answer");
        assert_eq!((&answer["lines"], &answer["truncated"]), (&json!(3), &json!(false)));
        let long = format!("{}\n", "x".repeat(5_000)).repeat(1_000);
        let answer = tail(long.as_bytes(), &json!({ "lines": 1_000 }), 8 << 20).expect("an answer");
        assert_eq!((&answer["lines"], &answer["truncated"]), (&json!(209), &json!(true)));
    }

    proptest! {
        #[test]
        fn any_file_gives_an_answer_that_fits(
            content: Vec<u8>,
            lines in 1_u64..5,
            cap in 1_500_usize..4_000,
            since in prop::option::of("([0-9]{1,3}[smhd]|2026-11-24T10:00:00Z)"),
        ) {
            let mut arguments = json!({ "lines": lines });
            if let Some(since) = since {
                arguments["since"] = json!(since);
            }
            let answer = tail(&content, &arguments, cap).expect("an answer");
            prop_assert!(answer.to_string().len() <= cap);
            prop_assert!(answer["lines"].as_u64() <= Some(lines));
        }
    }
}
