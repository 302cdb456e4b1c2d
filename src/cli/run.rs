//! `par run`: to the server that runs for this home, else in this process.

use super::exit::{self, Fail};
use super::remote::{self, Server};
use super::{house, logs, show};
use crate::agent::{Agent, Askers, RunError, RunLimits, RunReply, RunRequest};
use crate::auth::Principal;
use crate::config::{Config, Home, server_url};
use crate::gate::Granted;
use crate::launcher::Spec;
use crate::ledger::payload::StopPayload;
use crate::ledger::{Draft, Lock};
use crate::policy::{Door, Over, Power};
use crate::sandbox;
use clap::Args;
use serde_json::{Value, json};
use std::io::Read as _;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The message; `-` reads it from standard input
    message: String,
    /// At most this many tool calls
    #[arg(long, value_name = "N")]
    calls_max: Option<u32>,
    /// The server to ask, which needs no home here [env: PAR_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

impl Run {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let message = match self.message.as_str() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(Fail::failed)?;
                text
            }
            text => text.to_owned(),
        };
        if let Some(url) = self.url.clone().or_else(server_url) {
            return tell(&Server::at(&url)?.run(&self.body(&message))?, is_json);
        }
        let config = super::load(home)?;
        let reply = match remote::url(&house::files(&config)) {
            Some(url) => Server::of_home(&url, &config.home)?.run(&self.body(&message))?,
            None => {
                let request = RunRequest {
                    message,
                    limits: RunLimits { calls_max: self.calls_max },
                    ..RunRequest::default()
                };
                here(config, "run", async move |agent, principal| agent.run(principal, None, request).await)?
            }
        };
        tell(&reply, is_json)
    }

    fn body(&self, message: &str) -> Value {
        let mut body = json!({ "message": message });
        if let (Some(calls), Some(members)) = (self.calls_max, body.as_object_mut()) {
            members.insert("limits".to_owned(), json!({ "calls_max": calls }));
        }
        body
    }
}

/// Prints a reply and gives its exit code.
pub(super) fn tell(reply: &RunReply, is_json: bool) -> Result<u8, Fail> {
    if is_json {
        show::json(reply)?;
    } else {
        show::run(reply)?;
    }
    Ok(exit::of_run(reply.status))
}

/// Runs in this process, as the owner of the home.
pub(super) fn here(
    config: Config,
    what: &'static str,
    work: impl AsyncFnOnce(&Agent, &Principal) -> Result<RunReply, RunError>,
) -> Result<RunReply, Fail> {
    inside(config, what, async move |house: &Inside| {
        let gate = house.agent.gate();
        let _granted: Granted = gate
            .may(&house.principal, Power::Run, Over::Server, Door::LOCAL)
            .map_err(|why| Fail::new(exit::DENIED, why))?;
        work(&house.agent, &house.principal).await.map_err(|e| match e {
            RunError::Unfit(..) => Fail::usage(e),
            other => Fail::failed(other),
        })
    })
}

/// What a command without a server works with.
pub(super) struct Inside {
    pub(super) agent: Agent,
    /// The owner of the home, in the configured role.
    pub(super) principal: Principal,
    pub(super) askers: Askers,
}

/// Works in this process, which becomes the front: locked like it, without a listener.
pub(super) fn inside<T>(
    config: Config,
    what: &'static str,
    work: impl AsyncFnOnce(&Inside) -> Result<T, Fail>,
) -> Result<T, Fail> {
    // The launcher is forked before anything that starts a thread, and before the secrets are read: it has no copy.
    let seed = match sandbox::start(&Spec::of(&config)) {
        Ok(seed) => seed,
        Err(e) => return Err(house::load_rules(&config).err().unwrap_or_else(|| Fail::failed(e))),
    };
    let model_key = house::model_key(&config)?;
    let secrets = house::secrets(&config, model_key.as_ref())?;
    logs::start(config.log, secrets.clone());
    if let Some(holder) = Lock::holder(&house::files(&config)) {
        tracing::info!(holder = holder.trim(), "waiting for the ledger");
    }
    let rules = house::load_rules(&config)?;
    let provider = house::provider(&config, model_key, &secrets)?;
    let principal = house::local_principal(&config)?;
    let report = seed.report().clone();
    sandbox::lock_front(std::slice::from_ref(&config.home.data)).map_err(Fail::failed)?;
    sandbox::narrow_front(seed.dials()).map_err(Fail::failed)?;
    let ledger = house::open_ledger(&config)?;
    house::load_secrets(&config, &secrets)?;
    house::runtime()?.block_on(async move {
        let launcher = seed.connect().map_err(Fail::failed)?;
        let _receipts = ledger
            .append(house::start_drafts(&config, &rules, what, &report, &secrets)?)
            .await
            .map_err(Fail::failed)?;
        let agent = house::agent(&config, &rules, ledger.clone(), launcher, provider, secrets)?;
        agent.recover().await.map_err(Fail::failed)?;
        let askers = house::askers(&config, house::authority(&config, ledger.clone())?)?;
        let made = work(&Inside { agent, principal, askers }).await?;
        let stop = Draft::new(StopPayload { command: what.to_owned() });
        let _receipt = ledger.append_one(stop).await.map_err(Fail::failed)?;
        Ok(made)
    })
}
