//! A reply read from a stream.

use super::answer::{WireAnswer, WirePart};
use super::frames::{FrameReader, Framing};
use super::wire::{PartialAnswer, Wire, WireError};
use crate::llm::reply::Stop;

/// A stream of `W`, read as its pieces come.
#[derive(Debug)]
pub(in crate::llm) struct StreamReader<W: Wire> {
    frames: FrameReader,
    partial: W::Partial,
    has_frames: bool,
}

impl<W: Wire> StreamReader<W> {
    pub(in crate::llm) fn new() -> Self {
        Self { frames: FrameReader::new(W::FRAMING), partial: W::Partial::default(), has_frames: false }
    }

    /// Whether a frame has come.
    pub(in crate::llm) fn has_frames(&self) -> bool {
        self.has_frames
    }

    /// Takes the next bytes. Appends the text that they add to the reply, up to a fault.
    pub(in crate::llm) fn push(&mut self, bytes: &[u8], delta: &mut String) -> Result<(), WireError> {
        let Self { frames, partial, has_frames } = self;
        frames.push(bytes, |frame| {
            *has_frames = true;
            take(partial, frame, delta)
        })
    }

    /// The whole reply, after the end of the stream, whose bytes are `raw`. `failed` says why the
    /// connection ended, if the server did not end it. What a cut stream brought is a reply without
    /// calls; a stream that brought nothing is an error.
    ///
    /// A server that does not stream answers with one JSON text.
    pub(in crate::llm) fn finish(self, raw: &[u8], failed: Option<&str>) -> Result<WireAnswer, WireError> {
        let Self { frames, mut partial, has_frames } = self;
        if raw.is_empty() {
            return Err(WireError::Empty);
        }
        if W::FRAMING == Framing::Events && !has_frames && failed.is_none() && is_other(raw) {
            return W::read(raw);
        }
        // The last line of a broken connection may be a part of one.
        if failed.is_none() && !partial.is_whole() {
            frames.finish(|frame| take(&mut partial, frame, &mut String::new())).or_else(unless_cut)?;
        }
        if partial.is_whole() {
            return partial.answer();
        }
        let why = failed.unwrap_or("the server ended the stream early");
        let came = partial.answer().unwrap_or_default();
        let texts = came.parts.into_iter().filter(|part| matches!(part, WirePart::Text(_)));
        Ok(WireAnswer { parts: texts.collect(), stop: Stop::Cut(why.to_owned()), ..came })
    }
}

/// Whether the body is something else than a stream: it does not start as an event does.
fn is_other(raw: &[u8]) -> bool {
    let raw = raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(raw).trim_ascii_start();
    let fields: [&[u8]; 5] = [b"data", b"event", b"id", b"retry", b":"];
    !fields.iter().any(|field| raw.starts_with(field) || field.starts_with(raw))
}

/// A last line that ends too early is a cut, and no malformed answer.
fn unless_cut(error: WireError) -> Result<(), WireError> {
    match error {
        WireError::Json(error) if error.is_eof() => Ok(()),
        other => Err(other),
    }
}

fn take(partial: &mut impl PartialAnswer, frame: &[u8], delta: &mut String) -> Result<(), WireError> {
    delta.push_str(&partial.frame(frame)?.unwrap_or_default());
    Ok(())
}
