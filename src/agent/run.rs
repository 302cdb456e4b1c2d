//! The agent's doors: run, find, tools, recover.

use super::api::{RunError, RunReply, RunRequest, ToolView};
use super::list::{self, RunQuery, RunRow};
use super::{recover, view, walk};
use crate::auth::{Principal, Source};
use crate::gate::{Gate, RecoverError, Sight};
use crate::ledger::{Hour, Ledger, ReadError};
use crate::llm::{Direct, Provider};
use crate::policy::Session;
use crate::sandbox::Launcher;
use crate::secrets::Secrets;
use crate::types::clock::Wall;
use crate::types::{Full, RunId, SessionId, Share, Shares, limits};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The agent: one loop for every channel. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(super) gate: Gate,
    pub(super) launcher: Launcher,
    pub(super) provider: Arc<dyn Provider>,
    places: Shares,
    /// What one key may run within an hour.
    key_hour: Hour,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Agent({})", self.provider.name())
    }
}

impl Agent {
    /// An agent that asks `provider`, decides at `gate` and runs in the sandbox behind `launcher`.
    #[must_use]
    pub fn new(gate: Gate, launcher: Launcher, provider: Arc<dyn Provider>) -> Self {
        let places = Shares::new(limits::RUNS_RUNNING_MAX, limits::KEY_RUNS_RUNNING_MAX);
        let key_hour = Hour { runs: limits::KEY_RUNS_HOUR_MAX, bytes: limits::KEY_BYTES_HOUR_MAX };
        Self { gate, launcher, provider, places, key_hour }
    }

    /// The same, where one key may run as much as `key_hour` within an hour. The owner of the home may run more by
    /// commands of its own.
    #[must_use]
    pub fn with_key_hour(self, key_hour: Hour) -> Self {
        Self { key_hour, ..self }
    }

