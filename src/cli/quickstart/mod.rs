//! `par quickstart`: one complete round with real parts, then what to do next.
//!
//! # Layout
//!
//! * `key`: the key of the tour
//! * `next`: what is printed at the end

mod key;
mod next;

use super::exit::{self, Fail};
use super::serve::{Serving, Signals, supervise};
use super::{audit, compose, init, remote, reply, show};
use crate::agent::RunReply;
use crate::config::{Config, Home};
use crate::egress::Client;
use crate::ledger::{self, Lock};
use crate::types::Secret;
use clap::Args;
use key::TourKey;
use next::NextSteps;
use serde_json::json;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// The messages to send: a question, then an attempt that a hostile model would make.
const MESSAGES: [&str; 2] = ["how is this server doing?", "read_file(path=\"/etc/shadow\")"];

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
            // One person tries this: with `several`, no one could answer the first call that waits.
            init::make(&home, init::People::One)?;
            show::line(&init::made(&home))?;
            init::set_minimum(&home, false)?.print()?;
        }
        let next = NextSteps::new(&home);
        let mut config = Config::load(home).map_err(Fail::usage)?;
        if self.once {
            // Any free port: another server may listen on the usual one.
            config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        } else if is_usual_and_taken(&config) {
            show::line(&format!(
                "{} is in use by another program: this server takes a free port. To choose one, change `listen` below \
                 `[server]` in {}.",
                config.listen,
                config.home.file().display()
            ))?;
            config.listen.set_port(0);
        }
        let once = self.once;
        supervise(config, "quickstart", async move |serving: &Serving, signals| {
            tour(serving, signals, once, &next).await
        })
    }
}

/// Whether the address is the shipped one and another program listens there. If a server of this
/// home does, the start says so.
fn is_usual_and_taken(config: &Config) -> bool {
    let usual = SocketAddr::from(([127, 0, 0, 1], 7117));
    let is_taken =
        || TcpListener::bind(config.listen).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
    config.listen == usual && Lock::holder(&compose::files(config)).is_none() && is_taken()
}

async fn tour(serving: &Serving, mut signals: Signals, once: bool, next: &NextSteps) -> Result<u8, Fail> {
    let report = serving.agent.launcher().report();
    show::line(&format!("Sandbox: {}", report.layers.join(", ")))?;
    for missing in &report.missing {
        show::line(&format!("  missing: {missing}"))?;
    }
    let key = TourKey::make(serving, once).await?;
    let shown = key.show();
    let asked = match &shown {
        Ok(()) => tokio::select! {
            asked = ask(serving, key.expose()) => asked,
            () = signals.end.heard() => Err(Fail::failed("interrupted")),
        },
        Err(_) => Ok(()),
    };
    // On any failure the key is revoked: a key that was never seen must not stay valid.
    if once || shown.is_err() {
        key.revoke(serving).await?;
    }
    shown?;
    asked?;
    let code = verify(serving).await?;
    if once || code != exit::OK {
        return Ok(code);
    }
    show::line(&next.steps(&serving.url, key.expose()))?;
    serving.stopped(signals).await;
    show::line(&next.farewell())?;
    Ok(exit::OK)
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
