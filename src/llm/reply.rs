//! A model's reply. All of it is hostile.

use super::form::{FormParts, OpaqueOrigin, RequestForm};
use crate::secrets::{Parted, SecretCounts};
use crate::tools::ProposedCall;
use crate::types::Digest;

/// A provider's reply. All of it is hostile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReply {
    /// The text, if there is one; never empty.
    pub text: Option<String>,
    /// The proposed calls, in order, each with a unique identifier. All that came: the caller
    /// applies the limit.
    pub calls: Vec<ProposedCall>,
    /// The order of the pieces of the text, the calls and the provider's own state. The pieces make
    /// up the whole text, and each call has its part.
    pub parts: Vec<ReplyPart>,
    /// Why the model stopped.
    pub stop: Stop,
    /// The tokens it cost.
    pub usage: TokenUsage,
    /// SHA-256 of the exact bytes that were sent.
    pub request_digest: Digest,
    /// What determined them, next to the conversation and the tools; `None` for a provider that
    /// sends nothing.
    pub form: Option<RequestForm>,
    /// The exact bytes of the answer, after secrets were replaced; empty if they are left out.
    pub raw: Vec<u8>,
    /// Set if the answer was a stream: what its bytes were, whether or not `raw` has them.
    pub streamed: Option<StreamedBytes>,
    /// The number of states of earlier replies that the request left out, because they came from
    /// another wire, base URL or model, with another key, or because they held a secret.
    pub states_left_out: u64,
    /// The model as the server names it, else as configured.
    pub model: String,
    /// The secrets replaced in the bytes before they were parsed.
    pub found: SecretCounts,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyPart {
    /// This many further bytes of the reply's text.
    Text(usize),
    /// The reply's next call.
    Call,
    /// State of the provider.
    Opaque(OpaqueState),
}

/// What a server wants to get back unchanged with the next request, such as encrypted reasoning or
/// a signature. PAR does not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpaqueState {
    /// Where it may be sent.
    pub origin: OpaqueOrigin,
    /// JSON text, byte for byte as the server wrote it; `None` if it held a secret.
    pub state: Option<String>,
    /// SHA-256 of the server's text.
    pub digest: Digest,
}

/// The bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamedBytes {
    /// Their number, as they came.
    pub bytes: u64,
    /// SHA-256 of them, after secrets were replaced; `None` if a part of a secret may be left in
    /// them, because the digest would let a reader guess it.
    pub digest: Option<Digest>,
    /// Whether `raw` leaves them out because they held a secret.
    pub held_secret: bool,
}

