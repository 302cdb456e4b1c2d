//! Runs the agent in this process, as the owner of the home, when no server runs.

use super::compose;
use super::compose::logs::{self, Verbosity};
use super::exit::{self, Fail};
use super::live::LiveRun;
use super::reply::PrintedRun;
use crate::agent::{Agent, Requesters, RunError, RunReply, SessionRefusal};
use crate::auth::Principal;
use crate::config::Config;
use crate::gate::Granted;
use crate::launcher::Spec;
use crate::ledger::AppendError;
use crate::ledger::Draft;
use crate::ledger::payload::StopPayload;
use crate::policy::{Door, Over, Power};
use crate::sandbox;

/// Runs `work` with an agent and the owner of the home as the principal. With `is_printed`, each
/// step is printed once its outcome is on the ledger.
pub(super) fn run_here(
    config: Config,
    what: &'static str,
    is_printed: bool,
    work: impl AsyncFnOnce(&Agent, &Principal) -> Result<RunReply, RunError>,
) -> Result<(RunReply, PrintedRun), Fail> {
    with_front(config, what, async move |home: &Inside| Ok(run_inside(home, is_printed, work).await))?
}

/// Does what [`run_here`] does, in a process that is the front already.
pub(super) async fn run_inside(
    home: &Inside,
    is_printed: bool,
    work: impl AsyncFnOnce(&Agent, &Principal) -> Result<RunReply, RunError>,
) -> Result<(RunReply, PrintedRun), Fail> {
    let gate = home.agent.gate();
    let _granted: Granted = gate
        .may(&home.principal, Power::Run, Over::Server, Door::LOCAL)
        .map_err(|why| Fail::new(exit::DENIED, why))?;
    let live = LiveRun::start(is_printed)?;
    let agent = home.agent.clone().watched(live.watch());
    // The run is dropped before its end is recorded.
    let made = tokio::select! {
        made = work(&agent, &home.principal) => Some(made),
        heard = tokio::signal::ctrl_c() => { heard.map_err(Fail::failed)?; None }
    };
    let printed = live.end()?;
    let Some(made) = made else { return Err(interrupted(&agent, &printed).await) };
    let made = made.map_err(|e| match e {
        RunError::Invalid(..) | RunError::Schema(_) => Fail::usage(e),
        RunError::Halted(_) | RunError::Session(SessionRefusal::Withheld { .. }) => {
            Fail::new(exit::DENIED, e)
        }
        RunError::Damaged(_) => Fail::new(exit::UNVERIFIED, e),
        other => Fail::failed(other),
    })?;
    Ok((made, printed))
}

/// Records the end of a run that Ctrl-C ended, as after a crash, and says where to look.
async fn interrupted(agent: &Agent, printed: &PrintedRun) -> Fail {
    let Some(run) = &printed.run else { return Fail::failed("interrupted before the run began") };
    // What the run had queued is on the ledger before its open calls are looked for.
    let flushed = agent.ledger().ping().await.map_err(|e| e.to_string());
    let recorded = match flushed {
        Ok(()) => agent.recover().await.map(drop).map_err(|e| e.to_string()),
        Err(why) => Err(why),
    };
    let state = match recorded {
        Ok(()) => "its end is recorded".to_owned(),
        Err(why) => format!("the next start records its end ({why})"),
    };
    Fail::failed(format!(
        "interrupted: the run ended here, and {state}: `par runs show {run}` shows its steps"
    ))
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
    let ledger = compose::open_to_act(&config)?;
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
