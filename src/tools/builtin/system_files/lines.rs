//! Lines of a file of any size, in bounded memory.

use super::folders::SystemView;
use std::io::{BufRead as _, BufReader, Read};

/// One read of a file, in bytes.
const READ_BYTES: usize = 128 << 10;
/// The longest line that is returned whole; of a longer one, this much of its start is.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Lines between two looks at the clock.
const LINES_PER_CHECK: u32 = 4_096;

/// Reads lines. Ends early at a number of bytes, or when the call's time is over.
pub(super) struct FileLines<'a, R> {
    from: BufReader<R>,
    view: &'a SystemView<'a>,
    line: Vec<u8>,
    bytes_left: u64,
    until_check: u32,
    cut_by: Option<&'static str>,
}

impl<'a, R: Read> FileLines<'a, R> {
    /// The lines of `from`, at most `bytes_max` bytes of them.
    pub(super) fn new(from: R, view: &'a SystemView<'a>, bytes_max: u64) -> Self {
        let from = BufReader::with_capacity(READ_BYTES, from);
        Self {
            from,
            view,
            line: Vec::new(),
            bytes_left: bytes_max,
            until_check: LINES_PER_CHECK,
            cut_by: None,
        }
    }

    /// The next line without its end; `None` at the end, or once [`Self::is_cut`].
    pub(super) fn next_line(&mut self) -> Option<&[u8]> {
        self.until_check = self.until_check.saturating_sub(1);
        if self.until_check == 0 {
            self.until_check = LINES_PER_CHECK;
            if !self.view.has_time() {
                self.cut_by = Some("time");
            }
        }
        if self.is_cut() {
            return None;
        }
        self.line.clear();
        loop {
            let (used, is_end) = match self.from.fill_buf() {
                Ok([]) => {
                    return if self.line.is_empty() { None } else { Some(&self.line) };
                }
                Ok(bytes) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
                    let free = LINE_BYTES_MAX.saturating_sub(self.line.len()).min(piece.len());
                    self.line.extend_from_slice(piece.get(..free).unwrap_or_default());
                    (end.map_or(bytes.len(), |end| end + 1), end.is_some())
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.cut_by = Some("failed");
                    return None;
                }
            };
            self.from.consume(used);
            let left = self.bytes_left.checked_sub(used as u64);
            self.bytes_left = left.unwrap_or(0);
            if left.is_none() {
                self.cut_by = Some("too_large");
                return None;
            }
            if is_end {
                return Some(&self.line);
            }
        }
    }

    /// Whether lines were left unread.
    pub(super) fn is_cut(&self) -> bool {
        self.cut_by.is_some()
    }

    /// Why lines were left unread: `time`, `too_large` or `failed`.
    pub(super) fn cut_by(&self) -> Option<&'static str> {
        self.cut_by
    }
}
