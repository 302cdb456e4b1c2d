//! `par serve`: the supervisor, and the front in its own process; or the front alone, where launchers
//! are behind a socket.

use super::exit::{self, Fail};
use super::notify::Notify;
use super::tend::tend;
use super::{house, logs, show};
use crate::agent::Agent;
use crate::auth::Authority;
use crate::config::{Config, LogFormat};
use crate::http::{self, Answered, App, Bounds, Ready};
use crate::launcher::Spec;
use crate::ledger::payload::StopPayload;
use crate::ledger::{Anchor, Draft, Follower, Index, Ledger};
use crate::rules::{self, Reloader};
use crate::sandbox::{self, LinkSeed};
use clap::Args;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Listen here instead of `server.listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Take launchers from this socket instead of forking one: each connection is a launcher
    #[arg(long, value_name = "SOCKET")]
    launcher: Option<PathBuf>,
    /// How log lines are written, instead of `server.log`
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: Option<String>,
}

impl Serve {
    pub(super) fn run(&self, mut config: Config) -> Result<u8, Fail> {
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if let Some(format) = self.log_format.as_deref().and_then(LogFormat::parse) {
            config.log = format;
        }
        let launcher = self.launcher.clone().or_else(|| config.launcher.clone());
        let work = async |house: &Serving, signals: Signals| {
            show::note(&format!(
                "par: listening on {}, home {}",
                house.url,
                house.config.home.root.display()
            ));
            house.stopped(signals).await;
            Ok(exit::OK)
        };
        match launcher {
            None => supervise(config, "serve", work),
            Some(socket) => alone(config, "serve", &socket, work),
        }
    }
}

/// Serves as the front itself, with launchers from `socket`; a service manager does what the supervisor
/// does otherwise.
fn alone(
    config: Config,
    what: &'static str,
    socket: &Path,
    work: impl AsyncFnOnce(&Serving, Signals) -> Result<u8, Fail>,
) -> Result<u8, Fail> {
    // The launcher reads the tools too: where they are at fault, the place is what helps.
    rules::load_or_close(&config).map_err(|e| Fail::usage(e.0.join("\npar: ")))?;
    let seed = sandbox::dial(socket).map_err(Fail::failed)?;
    front(config, what, seed, work)
}

/// A server that answers.
pub(super) struct Serving {
    pub(super) config: Config,
    pub(super) url: String,
    pub(super) agent: Agent,
    pub(super) authority: Authority,
    anchor: Anchor,
    index: Option<Arc<Index>>,
    reloader: Reloader,
    notify: Notify,
    dials: sandbox::Dials,
}

/// Serves in a front of its own, beside a launcher, for as long as `work` takes; returns its code.
///
/// To be called with one thread: the processes are forked before any runtime starts.
pub(super) fn supervise(
    config: Config,
    what: &'static str,
    work: impl AsyncFnOnce(&Serving, Signals) -> Result<u8, Fail>,
) -> Result<u8, Fail> {
    let spec = Spec::of(&config);
    let etc = config.home.clone();
    let served = sandbox::serve(&spec, move |seed| match front(config, what, seed, work) {
        Ok(code) => code,
        Err(fail) => {
            show::note(&format!("par: {fail}"));
            fail.code
        }
    });
    served.map_err(|e| match Config::load(etc).map_err(Fail::usage).and_then(|c| house::load_rules(&c)) {
        // The launcher reads the tools too: where they are at fault, the place is what helps.
        Err(fail) => fail,
        Ok(_) => Fail::failed(e),
    })
}

fn front(
    config: Config,
    what: &'static str,
    seed: LinkSeed,
    work: impl AsyncFnOnce(&Serving, Signals) -> Result<u8, Fail>,
) -> Result<u8, Fail> {
    // Before anything is logged.
    let model_key = house::model_key(&config)?;
    let secrets = house::secrets(&config, model_key.as_ref())?;
    logs::start(config.log, secrets.clone());
    let notify = Notify::open()?;
    let rules = house::load_or_close(&config)?;
    let provider = house::provider(&config, model_key, &secrets)?;
    let listener = TcpListener::bind(config.listen)
        .map_err(|e| Fail::usage(format!("`server.listen`: {}: {e}", config.listen)))?;
    let url = listener.local_addr().map(|at| format!("http://{at}")).map_err(Fail::failed)?;
    let (report, dials) = (seed.report().clone(), seed.dials());
    rules::check_launcher(&rules, &report).map_err(Fail::failed)?;
    // Before the lock: a file outside of data/ is opened now, and no other can be later.
    let anchor = Anchor::open(&config.anchoring, &house::files(&config))
        .map_err(|e| Fail::usage(format!("`[ledger]`: {e}")))?;
    // From here on this process starts nothing and writes nowhere but in data/. Threads inherit it.
    let locks = sandbox::lock_front(std::slice::from_ref(&config.home.data)).map_err(Fail::failed)?;
    let ledger = house::open_ledger(&config)?;
    house::load_secrets(&config, &secrets)?;
    tracing::info!(locks = locks.join(", "), layers = report.layers.join(", "), "front and launcher are up");
    house::runtime()?.block_on(async move {
        let launcher = seed.connect().map_err(Fail::failed)?;
        let authority = house::authority(&config, ledger.clone())?;
        let _receipts = ledger
            .append(house::start_drafts(&config, &rules, what, &report, &secrets)?)
            .await
            .map_err(Fail::failed)?;
        let agent = house::agent(&config, &rules, ledger.clone(), launcher, provider, secrets)?;
        let recovered = agent.recover().await.map_err(Fail::failed)?;
        if recovered > 0 {
            tracing::warn!(
                recovered,
                "a crash had left calls or runs open: they are recorded as interrupted"
            );
        }
        // Before anybody can hear of it: who does may end it at once.
        let signals = Signals::open().map_err(Fail::failed)?;
        ledger.tell_url(&url).map_err(Fail::failed)?;
        let reloader = Reloader::new(agent.gate().clone(), agent.launcher().clone(), &config);
        let index = index(&ledger);
        let serving = Serving { config, url, agent, authority, anchor, index, reloader, notify, dials };
        let code = serving.serve(listener, signals, work).await?;
        let stop = Draft::new(StopPayload { command: what.to_owned() });
        let _receipt = ledger.append_one(stop).await.map_err(Fail::failed)?;
        Ok(code)
    })
}

impl Serving {
    async fn serve(
        &self,
        listener: TcpListener,
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
            answered: Answered::default(),
            bounds: Bounds::default(),
        };
        let admin = http::admin::Socket::open(&self.config.home.data)
            .map_err(|e| Fail::usage(format!("the admin socket: {e}")))?;
        sandbox::narrow_front(self.dials).map_err(Fail::failed)?;
        let room = http::admin::Room {
            authority: self.authority.clone(),
            agent: self.agent.clone(),
            reloader: self.reloader.clone(),
        };
        let admin = tokio::spawn(admin.serve(room, raised(stopping.clone())));
        let askers = house::askers(&self.config, self.authority.clone())?;
        let (attendant, stopped) = (self.agent.clone(), raised(stopping.clone()));
        let attendance = tokio::spawn(async move { attendant.attend(askers, stopped).await });
        let (anchor, ledger) = (self.anchor.clone(), self.agent.ledger().clone());
        let stopped = raised(stopping.clone());
        let anchoring = tokio::spawn(async move { anchor.run(ledger, stopped).await });
        let follower = self.index.clone().map(Follower::start).transpose().map_err(Fail::failed)?;
        let server = tokio::spawn(http::serve(listener, app, raised(stopping)));
        self.notify.ready(&self.url);
        let code = tokio::select! {
            code = work(self, signals) => code,
            never = self.notify.watch(&self.agent) => match never {},
            never = tend(self.agent.launcher()) => match never {},
            // Open requests are still told that nothing was recorded.
            what = self.agent.ledger().poisoned() => Err(Fail::failed(what)),
        };
        self.notify.stopping();
        // Receivers that are gone have stopped already.
        stop.send_replace(true);
        server.await.map_err(Fail::failed)?.map_err(Fail::failed)?;
        admin.await.map_err(Fail::failed)?;
        attendance.await.map_err(Fail::failed)?;
        anchoring.await.map_err(Fail::failed)?;
        if let Some(follower) = follower {
            tokio::task::spawn_blocking(|| follower.stop()).await.map_err(Fail::failed)?;
        }
        code
    }

    /// Waits for `SIGTERM` or `SIGINT`. A `SIGHUP` loads the rules anew.
    pub(super) async fn stopped(&self, mut signals: Signals) {
        loop {
            tokio::select! {
                () = signals.end.heard() => return,
                _ = signals.hangup.recv() => match self.reloader.reload(None).await {
                    Ok(told) => tracing::info!(%told, "SIGHUP: the rules on disk are in force"),
                    Err(error) => tracing::error!(%error, "SIGHUP: the rules before stay in force"),
                },
            }
        }
    }
}

/// The signals that a server heeds. None that came since this was made is lost.
pub(super) struct Signals {
    pub(super) end: End,
    hangup: Signal,
}

/// `SIGTERM` and `SIGINT`.
pub(super) struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn open() -> io::Result<Self> {
        let end =
            End { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
        Ok(Self { end, hangup: signal(SignalKind::hangup())? })
    }
}

impl End {
    pub(super) async fn heard(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The index of queries. They do without, where it cannot be had.
fn index(ledger: &Ledger) -> Option<Arc<Index>> {
    let without = |error| tracing::error!(%error, "no index: queries read the ledger");
    ledger.index().map_err(without).ok().map(Arc::new)
}

async fn raised(mut flag: watch::Receiver<bool>) {
    // A sender that is gone stops too.
    drop(flag.wait_for(|raised| *raised).await);
}