/// A piece of a reply, in the order in which the model wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyPiece<'a> {
    Text(&'a str),
    Call(&'a ProposedCall),
    Opaque(&'a OpaqueState),
}

/// A call: its identifier, its tool, its arguments.
type CallParts = (String, String, String);

/// The server's text for a stop, and the function that makes the stop from it.
type StopParts = (String, fn(String) -> Stop);

/// Where a state came from: wire and base URL, model and key.
type OriginParts = ((String, String), (String, String));

/// A part: which one and its length; its origin, its state and the digest of that.
type PartParts = ((u64, u64), Option<(OriginParts, Option<String>, Digest)>);

/// The bytes: number, digest, whether they held a secret.
type StreamedParts = Option<(u64, Option<Digest>, u64)>;

impl Parted for ModelReply {
    type Parts = (
        (Option<String>, (Vec<CallParts>, Vec<PartParts>), StopParts),
        (Vec<u8>, StreamedParts, String),
        ((u64, u64), (Digest, Option<FormParts>, u64), SecretCounts),
    );

    fn apart(self) -> (Self::Parts, fn(Self::Parts) -> Self) {
        let Self { text, calls, parts, stop, usage, request_digest, raw, streamed, model, .. } = self;
        let (states_left_out, found) = (self.states_left_out, self.found);
        let form = self.form.map(RequestForm::apart);
        let apart = |ProposedCall { id, tool, arguments }| (id, tool, arguments);
        let calls = calls.into_iter().map(apart).collect();
        let parts = parts.into_iter().map(ReplyPart::apart).collect();
        let TokenUsage { input_tokens, output_tokens } = usage;
        let streamed = streamed.map(|one| (one.bytes, one.digest, u64::from(one.held_secret)));
        let counted = ((input_tokens, output_tokens), (request_digest, form, states_left_out), found);
        (((text, (calls, parts), stop.apart()), (raw, streamed, model), counted), Self::whole)
    }
}

impl ModelReply {
    /// A reply of `text`, then `calls`, that no server made.
    #[must_use]
    pub fn new(text: Option<String>, calls: Vec<ProposedCall>, stop: Stop) -> Self {
        Self {
            parts: arranged(text.as_ref().map_or(0, String::len), calls.len(), Vec::new()),
            text,
            calls,
            stop,
            usage: TokenUsage::default(),
            request_digest: Digest::sha256(b""),
            form: None,
            raw: Vec::new(),
            streamed: None,
            states_left_out: 0,
            model: String::new(),
            found: SecretCounts::default(),
        }
    }

    /// Whether there was no room for a reply: the model stopped because of the length before it
    /// wrote anything.
    #[must_use]
    pub fn is_without_room(&self) -> bool {
        let is_empty = self.text.is_none() && self.calls.is_empty() && self.usage.output_tokens == 0;
        self.stop == Stop::Length && is_empty
    }

    fn whole((said, (raw, streamed, model), counted): <Self as Parted>::Parts) -> Self {
        let (text, (calls, parts), (why, stop)) = said;
        let ((input_tokens, output_tokens), (request_digest, form, states_left_out), found) = counted;
        let whole = |(id, tool, arguments)| ProposedCall { id, tool, arguments };
        let calls: Vec<ProposedCall> = calls.into_iter().map(whole).collect();
        let parts = parts.into_iter().map(ReplyPart::whole).collect();
        let streamed =
            streamed.map(|(bytes, digest, held)| StreamedBytes { bytes, digest, held_secret: held != 0 });
        Self {
            parts: arranged(text.as_ref().map_or(0, String::len), calls.len(), parts),
            calls,
            text,
            stop: stop(why),
            raw,
            streamed,
            states_left_out,
            model,
            usage: TokenUsage { input_tokens, output_tokens },
            request_digest,
            form: form.map(RequestForm::whole),
            found,
        }
    }
}

impl ReplyPart {
    /// The length of its state.
    pub(super) fn state_bytes(&self) -> usize {
        match self {
            Self::Opaque(opaque) => opaque.state.as_ref().map_or(0, String::len),
            Self::Text(_) | Self::Call => 0,
        }
    }

    fn apart(self) -> PartParts {
        match self {
            Self::Text(bytes) => ((0, bytes as u64), None),
            Self::Call => ((1, 0), None),
            Self::Opaque(OpaqueState { origin, state, digest }) => {
                let OpaqueOrigin { wire, base_url, model, key } = origin;
                ((2, 0), Some((((wire, base_url), (model, key)), state, digest)))
            }
        }
    }

    /// A state in which a secret was replaced is dropped: its server would not accept it.
    fn whole(((which, bytes), opaque): PartParts) -> Self {
        match (which, opaque) {
            (_, Some((((wire, base_url), (model, key)), state, digest))) => {
                let state = state.filter(|state| Digest::sha256(state.as_bytes()) == digest);
                let origin = OpaqueOrigin { wire, base_url, model, key };
                Self::Opaque(OpaqueState { origin, state, digest })
            }
            (0, None) => Self::Text(usize::try_from(bytes).unwrap_or(usize::MAX)),
            (_, None) => Self::Call,
        }
    }
}

/// `parts`, if they belong to a text of this length and to this many calls. Replaced secrets change
/// the length of a text: then the first of its parts is all of it. An entry of an earlier version
/// has no parts: they are the text, then the calls.
pub(super) fn arranged(text_bytes: usize, calls: usize, parts: Vec<ReplyPart>) -> Vec<ReplyPart> {
    let count = |is: fn(&ReplyPart) -> usize| parts.iter().map(is).fold(0_usize, usize::saturating_add);
    let texts = count(|part| if let ReplyPart::Text(bytes) = part { *bytes } else { 0 });
    let is_of_calls = count(|part| usize::from(matches!(part, ReplyPart::Call))) == calls;
    if texts == text_bytes && is_of_calls {
        return parts;
    }
    let text = Some(ReplyPart::Text(text_bytes)).filter(|_| text_bytes > 0);
    if !is_of_calls {
        return text.into_iter().chain(std::iter::repeat_n(ReplyPart::Call, calls)).collect();
    }
    let is_text = |part: &ReplyPart| matches!(part, ReplyPart::Text(_));
    let at = parts.iter().position(is_text).unwrap_or(0);
    let mut others: Vec<ReplyPart> = parts.into_iter().filter(|part| !is_text(part)).collect();
    // Only parts that stay are before the first text.
    others.splice(at..at, text);
    others
}

/// The pieces of a reply in order. `parts` are [`arranged`].
pub(super) fn pieces<'a>(
    text: &'a str,
    calls: &'a [ProposedCall],
    parts: &'a [ReplyPart],
) -> impl Iterator<Item = ReplyPiece<'a>> {
    let (mut rest, mut calls) = (text, calls.iter());
    parts.iter().filter_map(move |part| match part {
        ReplyPart::Text(bytes) => {
            // A length that is not at the end of a character takes all that is left.
            let (piece, after) = rest.split_at_checked(*bytes).unwrap_or((rest, ""));
            rest = after;
            Some(ReplyPiece::Text(piece)).filter(|_| !piece.is_empty())
        }
        ReplyPart::Call => calls.next().map(ReplyPiece::Call),
        ReplyPart::Opaque(state) => Some(ReplyPiece::Opaque(state)),
    })
}

