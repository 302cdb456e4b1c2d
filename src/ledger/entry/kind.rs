//! What an entry records.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What an entry records. A reader may also find kinds of later versions, as text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind of this version.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind as it is written in the header.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Parses a kind as it is written in the header; `None` if this version does not know
            /// it.
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
    /// A server or a command started.
    Start = "start";
    /// The configuration in force.
    ConfigLoad = "config.load";
    /// The policy bundle in force.
    PolicyLoad = "policy.load";
    /// New rules could not be loaded; the rules before them stay in force.
    PolicyRefuse = "policy.refuse";
    /// The tools in force, and the folders that were skipped.
    ToolsLoad = "tools.load";
    /// An API key was created; the payload holds its verifiers and is never shown.
    KeyCreate = "key.create";
    /// An API key was revoked.
    KeyRevoke = "key.revoke";
    /// The number of credentials refused since the last such entry.
    AuthRefused = "auth.refused";
    /// A run was requested with a message.
    RunRequest = "run.request";
    /// A model is about to be asked, or the rules do not allow it; no byte has left.
    ModelAsk = "model.ask";
    /// The model answered.
    ModelReply = "model.reply";
    /// The model did not answer.
    ModelError = "model.error";
    /// Results of calls are left out of what the model reads from now on.
    ContextTrim = "context.trim";
    /// A proposed call was decided.
    CallDecision = "call.decision";
    /// What would be decided on a call that is not made. Nothing follows from it.
    CallForecast = "call.forecast";
    /// An allowed call is about to be connected to a host; no byte has passed.
    CallConnect = "call.connect";
    /// An allowed call ended.
    CallResult = "call.result";
    /// A call waits for a person.
    ApprovalRequest = "approval.request";
    /// A person approved exactly that call.
    ApprovalGrant = "approval.grant";
    /// A person refused the call, or the approval expired.
    ApprovalRefuse = "approval.refuse";
    /// A person cancelled a run.
    RunCancel = "run.cancel";
    /// A run ended.
    RunReply = "run.reply";
    /// A caller ended a session.
    SessionEnd = "session.end";
    /// A person halted all of PAR, a caller, a tool or a session.
    HaltSet = "halt.set";
    /// A person lifted a halt.
    HaltLift = "halt.lift";
    /// A new key signs checkpoints; the payload holds the seal of the previous epoch.
    KeyEpoch = "key.epoch";
    /// A place outside this host has taken a checkpoint.
    Anchor = "anchor";
    /// Entries were exported in one file.
    Export = "export";
    /// A payload was erased.
    Redaction = "redaction";
    /// The last entry of a segment.
    SegmentSeal = "segment.seal";
    /// The payloads of a segment that passed its maximum age are gone.
    PayloadDrop = "payload.drop";
    /// A verification found that the stored ledger is not what was written. After it, only starts,
    /// stops, refused credentials, exports and further entries of this kind are appended.
    LedgerDamage = "ledger.damage";
    /// The start found and closed what a crash had left open.
    Recovery = "recovery";
    /// A server or a command ended in order.
    Stop = "stop";
}

impl Kind {
    /// Whether a log that is known to be damaged accepts entries of this kind.
    #[must_use]
    pub fn is_written_on_damage(self) -> bool {
        matches!(self, Self::Start | Self::Stop | Self::AuthRefused | Self::Export | Self::LedgerDamage)
    }

    /// Whether a redaction may erase payloads of this kind. Keys, rules and approvals are rebuilt
    /// from theirs.
    #[must_use]
    pub fn is_redactable(self) -> bool {
        self.holds_words()
    }

    /// Whether payloads of this kind are dropped once their segment has passed its maximum age.
    /// Rows of state.db are never made from such a payload, so that rebuilding state.db after a
    /// drop gives the same rows.
    #[must_use]
    pub fn is_expirable(self) -> bool {
        self.holds_words()
    }

    /// Whether payloads of this kind hold what people, models and tools wrote, and nothing that PAR
    /// rebuilds its state from.
    fn holds_words(self) -> bool {
        matches!(
            self,
            Self::AuthRefused
                | Self::RunRequest
                | Self::ModelAsk
                | Self::ModelReply
                | Self::ModelError
                | Self::CallDecision
                | Self::CallForecast
                | Self::CallConnect
                | Self::CallResult
                | Self::RunReply
        )
    }
}
