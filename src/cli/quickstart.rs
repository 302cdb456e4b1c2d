//! `par quickstart`: one complete round with real parts.

use super::exit::{self, Fail};
use super::serve::{Serving, Signals, supervise};
use super::{audit, compose, init, remote, reply, show};
use crate::agent::RunReply;
use crate::auth::{self, NewKey, Role};
use crate::config::{Config, Home};
use crate::egress::Client;
use crate::ledger;
use crate::policy::{Door, Over, Power};
use crate::types::{Secret, clock::Wall};
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;

/// The messages to send: a question, then an attempt that a hostile model would make.
const MESSAGES: [&str; 2] = ["how is this server doing?", "read_file(path=\"/etc/shadow\")"];
/// Lifetime of the key that `--once` makes, in microseconds.
const ONCE_KEY_US: u64 = 600_000_000;

#[derive(Debug, Args)]
pub(super) struct Quickstart {
    /// Stop after the messages and revoke the key, instead of serving until Ctrl-C
    #[arg(long)]
    once: bool,
}

impl Quickstart {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        if is_json {
            return Err(Fail::usage("`quickstart` is for people and has no `--json`: use `par run --json`"));
        }
        if !home.is_made() {
            init::make(&home, init::People::Several)?;
            show::line(&init::made(&home))?;
            init::set_minimum(&home, false)?.print()?;
        }
        let mut config = Config::load(home).map_err(Fail::usage)?;
        if self.once {
            // Any free port: another server may listen on the usual one.
            config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        }
        let once = self.once;
        supervise(config, "quickstart", async move |serving: &Serving, signals| {
            tour(serving, signals, once).await
        })
    }
}

async fn tour(serving: &Serving, mut signals: Signals, once: bool) -> Result<u8, Fail> {
    let report = serving.agent.launcher().report();
    show::line(&format!("Sandbox: {}", report.layers.join(", ")))?;
    for missing in &report.missing {
        show::line(&format!("  missing: {missing}"))?;
    }
    let name = format!("quickstart-{}", Wall::now().0 / 1_000);
    let expires = once.then(|| Wall(Wall::now().0 + ONCE_KEY_US));
    let new = NewKey { name: name.clone(), role: Role::Admin, user: None, expires };
    let by = auth::local(&serving.config.home.data, Role::Admin).map_err(Fail::failed)?;
    let gate = serving.agent.gate();
    let power = || gate.may(&by, Power::KeyManage, Over::Server, Door::LOCAL).map(|power| power.record());
    let power = || power().map_err(|why| Fail::new(exit::DENIED, why));
    let (minted, _) = serving.authority.create(&by, new, Some(power()?)).await.map_err(Fail::failed)?;
    let shown = show_key(minted.expose(), once);
    let asked = match &shown {
        Ok(()) => tokio::select! {
            asked = ask(serving, minted.expose()) => asked,
            () = signals.end.heard() => Err(Fail::failed("interrupted")),
        },
        Err(_) => Ok(()),
    };
    // On any failure the key is revoked: a key that was never seen must not stay valid.
    if once || shown.is_err() {
        serving.authority.revoke(&by, &name, Some(power()?)).await.map_err(Fail::failed)?;
    }
    shown?;
    asked?;
    let code = verify(serving).await?;
    if once || code != exit::OK {
        return Ok(code);
    }
    show::line(&format!(
        "\nTry it:  export PAR_KEY={}\n         curl -s {}/agent/run -H \"Authorization: Bearer $PAR_KEY\" \
         -H 'content-type: application/json' -d '{{\"message\":\"how is this server doing?\"}}'\nCtrl-C stops the server.",
        minted.expose(),
        serving.url
    ))?;
    serving.stopped(signals).await;
    Ok(exit::OK)
}

/// Prints the key. If it stays valid after the command, printing must succeed.
fn show_key(key: &str, once: bool) -> Result<(), Fail> {
    if once {
        return show::line(&format!("Admin key, revoked at the end: {key}"));
    }
    show::hand_over(&format!("Admin key, store it now: {key}"))
        .map_err(|e| Fail::failed(format!("the key could not be printed and is revoked: {e}")))
}

async fn ask(serving: &Serving, key: &str) -> Result<(), Fail> {
    show::line(&format!("Listening on {}", serving.url))?;
    let key = Secret::new(key.to_owned()).ok_or_else(|| Fail::failed("the key is empty"))?;
    let client = Client::new(None);
    for message in MESSAGES {
        show::line(&format!("\n> {message}"))?;
        let reply = remote::post(&client, &serving.url, &key, &json!({ "message": message })).await?;
        print_reply(&reply)?;
    }
    Ok(())
}

fn print_reply(sent: &RunReply) -> Result<(), Fail> {
    reply::steps(&sent.steps)?;
    let answer = sent.answer.as_deref().unwrap_or("no answer");
    answer.lines().try_for_each(|line| show::line(&format!("  {line}")))
}

/// Verifies the ledger from its files, like `par audit verify`.
async fn verify(serving: &Serving) -> Result<u8, Fail> {
    let files = compose::files(&serving.config);
    let verified = tokio::task::spawn_blocking(move || ledger::audit(&files, &compose::PROJECTIONS, &[]));
    let report = verified.await.map_err(Fail::failed)?;
    show::line("\nLedger:")?;
    audit::summary(&report).iter().try_for_each(|line| show::line(line))?;
    Ok(if report.verdict.holds() { exit::OK } else { exit::UNVERIFIED })
}
