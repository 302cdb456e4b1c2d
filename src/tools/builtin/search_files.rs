//! Lines of files that contain a text or match a pattern.
//!
//! The sandbox walks the folders: every file that is read here was opened there.

use super::answer::{FRAME_BYTES, integer, json_len, put_text};
use super::line_time::Since;
use crate::types::clock::{Wall, mono_us};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::fstat;
use rustix::io::{Errno, pread};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

/// Lines that are returned if the call sets no limit.
const LIMIT_DEFAULT: u64 = 100;
/// Depth of the search if the call sets none: levels below the first folder.
const DEPTH_DEFAULT: u64 = 8;
/// Most bytes that one call reads.
const BYTES_MAX: usize = 128 << 20;
/// One read, in bytes.
const READ_BYTES: usize = 64 << 10;
/// A longer line is searched in parts of this length, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a line that are returned.
const SHOWN_BYTES_MAX: usize = 400;
/// Bytes of a line that are returned before its match.
const BEFORE_BYTES: usize = 100;
/// Size of a compiled pattern, and of its cache while matching, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Why a file or folder was not searched; the names in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// The tools' user may not read it.
    Unreadable,
    /// It contains a NUL byte.
    NotText,
    /// A link, device, pipe or socket.
    Special,
    /// Deeper than the call asks for.
    TooDeep,
    /// On another mount of the host than the first folder.
    OtherMount,
    /// It could not be opened or read for another reason, such as its removal.
    Failed,
}

impl From<Errno> for Skip {
    fn from(error: Errno) -> Self {
        if matches!(error, Errno::ACCESS | Errno::PERM) { Self::Unreadable } else { Self::Failed }
    }
}

/// A search under way: what it searches for, and what it found.
#[derive(Debug)]
pub struct Search {
    path: String,
    pattern: Regex,
    name: Option<Vec<u8>>,
    since: Option<Since>,
    /// Files in which no line has a time, if the call asks for a time.
    files_without_time: u64,
    depth: u64,
    limit: usize,
    room: usize,
    bytes_left: usize,
    end_us: u64,
    matches: Vec<Value>,
    files_read: u64,
    files_skipped: BTreeMap<Skip, u64>,
    folders_skipped: BTreeMap<Skip, u64>,
    excluded: u64,
    stopped_by: Option<&'static str>,
}

impl Search {
    /// A search below `path`, as `arguments` say: `pattern`, `regex`, `name`, `since` and its form,
    /// `limit`, `depth`. The answer fits `output_bytes_max`; after `end_us` ([`mono_us`]) nothing
    /// more is read.
    pub fn new(path: &str, arguments: &Value, output_bytes_max: usize, end_us: u64) -> Result<Self, String> {
        let words = |name: &str| arguments.get(name).and_then(Value::as_str);
        let pattern = words("pattern").unwrap_or_default();
        let is_regex = arguments.get("regex").and_then(Value::as_bool).unwrap_or(false);
        let text = if is_regex { pattern.to_owned() } else { regex::escape(pattern) };
        let mut builder = RegexBuilder::new(&text);
        let built = builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build();
        Ok(Self {
            pattern: built.map_err(|e| format!("`pattern`: {e}"))?,
            name: words("name").map(|name| name.as_bytes().to_vec()),
            since: Since::read(arguments, Wall::now())?,
            files_without_time: 0,
            depth: integer(arguments, "depth", DEPTH_DEFAULT),
            limit: usize::try_from(integer(arguments, "limit", LIMIT_DEFAULT)).unwrap_or(usize::MAX),
            room: output_bytes_max.saturating_sub(FRAME_BYTES + json_len(path)),
            path: path.to_owned(),
            bytes_left: BYTES_MAX,
            end_us,
            matches: Vec::new(),
            files_read: 0,
            files_skipped: BTreeMap::new(),
            folders_skipped: BTreeMap::new(),
            excluded: 0,
            stopped_by: None,
        })
    }

