//! A server that answers requests until it is stopped.

use super::notify::Notify;
use super::passed::Passed;
use super::signals::Signals;
use super::watch::watch_launcher;
use crate::agent::{Agent, Requesters};
use crate::auth::{Authority, LoginLinks};
use crate::cli::compose;
use crate::cli::exit::Fail;
use crate::config::Config;
use crate::http::{self, Answered, App, AskSocket, Bounds, Ready};
use crate::ledger::{Anchor, Follower, Index, VerifyEvery, Watcher};
use crate::rules::Reloader;
use crate::sandbox;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::sync::watch;

/// A running server.
pub(in crate::cli) struct Serving {
    pub(in crate::cli) config: Config,
    pub(in crate::cli) url: String,
    pub(in crate::cli) agent: Agent,
    pub(in crate::cli) authority: Authority,
    pub(super) anchor: Anchor,
    pub(super) index: Option<Arc<Index>>,
    pub(super) reloader: Reloader,
    pub(super) notify: Notify,
    pub(super) dials: sandbox::Dials,
}

impl Serving {
    pub(super) async fn serve(
        &self,
        listener: TcpListener,
        passed: Passed,
        signals: Signals,
        work: impl AsyncFnOnce(&Self, Signals) -> Result<u8, Fail>,
    ) -> Result<u8, Fail> {
        let (stop, stopping) = watch::channel(false);
        let app = App {
            agent: self.agent.clone(),
            authority: self.authority.clone(),
            ready: Ready::starting(),
            hosts: self.config.hosts.clone().into(),
            anchor: self.anchor.clone(),
            index: self.index.clone(),
            exports: http::Exports::default(),
            links: LoginLinks::empty().map_err(Fail::failed)?,
            answered: Answered::default(),
            bounds: Bounds::default(),
        };
        let (data, users) = (&self.config.home.data, compose::os_users(&self.config)?);
        if let Some(note) = compose::unreachable(&self.config).filter(|_| passed.ask.is_empty()) {
            tracing::warn!("{note}");
        }
        let admin = http::admin::Socket::open(data, users.clone(), passed.admin)
            .map_err(|e| Fail::usage(format!("the admin socket: {e}")))?;
        let ask =
            AskSocket::open(data, users, passed.ask).map_err(|e| Fail::usage(format!("`par.sock`: {e}")))?;
        sandbox::narrow_front(self.dials).map_err(Fail::failed)?;
        let room = http::admin::Room {
            authority: self.authority.clone(),
            agent: self.agent.clone(),
            links: app.links.clone(),
            index: self.index.clone(),
            reloader: self.reloader.clone(),
        };
        let admin = tokio::spawn(admin.serve(room, raised(stopping.clone())));
        let ask = tokio::spawn(ask.serve(app.clone(), raised(stopping.clone())));
        let requesters = Requesters { authority: self.authority.clone() };
        let (attendant, stopped) = (self.agent.clone(), raised(stopping.clone()));
        let attendance = tokio::spawn(async move { attendant.serve_waiting(requesters, stopped).await });
        let (anchor, ledger) = (self.anchor.clone(), self.agent.ledger().clone());
        let stopped = raised(stopping.clone());
        let anchoring = tokio::spawn(async move { anchor.run(ledger, stopped).await });
        let follower = self.index.clone().map(Follower::start).transpose().map_err(Fail::failed)?;
        let (new_s, whole_s) = self.config.verify_every_s;
        let watcher = Watcher::start(self.agent.ledger().clone(), VerifyEvery { new_s, whole_s });
        let watcher = watcher.map_err(Fail::failed)?;
        let server = tokio::spawn(http::serve(listener, app, raised(stopping)));
        self.notify.ready(&self.url);
        let code = tokio::select! {
            code = work(self, signals) => code,
            never = self.notify.watch(&self.agent) => match never {},
            never = watch_launcher(self.agent.launcher()) => match never {},
            // Open requests still receive the answer that nothing was recorded.
            what = self.agent.ledger().poisoned() => Err(Fail::failed(what)),
        };
        self.notify.stopping();
        // Receivers that are gone have stopped already.
        stop.send_replace(true);
        server.await.map_err(Fail::failed)?.map_err(Fail::failed)?;
        admin.await.map_err(Fail::failed)?;
        ask.await.map_err(Fail::failed)?;
        attendance.await.map_err(Fail::failed)?;
        anchoring.await.map_err(Fail::failed)?;
        if let Some(follower) = follower {
            tokio::task::spawn_blocking(|| follower.stop()).await.map_err(Fail::failed)?;
        }
        tokio::task::spawn_blocking(|| watcher.stop()).await.map_err(Fail::failed)?;
        code
    }

    /// Waits for `SIGTERM` or `SIGINT`. A `SIGHUP` reloads the rules.
    pub(in crate::cli) async fn stopped(&self, mut signals: Signals) {
        loop {
            tokio::select! {
                () = signals.end.heard() => return,
                _ = signals.hangup.recv() => match self.reloader.reload(None).await {
                    Ok(reloaded) => tracing::info!(%reloaded, "SIGHUP: the rules on disk are in force"),
                    Err(error) => tracing::error!(%error, "SIGHUP: the previous rules remain in force"),
                },
            }
        }
    }
}

async fn raised(mut flag: watch::Receiver<bool>) {
    // A dropped sender stops the server too.
    drop(flag.wait_for(|raised| *raised).await);
}