    /// An agent with the shipped tools and policies whose launcher has ended, for tests of the rooms
    /// above: every call is decided, and none can run.
    #[cfg(test)]
    pub(crate) fn without_sandbox(ledger: Ledger) -> Self {
        use crate::gate::Rules;
        use crate::policy::{Bundle, Source};
        use std::collections::BTreeMap;
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let names = BTreeMap::from([
            ("logs".to_owned(), "/var/log".into()),
            ("workspace".to_owned(), "/nonexistent/workspace".into()),
        ]);
        let places = crate::tools::Places { names: names.clone(), private: Vec::new() };
        let catalog = crate::tools::Catalog::load(&top.join("tools.d"), &places).expect("shipped tools");
        let source = |name: &str| Source {
            name: name.to_owned(),
            text: std::fs::read_to_string(top.join(name)).expect("shipped policies"),
        };
        let sources = ["policies/00-api.cedar", "policies/10-read.cedar"].map(source);
        let bundle = Bundle::load(&sources, &catalog, &names.keys().cloned().collect()).expect("bundle");
        let rules = Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) };
        let gate = Gate::new(ledger, rules, names, Secrets::default()).expect("gate");
        let launcher = crate::sandbox::LinkSeed::of_ended().connect().expect("runtime");
        let provider = crate::llm::build(crate::llm::Settings::default()).expect("offline");
        Self::new(gate, launcher, provider)
    }

    /// Runs a message to its end. Returns after the reply is durable.
    ///
    /// To be awaited to its end: a run dropped half way is closed by the next start's recovery.
    pub async fn run(
        &self,
        principal: &Principal,
        source_ip: Option<IpAddr>,
        request: RunRequest,
    ) -> Result<RunReply, RunError> {
        check(&request)?;
        let provider = self.provider.clone();
        self.walk(principal, source_ip, request, provider).await
    }

    /// Walks one call of a person's own through every check, like a model's.
    pub async fn call(
        &self,
        principal: &Principal,
        tool: String,
        arguments: String,
    ) -> Result<RunReply, RunError> {
        let request = RunRequest { message: format!("{tool} {arguments}"), ..RunRequest::default() };
        self.walk(principal, None, request, Arc::new(Direct::new(tool, arguments))).await
    }

    /// Closes what a crash left open, by the functions that close it otherwise: allowed calls without
    /// a result, then runs without a reply. Returns how many; no tool runs again.
    pub async fn recover(&self) -> Result<usize, RecoverError> {
        recover::recover(self).await
    }

    /// A run, as its ledger entries tell it; `None` where there is none in `sight`. Blocking.
    pub fn find(&self, sight: &Sight, run: &RunId) -> Result<Option<RunReply>, ReadError> {
        view::find(self.ledger(), run, |owner| sight.sees(owner))
    }

    /// Runs in `sight`, newest first. Blocking.
    pub fn runs(&self, sight: &Sight, query: &RunQuery) -> Result<Vec<RunRow>, ReadError> {
        list::list(self.ledger(), query, |owner| sight.sees(owner))
    }

    /// Every run, newest first, for who reads the audit: all of it stands there. Blocking.
    pub fn all_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, ReadError> {
        list::list(self.ledger(), query, |_| true)
    }

    /// The tools that `principal` may use at all.
    #[must_use]
    pub fn tools(&self, principal: &Principal) -> Vec<ToolView> {
        let session = self.session(SessionId::generate().as_str(), limits::CALLS_PER_RUN_MAX);
        self.gate.offered(principal, &session).iter().map(|manifest| ToolView::from(&**manifest)).collect()
    }

    /// What keeps runs from being taken, if anything.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.ledger().obstacle()
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.gate.ledger()
    }

    /// The gate.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What is replaced in what comes from outside.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        self.gate.secrets()
    }

    /// The sandbox's front side.
    #[must_use]
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// A fresh session, with every tool in its ceiling.
    pub(super) fn session(&self, id: &str, budget: u32) -> Session {
        Session {
            id: id.to_owned(),
            ceiling: self.gate.rules().catalog.manifests().map(|manifest| manifest.name.clone()).collect(),
            taint: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: i64::from(budget),
            risk: 0,
        }
    }

    async fn walk(
        &self,
        principal: &Principal,
        source_ip: Option<IpAddr>,
        request: RunRequest,
        provider: Arc<dyn Provider>,
    ) -> Result<RunReply, RunError> {
        let _place = self.take_place(&principal.id())?;
        if let Some(obstacle) = self.obstacle() {
            return Err(RunError::Ledger(obstacle));
        }
        // Before any entry: what is refused takes no room. Of one key no more runs begin at once than it has places.
        if let Some((of, retry_after_s)) = self.spent(principal) {
            return Err(RunError::Spent { of, retry_after_s });
        }
        walk::walk(self, principal, source_ip, request, provider).await
    }

    /// Of what a key has used up its hour, if of anything, and until when, in seconds.
    pub(super) fn spent(&self, principal: &Principal) -> Option<(&'static str, u64)> {
        let Source::Key { .. } = principal.source() else { return None };
        let (by, now_us) = (principal.id(), Wall::now().0);
        let wait_s = self.ledger().hour_over_s(&by, self.key_hour, now_us)?;
        let is_of_runs = self.ledger().hour(&by, now_us).runs >= self.key_hour.runs;
        Some((if is_of_runs { "runs" } else { "bytes" }, wait_s))
    }

    /// Whether the runs of a key have put as much on the ledger within the hour as they may.
    pub(super) fn is_full(&self, principal: &Principal) -> bool {
        let bytes = || self.ledger().hour(&principal.id(), Wall::now().0).bytes;
        matches!(principal.source(), Source::Key { .. }) && bytes() >= self.key_hour.bytes
    }

    /// A place for a run that goes on: waited for, since nobody is there to be turned away. Runs of one key that go on
    /// wait for its share as new ones do.
    pub(super) async fn wait_for_place(&self, principal: &str) -> Share {
        self.places.take(principal).await
    }

    fn take_place(&self, principal: &str) -> Result<Share, RunError> {
        self.places.try_take(principal).map_err(|full| RunError::Busy { of_key: full == Full::Share })
    }
}

/// Refuses what a later version will do, by name, and what is out of bounds.
fn check(request: &RunRequest) -> Result<(), RunError> {
    let not_yet = |field| Err(RunError::Unfit(field, "is not supported by this version".to_owned()));
    if request.session.is_some() {
        return not_yet("session");
    }
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
        return Err(RunError::Unfit("message", "is empty".to_owned()));
    }
    if request.message.contains('\0') {
        return Err(RunError::Unfit("message", "holds a NUL character".to_owned()));
    }
    match request.limits.calls_max {
        Some(calls) if calls == 0 || calls > limits::CALLS_PER_RUN_MAX => {
            let reason = format!("is not within 1 and {}", limits::CALLS_PER_RUN_MAX);
            Err(RunError::Unfit("limits.calls_max", reason))
        }
        _ => Ok(()),
    }
}