    /// Levels of folders below the first one that are searched.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// Whether a file with this name is searched.
    #[must_use]
    pub fn wants(&self, name: &[u8]) -> bool {
        self.name.as_ref().is_none_or(|glob| matches_glob(glob, name))
    }

    /// Whether room and time are left.
    pub fn goes_on(&mut self) -> bool {
        if mono_us() >= self.end_us {
            self.stop("time");
        }
        self.stopped_by.is_none()
    }

    /// Stops the search for this reason; the first reason counts.
    pub fn stop(&mut self, by: &'static str) {
        self.stopped_by.get_or_insert(by);
    }

    /// Counts a file that was not read.
    pub fn skip_file(&mut self, why: impl Into<Skip>) {
        *self.files_skipped.entry(why.into()).or_default() += 1;
    }

    /// Counts a folder that was not searched.
    pub fn skip_folder(&mut self, why: impl Into<Skip>) {
        *self.folders_skipped.entry(why.into()).or_default() += 1;
    }

    /// Counts a path that policies exclude. Its name is not returned.
    pub fn exclude(&mut self) {
        self.excluded += 1;
    }

    /// Searches `file`, whose name is `path`. A file with a NUL byte is not text: nothing after it
    /// is read.
    pub fn read(&mut self, path: &[u8], file: BorrowedFd<'_>) {
        // A file that grows while it is read ends at its size at the start.
        let size = match fstat(file) {
            Ok(stat) => u64::try_from(stat.st_size).unwrap_or(0),
            Err(e) => return self.skip_file(e),
        };
        if let Some(since) = &mut self.since {
            since.begin();
        }
        let mut at = Spot { path, line: 1 };
        let (mut offset, mut rest) = (0, Vec::with_capacity(READ_BYTES + LINE_BYTES_MAX));
        while offset < size && self.goes_on() {
            if self.bytes_left == 0 {
                self.stop("bytes");
                break;
            }
            let read = match read_at(file, offset, READ_BYTES.min(self.bytes_left), &mut rest) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) => return self.skip_file(e),
            };
            offset = offset.saturating_add(read as u64);
            self.bytes_left -= read;
            let new = rest.len() - read;
            if rest.get(new..).is_some_and(|new| new.contains(&0)) {
                return self.skip_file(Skip::NotText);
            }
            let whole = self.lines(&mut at, &rest);
            rest.drain(..whole);
            if rest.len() >= LINE_BYTES_MAX {
                self.line(&at, &rest);
                rest.clear();
            }
        }
        if !rest.is_empty() {
            self.line(&at, &rest);
        }
        self.files_read += 1;
        let has_no_time = self.since.as_ref().is_some_and(|since| !since.has_found_a_time());
        self.files_without_time += u64::from(has_no_time);
    }

    /// The matches.
    #[must_use]
    pub fn answer(self) -> Value {
        let mut answer = json!({
            "path": self.path,
            "matches": self.matches,
            "files_read": self.files_read,
            "files_skipped": self.files_skipped.values().sum::<u64>(),
            "folders_skipped": self.folders_skipped.values().sum::<u64>(),
            "excluded": self.excluded,
            "truncated": self.stopped_by.is_some(),
        });
        if let Some(members) = answer.as_object_mut() {
            if self.since.is_some() {
                members.insert("files_without_time".to_owned(), json!(self.files_without_time));
            }
            members.extend(self.stopped_by.map(|by| ("stopped_by".to_owned(), json!(by))));
            for (name, counts) in [("files", &self.files_skipped), ("folders", &self.folders_skipped)] {
                if !counts.is_empty() {
                    members.insert(format!("{name}_skipped_by"), json!(counts));
                }
            }
        }
        answer
    }

    /// Searches the whole lines of `bytes`; returns their total length.
    fn lines(&mut self, at: &mut Spot<'_>, bytes: &[u8]) -> usize {
        let mut whole = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            self.line(at, line);
            at.line += 1;
            whole += line.len();
        }
        whole
    }

    fn line(&mut self, at: &Spot<'_>, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.stopped_by.is_some() {
            return;
        }
        if self.since.as_mut().is_some_and(|since| !since.lets(line)) {
            return;
        }
        let Some(found) = self.pattern.find(line) else { return };
        if self.matches.len() >= self.limit {
            return self.stop("limit");
        }
        let mut shown = Map::new();
        put_text(&mut shown, ["path", "path_base64"], at.path);
        shown.insert("line".to_owned(), json!(at.line));
        let part = around(line, found.start());
        put_text(&mut shown, ["text", "base64"], part);
        if part.len() < line.len() {
            shown.insert("cut".to_owned(), json!(true));
        }
        let shown = Value::Object(shown);
        match self.room.checked_sub(shown.to_string().len() + 1) {
            Some(room) => self.room = room,
            None => return self.stop("output"),
        }
        self.matches.push(shown);
    }
}

