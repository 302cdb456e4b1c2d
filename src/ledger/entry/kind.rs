//! What an entry records.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What an entry records. A reader also meets kinds of later versions, as text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind that there is.
            pub(in crate::ledger) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word in the header.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The kind of this word; `None` of a later version's.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// The first entry: log id and log key.
    Genesis = "genesis";
    /// A server or a command began.
    Start = "start";
    /// The configuration in force.
    ConfigLoad = "config.load";
    /// The policy bundle in force.
    PolicyLoad = "policy.load";
    /// Rules that were to come into force and could not be loaded; those before them stay.
    PolicyRefuse = "policy.refuse";
    /// The tools in force and what was skipped.
    ToolsLoad = "tools.load";
    /// A key was made; the payload holds its verifiers and is never shown.
    KeyCreate = "key.create";
    /// A key was withdrawn.
    KeyRevoke = "key.revoke";
    /// How many credentials were refused since the last such entry.
    AuthRefused = "auth.refused";
    /// A message came in.
    RunRequest = "run.request";
    /// The model answered.
    ModelReply = "model.reply";
    /// The model did not answer.
    ModelError = "model.error";
    /// A proposed call was decided.
    CallDecision = "call.decision";
    /// An allowed call is about to be connected: no byte has passed.
    CallConnect = "call.connect";
    /// An allowed call ended.
    CallResult = "call.result";
    /// A call waits for a person.
    ApprovalRequest = "approval.request";
    /// A person said yes to exactly that call.
    ApprovalGrant = "approval.grant";
    /// A person said no, or nobody answered in time.
    ApprovalRefuse = "approval.refuse";
    /// A run ended.
    RunReply = "run.reply";
    /// A new key signs checkpoints; the payload holds the seal of the epoch before.
    KeyEpoch = "key.epoch";
    /// A checkpoint was taken by a place outside.
    Anchor = "anchor";
    /// Entries were taken out in one file.
    Export = "export";
    /// A payload was erased.
    Redaction = "redaction";
    /// The last entry of a segment.
    SegmentSeal = "segment.seal";
    /// Payloads of a segment that was over its age are gone.
    PayloadDrop = "payload.drop";
    /// The start found and closed what a crash had left open.
    Recovery = "recovery";
    /// A server or a command ended in order.
    Stop = "stop";
}

impl Kind {
    /// Whether payloads of this kind are erased at all. Keys, rules and approvals are made again from theirs.
    #[must_use]
    pub fn may_be_erased(self) -> bool {
        matches!(
            self,
            Self::AuthRefused
                | Self::RunRequest
                | Self::ModelReply
                | Self::ModelError
                | Self::CallDecision
                | Self::CallConnect
                | Self::CallResult
                | Self::RunReply
        )
    }
}
