//! The enforcement point: the one door to a tool, and the one door back.
//!
//! ```text
//! open → (sandbox prepares) → decide | refuse → commit → Permit::begin → (sandbox runs) → settle
//! ```
//! The rules may be exchanged at any time (`rules`); each decision is under those in force when it is
//! committed. A call that needs a person ends the walk at `commit`. `answer` records what the person says, `recall`
//! finds the call again, and it takes the same walk once more, from `reopen` on.
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
//! nor skipped: an order comes out of a permit only.
//! ```compile_fail,E0451
//! fn skip(order: par::gate::Order) -> par::gate::Order {
//!     par::gate::Order { ..order }
//! }
//! ```
//! What runs cannot be made up, and its outcome cannot be told before it is settled:
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
//! A power cannot be said to be granted by anybody else:
//! ```compile_fail,E0451
//! fn claim(granted: par::gate::Granted) -> par::gate::Granted {
//!     par::gate::Granted { ..granted }
//! }
//! ```
//! A person's yes cannot be made up:
//! ```compile_fail,E0451
//! fn consent(asked: par::gate::Asked) -> par::gate::Asked {
//!     par::gate::Asked { ..asked }
//! }
//! ```

mod answer;
mod asked;
mod beneath;
mod counters;
mod decide;
mod object;
mod order;
mod outcome;
mod power;
mod recall;
mod record;
mod recover;
mod rules;

pub use answer::{Answer, AnswerError, Approval, Asked};
pub use asked::State;
pub use beneath::ANY_NAME;
pub use counters::{counts, ran};
pub use decide::{Asking, Decided, Gate};
pub use object::content_words;
pub use order::{Connecting, Order, Pending, Permit, Running};
pub use power::{Granted, Refused, Sight};
pub use recall::{Recall, Recalled};
pub use record::{CallRecord, Outcome, ToolResult, Waiting};
pub use recover::{PROJECTION, RecoverError};
pub use rules::Rules;

#[cfg(test)]
mod tests;
