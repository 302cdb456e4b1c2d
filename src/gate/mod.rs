//! The enforcement point: the one door to a tool, and the one door back.
//!
//! ```text
//! open → (sandbox prepares) → decide | refuse → commit → Permit::begin → (sandbox runs) → settle
//! ```
//! The rules may be exchanged at any time (`exchange`); each decision is made under those in force when it is
//! committed. A call that needs a person ends the walk at `commit`. `approval` records what the person answers, `recall`
//! finds the call again, and it takes the same walk again, from `reopen` on.
//!
//! # Layout, lowest first
//!
//! `rules` in force, `counters` of the last hour, `facts` of a call, its `outcome` in the words of an entry, and what was
//! `requested` of a person are values. `mint` holds the proofs, each in a module that alone makes it. `pending` is a call on its
//! way, `point` the enforcement point itself. On it stand `power` (may somebody use the API so), `exchange` of the rules,
//! `resource` and `subtree` (from the sandbox's claim to what policies see), `question` (what a person is asked), `decide`,
//! `commit` (decisions and results become durable), `recover` (after a crash), `recall` (calls of a run, found again) and
//! `approval`.
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

mod rules;
mod counters;
mod facts;
mod outcome;
mod requested;
mod mint;
mod pending;
mod point;
mod power;
mod exchange;
mod resource;
mod subtree;
mod asking;
mod decided;
mod question;
mod decide;
mod commit;
mod recover;
mod recall;
mod approval;

pub use approval::answer::Answer;
pub use approval::error::AnswerError;
pub use approval::view::Approval;
pub use asking::Asking;
pub use counters::{counts, ran};
pub use decided::Decided;
pub use facts::CallRecord;
pub use mint::asked::Asked;
pub use mint::granted::{Granted, Refused};
pub use mint::permit::{Connecting, Order, Permit};
pub use mint::running::Running;
pub use mint::told::{Outcome, ToolResult, Waiting};
pub use pending::Pending;
pub use point::Gate;
pub use power::Sight;
pub use recall::{Recall, Recalled};
pub use recover::{PROJECTION, RecoverError};
pub use requested::State;
pub use resource::content_words;
pub use rules::Rules;
pub use subtree::ANY_NAME;

#[cfg(test)]
mod tests;
