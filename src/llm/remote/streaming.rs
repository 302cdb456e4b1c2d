//! A streamed reply: what of it is shown while it comes, and what of its bytes is kept.

use super::partial::StreamReader;
use super::wire::{Wire, WireError};
use crate::egress::EgressError;
use crate::llm::error::ModelError;
use crate::llm::form::OpaqueOrigin;
use crate::llm::provider::DeltaSink;
use crate::llm::reply::{ModelReply, Stop, StreamedBytes};
use crate::secrets::{CleanStream, CutShort, Secrets};
use crate::types::Digest;

/// A stream of `W` that is being read.
pub(super) struct Streaming<'a, W: Wire> {
    secrets: &'a Secrets,
    sink: DeltaSink<'a>,
    shown: CleanStream,
    reader: StreamReader<W>,
    raw: Vec<u8>,
    failed: Option<WireError>,
    has_shown: bool,
}

impl<'a, W: Wire> Streaming<'a, W> {
    pub(super) fn new(secrets: &'a Secrets, sink: DeltaSink<'a>) -> Self {
        Self {
            shown: secrets.stream(),
            secrets,
            sink,
            reader: StreamReader::new(),
            raw: Vec::new(),
            failed: None,
            has_shown: false,
        }
    }

    /// Takes the next bytes. Returns whether more are wanted.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        self.raw.extend_from_slice(bytes);
        let mut delta = String::new();
        self.failed = self.reader.push(bytes, &mut delta).err();
        let delta = self.shown.push(&delta);
        if !delta.is_empty() {
            self.has_shown = true;
            self.sink.pass(delta);
        }
        self.failed.is_none()
    }

    /// The reply, after the end of the stream or its failure. A failure after which the request may
    /// be repeated is one of which nothing was shown.
    pub(super) fn finish(
        self,
        ended: Option<EgressError>,
        request_digest: Digest,
        origin: &OpaqueOrigin,
    ) -> Result<ModelReply, ModelError> {
        let has_shown = self.has_shown;
        let ended = self.end(ended, request_digest, origin);
        ended.map_err(|error| ModelError { retryable: error.retryable && !has_shown, ..error })
    }

    fn end(
        self,
        ended: Option<EgressError>,
        request_digest: Digest,
        origin: &OpaqueOrigin,
    ) -> Result<ModelReply, ModelError> {
        let Self { secrets, sink, shown, reader, raw, failed, .. } = self;
        let ended = match ended {
            // No answer has come, or more than may be read.
            Some(error) if raw.is_empty() || matches!(error, EgressError::TooLarge(_)) => {
                return Err(error.into());
            }
            ended => ended.map(|error| error.to_string()),
        };
        let has_frames = reader.has_frames();
        // The framing may divide a secret, so the bytes of a failed stream are not kept.
        let kept = |raw: Vec<u8>| if has_frames { Vec::new() } else { raw };
        let answer = match failed {
            Some(why) => Err(why),
            None => reader.finish(&raw, ended.as_deref()),
        };
        let reply = match answer {
            Ok(answer) => answer.into_reply(Vec::new(), request_digest, origin),
            Err(why) => return Err(why.into_error(kept(raw))),
        };
        if !matches!(reply.stop, Stop::Cut(_)) {
            let rest = shown.finish();
            if !rest.is_empty() {
                sink.pass(rest);
            }
        }
        Ok(cleaned::<W>(secrets, reply, raw))
    }
}

/// The reply without secrets, with its bytes. Bytes in which a secret was found are left out: it
/// may be divided by their framing.
fn cleaned<W: Wire>(secrets: &Secrets, reply: ModelReply, raw: Vec<u8>) -> ModelReply {
    let is_cut = matches!(reply.stop, Stop::Cut(_));
    let reply = secrets.clean(if is_cut { without_tail(secrets, reply) } else { reply });
    let bytes = raw.len() as u64;
    let clean = secrets.clean(CutShort(raw));
    let (in_reply, in_raw) = (reply.found().clone(), clean.found().clone());
    let held_secret = !in_reply.is_none() || !in_raw.is_none();
    let CutShort(raw) = clean.into_inner();
    let is_searched = !held_secret || reads_clean::<W>(secrets, &raw);
    let streamed = StreamedBytes { bytes, digest: is_searched.then(|| Digest::sha256(&raw)), held_secret };
    ModelReply {
        raw: if held_secret { Vec::new() } else { raw },
        streamed: Some(streamed),
        found: if in_reply.is_none() { in_raw } else { in_reply },
        ..reply.into_inner()
    }
}

/// A text that was cut may end within a secret.
fn without_tail(secrets: &Secrets, reply: ModelReply) -> ModelReply {
    let Some(text) = reply.text else { return reply };
    let clean = secrets.clean(CutShort(text));
    let found = clean.found().clone();
    ModelReply { text: Some(clean.into_inner().0), found, ..reply }
}

/// Whether no secret is found in what these bytes say, put together.
fn reads_clean<W: Wire>(secrets: &Secrets, raw: &[u8]) -> bool {
    let mut reader = StreamReader::<W>::new();
    let read = reader.push(raw, &mut String::new()).and_then(|()| reader.finish(raw, Some("")));
    let reply =
        read.map(|answer| answer.into_reply(Vec::new(), Digest::sha256(b""), &OpaqueOrigin::default()));
    reply.is_ok_and(|reply| secrets.clean(without_tail(secrets, reply)).found().is_none())
}
