//! The enforcement point: every tool call and every tool result passes through this room.
//!
//! ```text
//! open → (sandbox prepares) → decide | refuse → commit → Permit::begin → (sandbox runs) → settle
//! ```
//! The rules may be exchanged at any time (`exchange`); each decision is made under the rules that
//! are in force when it is committed. A call that needs a person ends the walk at `commit`.
//! `approval` records the person's answer, `recall` finds the call again, and it takes the same
//! walk again, from `reopen` on.
//!
//! # Layout, lowest first
//!
//! * `stops`: halts and cancelled runs. `rules`, `counters`, `facts`, `outcome`, `requested`:
//!   values: the rules in force, the calls of the last hour, a call, its result as an entry,
//!   and an approval request as an entry.
//! * `mint/`: the proofs, each in the one module that makes it.
//! * `pending`, `point`: a call before its decision, and the enforcement point itself.
//! * `power`, `exchange`, `halt`: uses of the API's powers, the exchange of the rules, and stops.
//! * `resource`, `subtree`: from the sandbox's claim to what policies see.
//! * `context`, `decided`, `card`, `question`: the requester of a call, an uncommitted decision,
//!   and what a person is shown.
//! * `ask`: requests to language models.
//! * `decide`, `earlier`, `commit`: decisions, questions that were asked before, and making
//!   decisions and results durable.
//! * `reread`: whether an earlier result may be shown again, asked as of now.
//! * `recover`, `recall`: open calls after a crash, and the calls of a run read back.
//! * `approval/`: approvals, refusals and time-outs.
//!
//! Architecture invariants:
//! * A [`Permit`] exists only if the decision it carries is on the ledger.
//! * A [`ToolResult`] exists only if the outcome it carries is on the ledger.
//! * This room imports neither `sandbox` nor `llm`.
//!
//! A permit cannot be built elsewhere:
//! ```compile_fail,E0451
//! fn forge(permit: par::gate::Permit) -> par::gate::Permit {
//!     par::gate::Permit { ..permit }
//! }
//! ```
//! nor used twice:
//! ```compile_fail,E0382
//! fn twice(permit: par::gate::Permit) {
//!     let _first = permit.begin();
//!     let _second = permit.begin();
//! }
//! ```
//! nor skipped, because an order is made only from a permit:
//! ```compile_fail,E0451
//! fn skip(order: par::gate::Order) -> par::gate::Order {
//!     par::gate::Order { ..order }
//! }
//! ```
//! A running call cannot be forged, and its outcome cannot be shown to a model before it is
//! settled:
//! ```compile_fail,E0616
//! fn invent(mut running: par::gate::Running) {
//!     running.decision = 7;
//! }
//! ```
//! ```compile_fail,E0308
//! fn leak(chat: &mut par::llm::Conversation, ran: par::call::Execution) {
//!     chat.push_results(vec![ran]);
//! }
//! ```
//! ```compile_fail,E0451
//! fn forge(result: par::gate::ToolResult) -> par::gate::ToolResult {
//!     par::gate::ToolResult { ..result }
//! }
//! ```
//! No other room can forge a granted power:
//! ```compile_fail,E0451
//! fn claim(granted: par::gate::Granted) -> par::gate::Granted {
//!     par::gate::Granted { ..granted }
//! }
//! ```
//! No other room can forge the permission to send a conversation to a model:
//! ```compile_fail,E0451
//! fn clear(permit: par::gate::ModelPermit) -> par::gate::ModelPermit {
//!     par::gate::ModelPermit { ..permit }
//! }
//! ```
//! No other room can forge a person's approval:
//! ```compile_fail,E0451
//! fn consent(asked: par::gate::Asked) -> par::gate::Asked {
//!     par::gate::Asked { ..asked }
//! }
//! ```

mod stops;
mod rules;
mod counters;
mod facts;
mod outcome;
mod refusal;
mod requested;
mod listed;
mod mint;
mod pending;
mod point;
mod power;
mod exchange;
mod halt;
mod resource;
mod subtree;
mod units;
mod context;
mod ask;
mod decided;
mod card;
mod question;
mod decide;
mod reread;
mod earlier;
mod commit;
mod recover;
mod recall;
mod approval;

pub use approval::answer::Answer;
pub use approval::error::{AnswerError, OtherMember, OtherNeeded};
pub use approval::view::Approval;
pub use ask::{AskOutcome, AskRefusal, ModelAsk};
pub use context::CallContext;
pub use counters::{counts, ran};
pub use decided::Decided;
pub use facts::CallRecord;
pub use halt::{CancelledRun, HaltError, HaltOrder};
pub use listed::ApprovalsAsked;
pub use mint::asked::Asked;
pub use mint::cleared::ModelPermit;
pub use mint::granted::{Granted, Refused};
pub use mint::permit::{Connecting, Order, Permit};
pub use mint::running::Running;
pub use mint::told::{Outcome, ToolResult, Waiting};
pub use pending::Pending;
pub use point::Gate;
pub use power::Sight;
pub use recall::{Recall, Recalled, refused_by};
pub use recover::{PROJECTION, RecoverError};
pub use requested::State;
pub use resource::describe_content;
pub use rules::{Lapse, Rules};
pub use stops::{StopEnds, StopInForce};
pub use subtree::UNNAMED_CHILD;
pub use units::is_left_out;

#[cfg(test)]
mod tests;
