//! The payloads: one struct for each kind of entry.
//!
//! Writers fill these structs, and readers, projectors and verifiers parse them; the code has no
//! other list of members. `docs/ledger-format.md` has the same list, and a test compares the two.
//! Nothing here touches a disk. A parsed payload proves nothing: its reader has verified the
//! ledger, or says that it has not.
//!
//! A payload may gain members and never loses or renames one. A reader accepts members that it does
//! not know. Members that came after the first version are an `Option` or have a default. A Cedar
//! request, the arguments of a call and the output of a tool have no struct: they stay JSON.
//!
//! # Layout
//!
//! `form` (how optional members are written) · `power` (the power that an action used) · `log` (the
//! log's own entries) · `segments` (which segments are sealed or dropped) · `key` (API keys) ·
//! `server` (starts, rules, tools) · `call` · `sent` (what a request was made
//! of) · `answer` (an answer with a schema) · `run` (a run and its model) · `approval` ·
//! `stop` (halts and cancelled runs).

mod form;
mod power;
mod log;
mod segments;
mod key;
mod server;
mod call;
mod sent;
mod answer;
mod run;
mod approval;
mod stop;
#[cfg(test)]
mod tests;

pub use answer::{HeldResponse, HeldStatus, RequestedSchema, UnfitAnswer};
pub use approval::{
    ApprovalGrantPayload, ApprovalRefusePayload, ApprovalRequestPayload, ApprovalSubject, AskingPolicy,
    RequestedBy, ShownCall, ShownSandbox, ShownScript, TaintRange, TaintingResult,
};
pub use call::{
    BeneathDecision, CallConnectPayload, CallDecisionPayload, CallForecastPayload, CallResultPayload,
    ConnectionTried, ConnectionsMade, Excluded, NearestRule, ObjectFound, ShadowDecision,
};
pub use form::CutPayload;
pub use key::{AuthRefusedPayload, KeyBefore, KeyCreatePayload, KeyRevokePayload};
pub use log::{
    AnchorPayload, ExportPayload, GenesisPayload, KeyEpochPayload, LedgerDamagePayload, PayloadDropPayload,
    PreviousLog, RedactionPayload, SegmentSealPayload, SetAsideFile, VerifyPass,
};
pub use power::PowerUsed;
pub use run::{
    AnswerBy, CallProposed, ModelAskPayload, ModelErrorPayload, ModelReplyPayload, RepliedPart, RepliedState,
    RequestedRunbook, RunReplyPayload, RunRequestPayload, Step, StepLedger, StepRefusal, StopReason, Usage,
};
pub(super) use segments::{dropped, sealed};
pub use sent::{ContextTrimPayload, SentForm, TrimReason};
pub use server::{
    ConfigLoadPayload, ConfigValue, LoadedPolicy, LoadedProgram, LoadedRunbook, LoadedScript, LoadedTool,
    MountNamed, NameChanges, PolicyLoadPayload, PolicyRefusePayload, RecoveryPayload, RulesDifference,
    SkippedFolder, StartPayload, StopPayload, ToolRefusal, ToolsLoadPayload,
};
pub use stop::{HaltLiftPayload, HaltSetPayload, RunCancelPayload, SessionEndPayload};
