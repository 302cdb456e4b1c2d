//! Runs the agent in this process, as the owner of the home, when no server runs.

use super::compose;
use super::compose::logs::{self, Verbosity};
use super::exit::{self, Fail};
use super::progress::Busy;
use crate::agent::{Agent, Requesters, RunError, RunReply};
use crate::auth::Principal;
use crate::config::Config;
use crate::gate::Granted;
use crate::launcher::Spec;
use crate::ledger::AppendError;
use crate::ledger::payload::StopPayload;
use crate::ledger::{Draft, Kind, Ledger};
use crate::policy::{Door, Over, Power};
use crate::sandbox;
use crate::types::text;

/// Runs `work` with an agent and the owner of the home as the principal.
pub(super) fn run_here(
    config: Config,
    what: &'static str,
    work: impl AsyncFnOnce(&Agent, &Principal) -> Result<RunReply, RunError>,
) -> Result<RunReply, Fail> {
    with_front(config, what, async move |home: &Inside| {
        let gate = home.agent.gate();
        let _granted: Granted = gate
            .may(&home.principal, Power::Run, Over::Server, Door::LOCAL)
            .map_err(|why| Fail::new(exit::DENIED, why))?;
        let _busy = Busy::new(doing(home.agent.ledger().clone()));
        work(&home.agent, &home.principal).await.map_err(|e| match e {
            RunError::Invalid(..) => Fail::usage(e),
            other => Fail::failed(other),
        })
    })
}

/// Says what the run in this process does, from the newest entry that it made.
fn doing(ledger: Ledger) -> impl Fn() -> String + Send {
    move || {
        let newest = ledger.head().size.checked_sub(1);
        let stored = newest.and_then(|seq| ledger.reader().entry(seq).ok().flatten());
        let Some(header) = stored.map(|stored| stored.header) else { return "starting".to_owned() };
        match header.known_kind() {
            Some(Kind::RunRequest | Kind::ModelAsk | Kind::CallResult) => "asking the model".to_owned(),
            Some(Kind::CallDecision | Kind::CallConnect) => {
                format!("running {}", text::visible_line(header.str("tool").unwrap_or("a tool")))
            }
            _ => "working".to_owned(),
        }
    }
}

/// What a command that runs without a server works with.
pub(super) struct Inside {
    pub(super) agent: Agent,
    /// The owner of the home, in the configured role.
    pub(super) principal: Principal,
    pub(super) requesters: Requesters,
}

/// Runs `work` in this process, which becomes the front: it locks itself like a server, without a
/// listener.
pub(super) fn with_front<T>(
    config: Config,
    what: &'static str,
    work: impl AsyncFnOnce(&Inside) -> Result<T, Fail>,
) -> Result<T, Fail> {
    // The launcher is forked before any thread starts and before the secrets are read, so it has no
    // copy of them.
    let seed = match sandbox::start(&Spec::from_config(&config)) {
        Ok(seed) => seed,
        Err(e) => return Err(compose::load_rules(&config).err().unwrap_or_else(|| Fail::failed(e))),
    };
    let model_keys = compose::model_keys(&config)?;
    let secrets = compose::secrets(&config, Some(&model_keys))?;
    logs::start(config.log, Verbosity::Command, secrets.clone());
    let rules = compose::load_rules(&config)?;
    let provider = compose::provider(&config, &model_keys, &secrets)?;
    let principal = compose::local_principal(&config, None)?;
    let report = seed.report().clone();
    sandbox::lock_front(std::slice::from_ref(&config.home.data)).map_err(Fail::failed)?;
    sandbox::narrow_front(seed.dials()).map_err(Fail::failed)?;
    let ledger = compose::open_ledger(&config)?;
    compose::load_secrets(&config, &secrets)?;
    compose::runtime()?.block_on(async move {
        let launcher = seed.connect().map_err(Fail::failed)?;
        let _receipts = ledger
            .append(compose::start_drafts(&config, &rules, what, &report, &secrets)?)
            .await
            .map_err(|e| match e {
                AppendError::Damaged(_) => Fail::new(exit::UNVERIFIED, e),
                other => Fail::failed(other),
            })?;
        let agent = compose::agent(&config, &rules, ledger.clone(), launcher, provider, secrets)?;
        agent.recover().await.map_err(Fail::failed)?;
        let requesters = Requesters { authority: compose::authority(&config, ledger.clone())? };
        let made = work(&Inside { agent, principal, requesters }).await?;
        let stop = Draft::new(StopPayload { command: what.to_owned() });
        let _receipt = ledger.append_one(stop).await.map_err(Fail::failed)?;
        Ok(made)
    })
}
