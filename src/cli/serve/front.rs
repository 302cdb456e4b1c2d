//! The front: under a supervisor, or alone if launchers are reached through a socket.

use super::notify::Notify;
use super::passed::Passed;
use super::serving::Serving;
use super::signals::Signals;
use crate::cli::compose;
use crate::cli::compose::logs::{self, Verbosity};
use crate::cli::exit::Fail;
use crate::cli::{init, show};
use crate::config::{Config, Home};
use crate::launcher::Spec;
use crate::ledger::payload::StopPayload;
use crate::ledger::{AppendError, Draft, Index, Ledger, Lock, LockError};
use crate::rules::{self, Reloader};
use crate::sandbox::{self, LinkSeed};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

/// Serves as the front itself, with launchers from `socket`. The service manager takes the role of
/// the supervisor.
pub(super) fn alone(
    config: Config,
    what: &'static str,
    socket: &Path,
    work: impl AsyncFnOnce(&Serving, Signals) -> Result<u8, Fail>,
) -> Result<u8, Fail> {
    // The launcher reads the tools too: if they are invalid, this error names the place.
    rules::load_or_close(&config).map_err(|e| Fail::rules(e.0.join("\npar: ")))?;
    let seed = sandbox::dial(socket).map_err(Fail::failed)?;
    front(config, what, seed, Passed::take()?, work)
}

/// Serves in a separate front process next to a launcher while `work` runs, and returns its exit
/// code.
///
/// To be called with one thread: the processes are forked before any runtime starts.
pub(in crate::cli) fn supervise(
    config: Config,
    what: &'static str,
    work: impl AsyncFnOnce(&Serving, Signals) -> Result<u8, Fail>,
) -> Result<u8, Fail> {
    let spec = Spec::from_config(&config);
    let (etc, home) = (config.home.clone(), config.home.clone());
    let served =
        sandbox::serve(&spec, move |seed| match front(config, what, seed, Passed::default(), work) {
            Ok(code) => code,
            Err(fail) => {
                show::note(&format!("par: {fail}"));
                if fail.is_of_rules {
                    note_upgrade(&home);
                }
                fail.code
            }
        });
    served.map_err(|e| match Config::load(etc).map_err(Fail::usage).and_then(|c| compose::load_rules(&c)) {
        // The launcher reads the tools too: if they are invalid, this error names the place.
        Err(fail) => fail,
        Ok(_) => Fail::failed(e),
    })
}

/// Says what to do if the files of the home are of another version.
fn note_upgrade(home: &Home) {
    if let Some(hint) = init::hint(home) {
        show::note(&format!("par: {hint}"));
    }
}

/// Why the server cannot listen. If a server of this home runs already, that is the reason.
fn in_use(config: &Config, error: &std::io::Error) -> Fail {
    match Lock::holder(&compose::files(config)) {
        Some(holder) => Fail::failed(LockError::Held(holder)),
        None => Fail::usage(format!(
            "`server.listen`: {}: {error}: choose another port with `listen = \"{}:PORT\"` below `[server]` in {}, or \
             with PAR_SERVER__LISTEN for one start",
            config.listen,
            config.listen.ip(),
            config.home.file().display()
        )),
    }
}

fn front(
    config: Config,
    what: &'static str,
    seed: LinkSeed,
    passed: Passed,
    work: impl AsyncFnOnce(&Serving, Signals) -> Result<u8, Fail>,
) -> Result<u8, Fail> {
    // Before anything is logged.
    let model_keys = compose::model_keys(&config)?;
    let secrets = compose::secrets(&config, Some(&model_keys))?;
    // Quickstart prints for a person, who would have to read around the log lines.
    let verbosity = if what == "quickstart" { Verbosity::Command } else { Verbosity::Server };
    logs::start(config.log, verbosity, secrets.clone());
    let notify = Notify::open()?;
    let rules = compose::load_or_close(&config)?;
    if !rules.bundle.broken().is_empty() {
        note_upgrade(&config.home);
    }
    let provider = compose::provider(&config, &model_keys, &secrets)?;
    let listener = TcpListener::bind(config.listen).map_err(|e| in_use(&config, &e))?;
    let url = listener.local_addr().map(|at| format!("http://{at}")).map_err(Fail::failed)?;
    let (report, dials) = (seed.report().clone(), seed.dials());
    rules::check_launcher(&rules, &report).map_err(Fail::failed)?;
    // Before the lock: a file outside data/ is opened now, because none can be opened later.
    let anchor = compose::open_anchor(&config)?;
    // From here on this process starts no program and writes only in data/. New threads inherit the
    // restriction.
    let locks = sandbox::lock_front(std::slice::from_ref(&config.home.data)).map_err(Fail::failed)?;
    let ledger = compose::open_ledger(&config)?;
    compose::load_secrets(&config, &secrets)?;
    tracing::info!(locks = locks.join(", "), layers = report.layers.join(", "), "front and launcher are up");
    compose::runtime()?.block_on(async move {
        let launcher = seed.connect().map_err(Fail::failed)?;
        let authority = compose::authority(&config, ledger.clone())?;
        let mut drafts = compose::start_drafts(&config, &rules, what, &report, &secrets)?;
        let damage = ledger.damage();
        if let Some(damage) = &damage {
            // The server only shows what is there: nothing that follows from the rules is recorded.
            drafts.retain(|draft| draft.body.kind().is_written_on_damage());
            let why = AppendError::Damaged(Box::new(damage.clone()));
            tracing::error!(entry = damage.entry, found = damage.found, "THE LEDGER IS DAMAGED: {why}");
        }
        let _receipts = ledger.append(drafts).await.map_err(Fail::failed)?;
        let agent = compose::agent(&config, &rules, ledger.clone(), launcher, provider, secrets)?;
        let recovered = match damage {
            // What is open stays as it is.
            Some(_) => 0,
            None => agent.recover().await.map_err(Fail::failed)?,
        };
        if recovered > 0 {
            tracing::warn!(recovered, "a crash left calls or runs open: they are recorded as interrupted");
        }
        // Before the URL becomes known: a reader of it may send a signal at once.
        let signals = Signals::open().map_err(Fail::failed)?;
        ledger.publish_url(&url).map_err(Fail::failed)?;
        let reloader = Reloader::new(agent.gate().clone(), agent.launcher().clone(), model_keys, &config);
        let index = index(&ledger);
        let serving = Serving { config, url, agent, authority, anchor, index, reloader, notify, dials };
        let code = serving.serve(listener, passed, signals, work).await?;
        let stop = Draft::new(StopPayload { command: what.to_owned() });
        let _receipt = ledger.append_one(stop).await.map_err(Fail::failed)?;
        Ok(code)
    })
}

/// Opens the index for queries. Without one, queries read the ledger.
fn index(ledger: &Ledger) -> Option<Arc<Index>> {
    let without = |error| tracing::error!(%error, "no index: queries read the ledger");
    ledger.index().map_err(without).ok().map(Arc::new)
}
