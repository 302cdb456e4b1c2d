//! Divides a stream into frames: server-sent events, or lines of JSON.
//!
//! A stream may be cut into pieces anywhere, also inside a character, a line end or an event. What
//! a frame holds is not read here.

/// How a stream is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::llm) enum Framing {
    /// The data of each server-sent event (WHATWG HTML, section 9.2).
    Events,
    /// Each line that is not blank.
    Lines,
}

/// A stream that is being divided. Holds at most the frame that is not complete yet; the caller
/// bounds the stream.
#[derive(Debug)]
pub(in crate::llm) struct FrameReader {
    framing: Framing,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The data of the event that is not complete yet.
    data: Option<Vec<u8>>,
    /// Whether the last byte was a carriage return, whose line feed may follow.
    after_return: bool,
    /// Whether a byte order mark may still come.
    at_start: bool,
}

const MARK: &[u8] = "\u{feff}".as_bytes();

impl FrameReader {
    pub(in crate::llm) fn new(framing: Framing) -> Self {
        Self { framing, line: Vec::new(), data: None, after_return: false, at_start: true }
    }

    /// Takes the next bytes and gives each frame that they complete to `each`, until it fails.
    pub(in crate::llm) fn push<E>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if bytes.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.after_return) && bytes.first() == Some(&b'\n') {
            bytes = bytes.get(1..).unwrap_or_default();
        }
        while let Some(end) = bytes.iter().position(|byte| self.ends_line(*byte)) {
            let (head, tail) = bytes.split_at(end);
            self.line.extend_from_slice(head);
            let is_return = tail.first() == Some(&b'\r');
            bytes = tail.get(1..).unwrap_or_default();
            match bytes.first() {
                Some(b'\n') if is_return => bytes = bytes.get(1..).unwrap_or_default(),
                None if is_return => self.after_return = true,
                _ => {}
            }
            self.end_line(&mut each)?;
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the end of the stream. A last line of JSON needs no line end. An event that no blank
    /// line has ended is not complete, and is dropped.
    pub(in crate::llm) fn finish<E>(mut self, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match self.framing {
            Framing::Lines => self.end_line(&mut each),
            Framing::Events => Ok(()),
        }
    }

    /// A carriage return ends a line of an event. In JSON it is a blank.
    fn ends_line(&self, byte: u8) -> bool {
        byte == b'\n' || (byte == b'\r' && self.framing == Framing::Events)
    }

    fn end_line<E>(&mut self, each: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let whole = std::mem::take(&mut self.line);
        let is_first = std::mem::take(&mut self.at_start);
        let line = whole.strip_prefix(MARK).filter(|_| is_first).unwrap_or(&whole);
        match self.framing {
            Framing::Lines if line.trim_ascii().is_empty() => Ok(()),
            Framing::Lines => each(line),
            Framing::Events if line.is_empty() => self.data.take().map_or(Ok(()), |data| each(&data)),
            Framing::Events => {
                self.field(line);
                Ok(())
            }
        }
    }

    /// Keeps the value of a `data` field. The name of an event is in its data too, for every
    /// protocol here; other fields and comments mean nothing.
    fn field(&mut self, line: &[u8]) {
        let Some(value) = line.strip_prefix(b"data") else { return };
        let value = match value.split_first() {
            None => value,
            Some((b':', value)) => value.strip_prefix(b" ").unwrap_or(value),
            Some(_) => return,
        };
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            none => *none = Some(value.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameReader, Framing};
    use proptest::prelude::*;

    fn frames<'a>(framing: Framing, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut found = Vec::new();
        let mut keep = |frame: &[u8]| -> Result<(), ()> {
            found.push(String::from_utf8_lossy(frame).into_owned());
            Ok(())
        };
        let mut reader = FrameReader::new(framing);
        for piece in pieces {
            reader.push(piece, &mut keep).expect("kept");
        }
        reader.finish(&mut keep).expect("kept");
        found
    }

    #[test]
    fn events_are_divided_as_the_standard_says() {
        for (stream, expect) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("data: a\r\rdata:b\r\r", vec!["a", "b"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            ("data: a\n\n\u{feff}data: b\n\n", vec!["a"]),
            (": comment\nevent: x\nid: 1\ndata: a\n\n\n\n", vec!["a"]),
            ("data: a\ndata: b\ndata\n\n", vec!["a\nb\n"]),
            ("data:  a\n\n", vec![" a"]),
            ("dataset: a\n\nevent: x\n\n", vec![]),
            ("data: a\n\ndata: b\n", vec!["a"]),
            ("data: a\n\ndata: b", vec!["a"]),
            ("{\"error\":1}", vec![]),
        ] {
            assert_eq!(frames(Framing::Events, [stream.as_bytes()]), expect, "{stream:?}");
        }
    }

    #[test]
    fn lines_are_divided_at_line_feeds() {
        for (stream, expect) in [
            ("{}\n{}\n", vec!["{}", "{}"]),
            ("{}\r\n\r\n{}", vec!["{}\r", "{}"]),
            ("\u{feff}{}\n \n", vec!["{}"]),
            ("{\"a\":\r1}\n", vec!["{\"a\":\r1}"]),
            ("", vec![]),
        ] {
            assert_eq!(frames(Framing::Lines, [stream.as_bytes()]), expect, "{stream:?}");
        }
    }

    proptest! {
        #![proptest_config(crate::types::laws::cases(256))]

        #[test]
        fn pieces_make_no_difference(
            parts in prop::collection::vec(
                prop_oneof![
                    Just("\r"), Just("\n"), Just("\r\n"), Just("data: é"), Just("data"), Just(":"),
                    Just("x"), Just("\u{feff}"), Just(" "),
                ],
                0..20,
            ),
            sizes in prop::collection::vec(0..4_usize, 1..9),
            is_lines in any::<bool>(),
        ) {
            let stream = parts.concat().into_bytes();
            let framing = if is_lines { Framing::Lines } else { Framing::Events };
            let (mut pieces, mut rest, mut at) = (Vec::new(), stream.as_slice(), 0);
            while !rest.is_empty() {
                let size = sizes[at % sizes.len()].min(rest.len()).max(usize::from(at % 3 == 0));
                let (piece, after) = rest.split_at(size);
                pieces.push(piece);
                (rest, at) = (after, at + 1);
            }
            prop_assert_eq!(frames(framing, pieces), frames(framing, [stream.as_slice()]));
        }
    }
}
