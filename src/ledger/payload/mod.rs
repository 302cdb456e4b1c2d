//! What each kind of entry says: one struct for each payload.
//!
//! Writers fill these structs, and readers, projectors and verifiers read them: there is no other list of members in the
//! code. `docs/ledger-format.md` has the same list, and a test compares the two. Nothing here touches a disk, and a payload
//! that was read proves nothing: who reads one from a ledger has verified the ledger, or says so.
//!
//! A payload may gain members and never loses or renames one. A reader takes members that it does not know. What came after
//! the first version is an `Option` or has a default. A Cedar request, the arguments of a call and the output of a tool have
//! no struct: they stay JSON.
//!
//! # Layout
//!
//! `form` (how optional members are written), `power` (what let a person in), `log` (the log's own entries), `key`, `server`
//! (starts, rules, tools), `run` (a run and its model), `call`, `approval`.

mod form;
mod power;
mod log;
mod key;
mod server;
mod run;
mod call;
mod approval;
#[cfg(test)]
mod tests;

pub use approval::{
    ApprovalGrantPayload, ApprovalRefusePayload, ApprovalRequestPayload, ApprovalSubject, AskingPolicy,
    RequestedBy, TaintingResult,
};
pub use call::{
    BeneathDecision, CallConnectPayload, CallDecisionPayload, CallResultPayload, ConnectionTried,
    ConnectionsMade, Excluded, ObjectFound, ShadowDecision,
};
pub use form::CutPayload;
pub use key::{AuthRefusedPayload, KeyBefore, KeyCreatePayload, KeyRevokePayload};
pub use log::{
    AnchorPayload, Aside, Before, ExportPayload, GenesisPayload, KeyEpochPayload, PayloadDropPayload,
    RedactionPayload, SegmentSealPayload,
};
pub use power::PowerUsed;
pub use run::{
    CallProposed, ModelErrorPayload, ModelReplyPayload, RunReplyPayload, RunRequestPayload, Step, StepLedger,
    StopReason, Usage,
};
pub use server::{
    ConfigLoadPayload, ConfigValue, LoadedPolicy, LoadedProgram, LoadedScript, LoadedTool, MountNamed,
    NameChanges, PolicyLoadPayload, PolicyRefusePayload, RecoveryPayload, RulesDifference, SkippedFolder,
    StartPayload, StopPayload, ToolRefusal, ToolsLoadPayload,
};
