//! What all runs share: gate, launcher, provider and run slots.

use super::api::RunError;
use super::news::{ReplyWords, RunNews, Watch};
use super::turns::SessionTurns;
use crate::auth::Principal;
use crate::gate::Gate;
use crate::ledger::{Hour, Ledger};
use crate::llm::Provider;
use crate::policy::{Door, Session, Via};
use crate::sandbox::Launcher;
use crate::secrets::Secrets;
use crate::types::Ceiling;
use crate::types::clock::Wall;
use crate::types::{Full, Share, Shares, limits};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The agent. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(super) gate: Gate,
    pub(super) launcher: Launcher,
    pub(super) provider: Arc<dyn Provider>,
    places: Shares,
    pub(super) turns: SessionTurns,
    /// Hears what runs do.
    watch: Option<Watch>,
    /// The quota of one key for an hour.
    key_hour: Hour,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Agent({})", self.provider.name())
    }
}

impl Agent {
    /// An agent that asks `provider`, decides at `gate` and runs calls through `launcher`.
    #[must_use]
    pub fn new(gate: Gate, launcher: Launcher, provider: Arc<dyn Provider>) -> Self {
        let places = Shares::new(limits::RUNS_RUNNING_MAX, limits::KEY_RUNS_RUNNING_MAX);
        let key_hour = Hour { runs: limits::KEY_RUNS_HOUR_MAX, bytes: limits::KEY_BYTES_HOUR_MAX };
        Self { gate, launcher, provider, places, turns: SessionTurns::default(), watch: None, key_hour }
    }

    /// The same agent, whose runs report to `watch` what they do.
    #[must_use]
    pub fn watched(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Reports to the watch, if there is one.
    pub(super) fn report(&self, news: impl FnOnce() -> RunNews) {
        if let Some(watch) = &self.watch {
            watch.tell(news());
        }
    }

    /// Passes the words of the next reply on, if the watch wants them.
    pub(super) fn listening(&self) -> Option<ReplyWords<'_>> {
        self.watch.as_ref()?.reply()
    }

    /// Sets the hourly quota of each key and each user of the host. Commands without a server are
    /// not limited by it.
    #[must_use]
    pub fn with_key_hour(self, key_hour: Hour) -> Self {
        Self { key_hour, ..self }
    }

    /// An agent with the shipped tools and policies and a launcher that has ended, for tests of the
    /// rooms above: every call is decided and none can run.
    #[cfg(test)]
    pub(crate) fn without_sandbox(ledger: Ledger) -> Self {
        Self::over(ledger, &["policies/00-api.cedar", "policies/10-read.cedar"])
    }

    /// As [`without_sandbox`](Self::without_sandbox), with these of the shipped policies.
    #[cfg(test)]
    pub(crate) fn over(ledger: Ledger, policies: &[&str]) -> Self {
        use crate::gate::Rules;
        use crate::policy::{Bundle, SourceFile};
        use std::collections::BTreeMap;
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let names = BTreeMap::from([
            ("logs".to_owned(), "/var/log".into()),
            ("workspace".to_owned(), "/nonexistent/workspace".into()),
        ]);
        let places = crate::tools::Places { names: names.clone(), private: Vec::new() };
        let catalog = crate::tools::Catalog::load(&top.join("tools.d"), &places).expect("shipped tools");
        let source = |name: &str| SourceFile {
            name: name.to_owned(),
            text: std::fs::read_to_string(top.join(name)).expect("shipped policies"),
        };
        let sources: Vec<SourceFile> = policies.iter().map(|name| source(name)).collect();
        let bundle = Bundle::load(&sources, &catalog, &names.keys().cloned().collect()).expect("bundle");
        let rules = Rules { catalog: Arc::new(catalog), bundle: Arc::new(bundle) };
        let gate = Gate::new(ledger, rules, names, Secrets::default()).expect("gate");
        let launcher = crate::sandbox::LinkSeed::ended().connect().expect("runtime");
        let provider = crate::llm::build(crate::llm::Settings::default()).expect("offline");
        Self::new(gate, launcher, provider)
    }

    /// The same agent, which asks `provider`.
    #[cfg(test)]
    pub(super) fn asking(&self, provider: Arc<dyn Provider>) -> Self {
        Self { provider, ..self.clone() }
    }

    /// Returns what keeps the agent from accepting runs, if anything.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.ledger().obstacle()
    }

    /// That the first model in use has failed all of its newest requests.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let failures = self.provider.failures();
        let name = self.provider.named().unwrap_or_else(|| self.provider.model());
        (failures >= limits::MODEL_FAILURES_MAX).then(|| {
            format!(
                "the newest {failures} requests to the model `{name}` have all failed; `par model status` says why"
            )
        })
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

    /// The secrets that are replaced in text from outside.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        self.gate.secrets()
    }

    /// The front's side of the sandbox.
    #[must_use]
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// A new session with every loaded tool of `ceiling`.
    pub(super) fn session(&self, id: &str, budget: u32, ceiling: &Ceiling) -> Session {
        let rules = self.gate.rules();
        let names = rules.catalog.manifests().map(|manifest| &manifest.name);
        Session {
            id: id.to_owned(),
            ceiling: names.filter(|name| ceiling.has(name)).cloned().collect(),
            taint: BTreeSet::new(),
            seen: BTreeSet::new(),
            tainted_by: Vec::new(),
            calls_used: 0,
            budget: i64::from(budget),
            risk: 0,
        }
    }

    /// Returns the quota that the caller has used up for this hour, if any, and the time until it
    /// may run, in seconds. A command without a server has none.
    pub(super) fn spent(&self, principal: &Principal, door: Door) -> Option<(&'static str, u64)> {
        if door.via == Via::Local {
            return None;
        }
        let (by, now_us) = (principal.id(), Wall::now().0);
        let wait_s = self.ledger().hour_over_s(&by, self.key_hour, now_us)?;
        let is_of_runs = self.ledger().hour(&by, now_us).runs >= self.key_hour.runs;
        Some((if is_of_runs { "runs" } else { "bytes" }, wait_s))
    }

    /// Whether the runs of a caller have used up the bytes that they may record within the hour.
    pub(super) fn is_full(&self, principal: &Principal, door: Door) -> bool {
        let bytes = || self.ledger().hour(&principal.id(), Wall::now().0).bytes;
        door.via != Via::Local && bytes() >= self.key_hour.bytes
    }

    /// Waits for a slot for a resumed run, which has no client to refuse. Resumed runs of a key
    /// wait for its share, as new ones do.
    pub(super) async fn wait_for_place(&self, principal: &str) -> Share {
        self.places.take(principal).await
    }

    /// Takes a slot for a new run, or returns why none is free.
    pub(super) fn take_place(&self, principal: &str) -> Result<Share, RunError> {
        self.places.try_take(principal).map_err(|full| RunError::Busy { of_key: full == Full::Share })
    }
}