/// A place in a file; lines count from 1.
struct Spot<'a> {
    path: &'a [u8],
    line: u64,
}

/// Appends bytes of `file` to `into`; returns their number.
fn read_at(file: BorrowedFd<'_>, offset: u64, most: usize, into: &mut Vec<u8>) -> Result<usize, Errno> {
    let before = into.len();
    into.resize(before + most, 0);
    let read = loop {
        match pread(file, into.get_mut(before..).unwrap_or_default(), offset) {
            Err(Errno::INTR) => {}
            done => break done,
        }
    };
    into.truncate(before + read.as_ref().copied().unwrap_or(0));
    read
}

/// The part of a line that is returned: all of it, or what surrounds its match, without incomplete
/// characters at its ends.
fn around(line: &[u8], found: usize) -> &[u8] {
    if line.len() <= SHOWN_BYTES_MAX {
        return line;
    }
    let is_half = |at: &usize| line.get(*at).is_some_and(|byte| (0x80..0xc0).contains(byte));
    let from = found.saturating_sub(BEFORE_BYTES);
    let to = from.saturating_add(SHOWN_BYTES_MAX).min(line.len());
    let from = (from..to.min(from + 4)).find(|at| !is_half(at)).unwrap_or(from);
    let to = (to.saturating_sub(3)..=to).rev().find(|at| !is_half(at)).unwrap_or(to);
    line.get(from..to).unwrap_or_default()
}

