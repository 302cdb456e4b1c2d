//! The form of a request: what determines its bytes, next to the conversation and the tools.

/// A model at its server. Opaque state is sent only to the one that it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpaqueOrigin {
    /// The wire, by its name in the configuration.
    pub wire: String,
    /// The base URL.
    pub base_url: String,
    /// The model as configured.
    pub model: String,
    /// What tells the key from another ([`Finder::key_identity`]); `none` without a key, and empty
    /// in records of earlier versions.
    ///
    /// [`Finder::key_identity`]: crate::secrets::Finder::key_identity
    pub key: String,
}

impl OpaqueOrigin {
    /// The `key` of a server that gets none.
    pub(super) const NO_KEY: &'static str = "none";
}

/// What determines the bytes of a request, next to the conversation and the tools. Recorded with
/// the outcome of the request, so that it can be built again from the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestForm {
    /// The wire, the server and the model.
    pub origin: OpaqueOrigin,
    /// The bound on the reply, if the configuration sets one.
    pub reply_tokens_max: Option<u32>,
    /// The size of the context, for a server that sets it by request.
    pub context_tokens: u32,
    /// Whether the reply was to come as a stream.
    pub is_streamed: bool,
    /// Whether it leaves out what not every server of the protocol accepts.
    pub is_plain: bool,
}

/// A form taken apart: the origin, and the numbers.
pub(super) type FormParts = (((String, String), (String, String)), (Option<u64>, u64, u64));

impl RequestForm {
    pub(super) fn apart(self) -> FormParts {
        let Self { origin: OpaqueOrigin { wire, base_url, model, key }, reply_tokens_max, .. } = self;
        let flags = u64::from(self.is_streamed) | u64::from(self.is_plain) << 1;
        (
            ((wire, base_url), (model, key)),
            (reply_tokens_max.map(u64::from), u64::from(self.context_tokens), flags),
        )
    }

    pub(super) fn whole((((wire, base_url), (model, key)), numbers): FormParts) -> Self {
        let (reply_tokens_max, context_tokens, flags) = numbers;
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            origin: OpaqueOrigin { wire, base_url, model, key },
            reply_tokens_max: reply_tokens_max.map(small),
            context_tokens: small(context_tokens),
            is_streamed: flags & 1 != 0,
            is_plain: flags & 2 != 0,
        }
    }
}