/// Why a model stopped. The same words for every wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// It finished.
    #[default]
    EndTurn,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It reached a limit on length; text and arguments may be truncated.
    Length,
    /// It refused, with this text.
    Refusal(String),
    /// The provider withheld the reply, or the rest of it, for this reason.
    ContentFilter(String),
    /// It finished without a text or a call.
    Empty,
    /// The server read only a part of the request, as this text says: the model may not have seen
    /// its instructions, so none of its calls is run.
    Truncated(String),
    /// The stream ended before the reply did, for this reason. The text is what came; there are no
    /// calls.
    Cut(String),
    /// A reason from the server that this room does not know.
    Other(String),
}

impl Stop {
    /// Why the reply may not be used, although there is one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Truncated(why) => Some(format!("the model did not get the whole request: {why}")),
            Self::Cut(why) => Some(format!("the model's reply was cut: {why}")),
            Self::EndTurn
            | Self::ToolCalls
            | Self::Length
            | Self::Refusal(_)
            | Self::ContentFilter(_)
            | Self::Empty
            | Self::Other(_) => None,
        }
    }

    fn apart(self) -> StopParts {
        match self {
            Self::Refusal(why) => (why, Self::Refusal),
            Self::ContentFilter(why) => (why, Self::ContentFilter),
            Self::Truncated(why) => (why, Self::Truncated),
            Self::Cut(why) => (why, Self::Cut),
            Self::Other(name) => (name, Self::Other),
            Self::EndTurn => (String::new(), |_| Self::EndTurn),
            Self::ToolCalls => (String::new(), |_| Self::ToolCalls),
            Self::Length => (String::new(), |_| Self::Length),
            Self::Empty => (String::new(), |_| Self::Empty),
        }
    }
}

/// Token counts, as reported by the server; zero if not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
}