/// Whether `name` matches `glob`, in which `*` matches any text and `?` any one byte.
fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut glob, mut name) = (glob, name);
    // Where to resume after a mismatch: after the last `*`, one byte further on.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match (glob.split_first(), name.split_first()) {
            (Some((b'*', more)), _) => {
                again = Some((more, name));
                glob = more;
            }
            (Some((want, more)), Some((have, rest))) if *want == b'?' || want == have => {
                (glob, name) = (more, rest);
            }
            (None, None) => return true,
            _ => {
                let Some((behind, from)) = again else { return false };
                let Some((_, rest)) = from.split_first() else { return false };
                again = Some((behind, rest));
                (glob, name) = (behind, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SHOWN_BYTES_MAX, Search, matches_glob};
    use crate::tools::builtin::answer::{hold_to_schema, stamped};
    use serde_json::{Value, json};
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    fn search(content: &[u8], arguments: &Value, output_bytes_max: usize) -> Result<Value, String> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        let mut search = Search::new("/d", arguments, output_bytes_max, u64::MAX)?;
        search.read(b"/d/f", file.as_fd());
        let answer = search.answer();
        hold_to_schema(include_str!("../../../tools.d/search_files.toml"), &stamped(answer.clone(), "h"));
        Ok(answer)
    }

    fn lines(content: &[u8], arguments: &Value) -> Vec<(u64, String)> {
        let answer = search(content, arguments, 65_536).expect("an answer");
        let matches = answer["matches"].as_array().expect("a list").iter();
        let text = |one: &Value| one["text"].as_str().or(one["base64"].as_str()).expect("a line").to_owned();
        matches.map(|one| (one["line"].as_u64().expect("a number"), text(one))).collect()
    }

    #[test]
    fn lines_that_contain_a_text_or_match() {
        let check = |content: &[u8], arguments: Value, expect: &[(u64, &str)]| {
            let expect: Vec<_> = expect.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
            assert_eq!(lines(content, &arguments), expect, "{arguments}");
        };
        let text = b"one\ntwo.\r\nt.o\n\nlast two";
        check(text, json!({"pattern": "two"}), &[(2, "two."), (5, "last two")]);
        check(text, json!({"pattern": "t.o"}), &[(3, "t.o")]);
        check(text, json!({"pattern": "t.o", "regex": true}), &[(2, "two."), (3, "t.o"), (5, "last two")]);
        check(text, json!({"pattern": "^$", "regex": true}), &[(4, "")]);
        check(text, json!({"pattern": "(?i)ONE", "regex": true}), &[(1, "one")]);
        check(text, json!({"pattern": "two", "limit": 1}), &[(2, "two.")]);
        check(b"", json!({"pattern": "x"}), &[]);
        check(b"\xff x\ny", json!({"pattern": "x"}), &[(1, "/yB4")]);
        // Not text: neither what follows the NUL is searched, nor the part that contains it.
        check(b"x\n\0x\n", json!({"pattern": "x"}), &[]);
    }

    #[test]
    fn an_invalid_or_too_large_pattern_is_an_error() {
        for pattern in ["(", "a{1000}{1000}{1000}", "(?P<x>a)(?P<x>b)", "[\\p{L}]{20000}"] {
            let refused =
                search(b"", &json!({"pattern": pattern, "regex": true}), 65_536).expect_err(pattern);
            assert!(refused.starts_with("`pattern`: "), "{refused}");
        }
        // Linear in the text, whatever the pattern.
        let began = std::time::Instant::now();
        let text = [vec![b'a'; 60_000], b"\n".to_vec()].concat();
        assert!(lines(&text, &json!({"pattern": "(a*)*b", "regex": true})).is_empty());
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let line = "é".repeat(100_000) + "needle" + &"é".repeat(1_000) + "\nneedle";
        let answer = search(line.as_bytes(), &json!({"pattern": "needle"}), 65_536).expect("an answer");
        let text = answer["matches"][0]["text"].as_str().expect("text");
        assert!(text.contains("needle") && text.len() <= SHOWN_BYTES_MAX, "{text}");
        assert_eq!(answer["matches"][0]["cut"], true);
        assert_eq!(
            (&answer["matches"][1]["line"], &answer["matches"][1]["text"]),
            (&json!(2), &json!("needle"))
        );
    }

    #[test]
    fn the_answer_fits_the_output_limit() {
        let text = "\u{1b}[31mx\n".repeat(20_000);
        for cap in [2_000, 20_000] {
            let answer =
                search(text.as_bytes(), &json!({"pattern": "x", "limit": 500_000}), cap).expect("one");
            assert!(answer.to_string().len() < cap && answer["truncated"] == true, "{cap}");
            assert_eq!(answer["stopped_by"], "output");
        }
        let answer = search(text.as_bytes(), &json!({"pattern": "x", "limit": 3}), 65_536).expect("one");
        assert_eq!(
            (&answer["stopped_by"], answer["matches"].as_array().map(Vec::len)),
            (&json!("limit"), Some(3))
        );
        let mut late = Search::new("/d", &json!({"pattern": "x"}), 65_536, 0).expect("a search");
        late.read(b"/d/f", std::fs::File::open("/dev/null").expect("open").as_fd());
        assert!(!late.goes_on() && late.answer()["stopped_by"] == "time");
    }

    #[test]
    fn names_match_a_glob() {
        let check = |glob: &str, name: &str, expect: bool| {
            assert_eq!(matches_glob(glob.as_bytes(), name.as_bytes()), expect, "{glob} {name}");
        };
        check("*.log", "a.log", true);
        check("*.log", "a.log.1", false);
        check("*.log*", "a.log.1", true);
        check("?.log", "ab.log", false);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-b-b", false);
        check("*", "", true);
        check("", "a", false);
        check("[ab]", "a", false);
        check(&"*a".repeat(50), &"a".repeat(40), false);
    }
}
