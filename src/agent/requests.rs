//! The operations of the agent: run, find, list tools, recover.

use super::answer::AnswerSchema;
use super::api::{RunError, RunReply, RunRequest, ToolView};
use super::sessions::EnteredSession;
use super::shared::Agent;
use super::views::{RunListError, RunQuery, RunsPage};
use super::{resume, run, views};
use crate::auth::Principal;
use crate::gate::{Approval, RecoverError, Sight};
use crate::ledger::{AppendError, Index, ReadError};
use crate::llm::{Direct, Proposer, Provider, ProviderKind};
use crate::policy::Door;
use crate::types::{RunId, SessionId, Stoppable, limits};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Agent {
    /// Runs a message that came in through `channel` to its end. Returns after the reply is
    /// durable.
    ///
    /// To be awaited to completion: a run that is dropped half way is closed by the recovery of the
    /// next start.
    pub async fn run(
        &self,
        principal: &Principal,
        door: Door,
        request: RunRequest,
    ) -> Result<RunReply, RunError> {
        check(&request)?;
        self.check_ceiling(&request)?;
        let provider = self.provider.clone();
        let schema = self.schema(&request, &*provider)?;
        let session = match &request.session {
            None => EnteredSession::new(),
            Some(named) => self.enter(principal, door, named).await?,
        };
        self.walk(principal, door, (request, schema), provider, session).await
    }

    /// Runs one call that a person makes, through the same checks as a model's call.
    pub async fn call(
        &self,
        principal: &Principal,
        door: Door,
        tool: String,
        arguments: String,
    ) -> Result<RunReply, RunError> {
        let request = RunRequest { message: format!("{tool} {arguments}"), ..RunRequest::default() };
        let provider = Arc::new(Direct::new(tool, arguments));
        self.walk(principal, door, (request, None), provider, EnteredSession::new()).await
    }

    /// Closes what a crash left open, with the functions that close it normally: first allowed
    /// calls without a result, then runs without a reply. Returns their number. No tool runs again.
    pub async fn recover(&self) -> Result<usize, RecoverError> {
        resume::recover(self).await
    }

    /// Returns a run, read from its entries, or `None` if it is not in `sight`. Blocking.
    pub fn find(&self, sight: &Sight, run: &RunId) -> Result<Option<RunReply>, ReadError> {
        views::find(self.ledger(), run, |owner| sight.sees(owner))
    }

    /// Returns the run that `approval` belongs to, for a caller who may see the approval. Blocking.
    pub fn find_asked(&self, approval: &Approval) -> Result<Option<RunReply>, ReadError> {
        views::find(self.ledger(), &approval.run, |owner| owner == approval.requester.principal)
    }

    /// Returns the callers whose runs are in `sight`, by their names on the ledger. Blocking.
    pub fn run_owners(&self, sight: &Sight) -> Result<BTreeSet<String>, ReadError> {
        let owners = views::owners(self.ledger())?;
        Ok(owners.into_iter().filter(|owner| sight.sees(owner)).collect())
    }

    /// Returns the runs in `sight`, newest first. A search needs `index`. Blocking.
    pub fn runs(
        &self,
        index: Option<&Index>,
        sight: &Sight,
        query: &RunQuery,
    ) -> Result<RunsPage, RunListError> {
        views::list(self.ledger(), index, query, |owner| sight.sees(owner))
    }

    /// As [`Agent::runs`], every run, for callers who may read the audit. Blocking.
    pub fn all_runs(&self, index: Option<&Index>, query: &RunQuery) -> Result<RunsPage, RunListError> {
        views::list(self.ledger(), index, query, |_| true)
    }

    /// Returns the tools that `principal` may use.
    #[must_use]
    pub fn tools(&self, principal: &Principal) -> Vec<ToolView> {
        let id = SessionId::generate();
        let session = self.session(id.as_str(), limits::CALLS_PER_RUN_MAX, principal.ceiling());
        self.gate.offered(principal, &session).1.iter().map(|manifest| ToolView::from(&**manifest)).collect()
    }

    /// Refuses a ceiling with a name that no loaded tool has: it is mistyped.
    fn check_ceiling(&self, request: &RunRequest) -> Result<(), RunError> {
        let rules = self.gate().rules();
        let unknown = rules.catalog.unknown(&request.tools);
        unknown.map_or(Ok(()), |unknown| Err(RunError::Invalid("tools", unknown.to_string())))
    }

    /// The schema of the request, if it has one.
    fn schema(
        &self,
        request: &RunRequest,
        provider: &dyn Provider,
    ) -> Result<Option<AnswerSchema>, RunError> {
        let Some(schema) = &request.response_schema else { return Ok(None) };
        let schema = AnswerSchema::read(schema, self.secrets()).map_err(RunError::Schema)?;
        if provider.proposer() == Proposer::Model(ProviderKind::Offline) {
            let why = "needs a language model: without one, PAR answers in its own sentences";
            return Err(RunError::Invalid("response_schema", why.to_owned()));
        }
        Ok(Some(schema))
    }

    async fn walk(
        &self,
        principal: &Principal,
        door: Door,
        request: (RunRequest, Option<AnswerSchema>),
        provider: Arc<dyn Provider>,
        session: EnteredSession,
    ) -> Result<RunReply, RunError> {
        if let Some(damage) = self.ledger().damage() {
            return Err(AppendError::Damaged(Box::new(damage)).into());
        }
        let (caller, run) = (principal.id(), RunId::generate());
        let what = Stoppable { caller: &caller, session: &session.id, run: &run, tool: None };
        if let Some(halt) = self.gate().stop_of(&what) {
            return Err(RunError::Halted(Box::new(halt)));
        }
        let _place = self.take_place(&principal.id())?;
        if let Some(obstacle) = self.obstacle() {
            return Err(RunError::Ledger(obstacle));
        }
        // Before any entry: a refused request takes no slot. A key starts at most as many runs at
        // once as it has slots.
        if let Some((of, retry_after_s)) = self.spent(principal, door) {
            return Err(RunError::Spent { of, retry_after_s });
        }
        let EnteredSession { id, history, turn: _turn } = session;
        run::walk(self, principal, door, request, provider, (id, history)).await
    }
}

/// Refuses fields of later versions by name, and values out of range.
fn check(request: &RunRequest) -> Result<(), RunError> {
    let not_yet = |field| Err(RunError::Invalid(field, "not supported by this version".to_owned()));
    if request.agent.is_some() {
        return not_yet("agent");
    }
    for (field, asked) in
        [("dry_run", request.dry_run), ("background", request.background), ("untrusted", request.untrusted)]
    {
        if asked {
            return not_yet(field);
        }
    }
    if request.message.trim().is_empty() {
        return Err(RunError::Invalid("message", "must not be empty".to_owned()));
    }
    if request.message.contains('\0') {
        return Err(RunError::Invalid("message", "contains a NUL character".to_owned()));
    }
    match request.limits.calls_max {
        Some(calls) if calls == 0 || calls > limits::CALLS_PER_RUN_MAX => {
            let reason = format!("must be between 1 and {}", limits::CALLS_PER_RUN_MAX);
            Err(RunError::Invalid("limits.calls_max", reason))
        }
        _ => Ok(()),
    }
}
