//! The front's side of the launcher's socket: asynchronous, with many calls at once.

use super::filter::Dials;
use super::link::{EMPTY_BYTES, Event, Link, lock};
use super::source::{LauncherOrigin, LauncherSource};
use crate::call::{End, Execution, Held, Object, Prepared, Unprepared};
use crate::gate::{Order, Pending};
use crate::launcher::StartError;
use crate::launcher::protocol::{Ask, Go, PacketKind, Report, Request};
use crate::tools::{JournalFiles, Limits, Manifest, Output, is_only_about_damage, journal_result};
use crate::types::limits::{LAUNCHER_PINGS_MISSED_MAX, LAUNCHER_PONG_MS_MAX};
use crate::types::{Digest, RefusalClass};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// How long the front waits beyond the launcher's own deadlines, in milliseconds.
const SLACK_MS: u64 = 5_000;
/// Time from the request for a new launcher to its first message, in milliseconds.
const RENEW_MS_MAX: u64 = 20_000;

const ENDED: &str = "the launcher ended and is not replaced yet";
const SILENT: &str = "the launcher does not answer";

/// A launcher that was started before there is a runtime. [`LinkSeed::connect`] makes it usable.
#[derive(Debug)]
#[must_use = "dropping the seed ends the launcher"]
pub struct LinkSeed {
    pub(super) socket: OwnedFd,
    pub(super) origin: LauncherOrigin,
    pub(super) report: Report,
}

impl LinkSeed {
    /// What the launcher found when it started.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// How the next launcher is obtained.
    #[must_use]
    pub fn dials(&self) -> Dials {
        match self.origin {
            LauncherOrigin::Forked | LauncherOrigin::Supervisor(_) => Dials::Nothing,
            LauncherOrigin::Socket(_) => Dials::Launchers,
        }
    }

    /// The seed of a launcher that has ended, for tests of the rooms above.
    #[cfg(test)]
    pub(crate) fn ended() -> Self {
        let (socket, _) = super::source::pair().expect("a socket pair");
        Self { socket, origin: LauncherOrigin::Forked, report: Report::default() }
    }

    /// Connects; must be called within a tokio runtime with its I/O driver enabled.
    pub fn connect(self) -> Result<Launcher, StartError> {
        let source = LauncherSource::new(self.origin)?;
        let (link, _) =
            Link::open(self.socket, Some(self.report)).map_err(|e| StartError::new("socket", e))?;
        Ok(Launcher {
            inner: Arc::new(Inner {
                source: tokio::sync::Mutex::new(source),
                renewals: AtomicU64::new(0),
                current: Mutex::new(link),
                last_id: AtomicU64::new(0),
                obstacle: Mutex::default(),
                seats: Mutex::default(),
            }),
        })
    }
}

/// Why a call was not prepared. Nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The launcher refused, or its child under the call's rights.
    #[error("{0}")]
    Refused(Unprepared),
    /// The launcher ended, and no other one is running.
    #[error("the launcher ended")]
    LauncherEnded,
    /// The launcher did not answer in time.
    #[error("the launcher did not answer")]
    NoAnswer,
}

impl PrepareError {
    /// Whether this host refuses, or PAR is busy: a launcher that ended is replaced.
    #[must_use]
    pub fn class(&self) -> RefusalClass {
        match self {
            Self::Refused(unprepared) => unprepared.class,
            Self::LauncherEnded | Self::NoAnswer => RefusalClass::Capacity,
        }
    }
}

/// The connection to the launcher. Clones share it; dropping the last one ends the launcher.
#[derive(Clone, Debug)]
pub struct Launcher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Locked while a launcher is replaced.
    source: tokio::sync::Mutex<LauncherSource>,
    /// Number of launchers that followed the first.
    renewals: AtomicU64,
    current: Mutex<Arc<Link>>,
    last_id: AtomicU64,
    /// The last result of [`Launcher::tend`].
    obstacle: Mutex<Option<&'static str>>,
    /// Prepared and running calls, each with its launcher.
    seats: Mutex<HashMap<u64, Seat>>,
}

#[derive(Debug)]
struct Seat {
    link: Arc<Link>,
    /// `None` once the run has taken it.
    events: Option<UnboundedReceiver<Event>>,
    /// For a call with its own network.
    listener: Option<OwnedFd>,
}

impl Launcher {
    /// What the current launcher found when it started.
    #[must_use]
    pub fn report(&self) -> Report {
        lock(&lock(&self.inner.current).report).clone().unwrap_or_default()
    }

    /// Has the sandbox resolve the object of a call, in a child that then waits for the permit.
    ///
    /// Dropping the future or the result's `held` ends the child. A waiting child lives for a
    /// bounded time; after that its order is refused.
    pub async fn prepare(&self, pending: &Pending) -> Result<Prepared, PrepareError> {
        let ask = Ask {
            tool: pending.manifest().name.clone(),
            manifest: pending.manifest().digest.hex(),
            arguments: pending.arguments().to_owned(),
            named: pending.named().to_vec(),
        };
        self.prepare_ask(ask, pending.manifest().prepare_ms_max()).await
    }

    /// The listener in the network of a prepared call that makes its own connections; `None` after
    /// the first call. Its holder accepts the connections, and what they carry comes from the tool.
    pub fn listener(&self, order: &Order) -> Option<OwnedFd> {
        lock(&self.inner.seats).get_mut(&order.held().id())?.listener.take()
    }

    /// Runs a permitted call to its end; the tool is given `connected`. Every failure is an end;
    /// the output is bounded by the manifest. Dropping the future ends the child.
    pub async fn run(&self, order: Order, connected: Option<OwnedFd>) -> Execution {
        let go = Go {
            tool: order.manifest().name.clone(),
            manifest: order.manifest().digest.hex(),
            arguments: Digest::sha256(order.arguments().as_bytes()),
            decision: order.decision(),
            object: order.object().clone(),
            exclusions: order.exclusions().to_vec(),
            secrets: self.salt(order.held()).and_then(|salt| order.secrets(&salt)).map(|proof| proof.hex()),
        };
        let limits = order.manifest().limits;
        // The order lives until here: dropping its `held` ends the child on every path out of this
        // function.
        let mut execution = self.run_go(go, connected, order.held(), limits).await;
        if order.manifest().output == Output::Journal {
            entries_to_object(&mut execution, order.arguments());
        }
        execution
    }

    /// The salt of the launcher that prepared a call.
    fn salt(&self, held: &Held) -> Option<[u8; 32]> {
        let seats = lock(&self.inner.seats);
        let report = lock(&seats.get(&held.id())?.link.report);
        report.as_ref().map(|report| report.salt)
    }

    /// Checks the launcher once: replaces one that has ended, and asks whether it answers. A
    /// launcher that leaves [`LAUNCHER_PINGS_MISSED_MAX`] pings in a row unanswered is given up,
    /// which ends its calls, and is replaced too. An error means that no launcher answers now.
    pub async fn check_or_replace(&self) -> Result<(), PrepareError> {
        if lock(&self.inner.current).has_ended() {
            self.note(Some(ENDED));
        }
        let link = self.link().await?;
        let asked = self.ask(&link, Duration::from_millis(LAUNCHER_PONG_MS_MAX)).await;
        if asked.is_ok() {
            link.missed.store(0, Ordering::Relaxed);
            self.note(None);
            return Ok(());
        }
        self.note(Some(SILENT));
        let missed = link.missed.fetch_add(1, Ordering::Relaxed) + 1;
        if asked == Err(PrepareError::NoAnswer) && missed < LAUNCHER_PINGS_MISSED_MAX {
            return asked;
        }
        link.cut();
        self.link().await?;
        self.note(None);
        Ok(())
    }

    fn note(&self, obstacle: Option<&'static str>) {
        *lock(&self.inner.obstacle) = obstacle;
    }

    /// Why calls find no launcher that answers, by the last [`Self::check_or_replace`].
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        *lock(&self.inner.obstacle)
    }

    /// Whether the launcher of `link` answers within `wait`.
    async fn ask(&self, link: &Link, wait: Duration) -> Result<(), PrepareError> {
        let id = self.inner.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut events = link.listen(id);
        let sent = link.send(id, &Request::Ping, None).map_err(PrepareError::Refused);
        let answer = match sent {
            Ok(()) => timeout(wait, events.recv()).await,
            Err(refused) => return Err(refused),
        };
        link.listeners.forget(id);
        match answer {
            Ok(Some(Event::Pong)) => Ok(()),
            Ok(_) => Err(PrepareError::LauncherEnded),
            Err(_) => Err(PrepareError::NoAnswer),
        }
    }

    /// How often a launcher was replaced.
    #[must_use]
    pub fn renewals(&self) -> u64 {
        self.inner.renewals.load(Ordering::Relaxed)
    }

    /// Starts another launcher, which loads the manifests again and tests itself.
    /// [`Renewal::install`] puts it to use; dropping the renewal ends it.
    pub async fn renew(&self) -> Result<Renewal<'_>, StartError> {
        let source = self.inner.source.lock().await;
        let (link, report) = fresh(&source).await?;
        Ok(Renewal { inner: &self.inner, link, report, _source: source })
    }

    /// Starts an additional launcher, as a compromised front would.
    #[cfg(test)]
    pub(super) async fn more(&self) -> Result<impl std::fmt::Debug + use<>, StartError> {
        let source = self.inner.source.lock().await;
        fresh(&source).await
    }

    /// Resolves a path argument as the sandbox does, under the rights of `manifest`'s tool. The
    /// child ends at once: this runs nothing.
    pub async fn look(
        &self,
        manifest: &Manifest,
        arguments: &str,
        named: Vec<String>,
    ) -> Result<Object, PrepareError> {
        let (tool, arguments) = (manifest.name.clone(), arguments.to_owned());
        let ask = Ask { tool, manifest: manifest.digest.hex(), arguments, named };
        self.prepare_ask(ask, manifest.prepare_ms_max()).await.map(|prepared| prepared.object)
    }

    /// Like [`Launcher::prepare`], for a call whose preparation may take `ms_max` milliseconds.
    pub(super) async fn prepare_ask(&self, ask: Ask, ms_max: u64) -> Result<Prepared, PrepareError> {
        let link = self.link().await?;
        let id = self.inner.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut events = link.listen(id);
        lock(&self.inner.seats).insert(id, Seat { link: link.clone(), events: None, listener: None });
        let held = Held::new(id, release(&self.inner));
        if let Err(unsent) = link.send(id, &Request::Prepare(ask), None) {
            // Lets the reader see the end of the socket: the next request then finds that the link
            // has ended.
            tokio::task::yield_now().await;
            return Err(PrepareError::Refused(unsent));
        }
        let wait = Duration::from_millis(ms_max + SLACK_MS);
        match timeout(wait, events.recv()).await {
            Ok(Some(Event::Prepared(object, listener))) => {
                if let Some(seat) = lock(&self.inner.seats).get_mut(&id) {
                    (seat.events, seat.listener) = (Some(events), listener);
                }
                Ok(Prepared { object, held })
            }
            Ok(Some(Event::NotPrepared(reason))) => Err(PrepareError::Refused(reason)),
            Ok(Some(_)) => Err(PrepareError::Refused("the launcher answered something else".into())),
            Ok(None) => Err(PrepareError::LauncherEnded),
            Err(_) => Err(PrepareError::NoAnswer),
        }
    }

    pub(super) async fn run_go(
        &self,
        go: Go,
        connected: Option<OwnedFd>,
        held: &Held,
        limits: Limits,
    ) -> Execution {
        let id = held.id();
        let seat = lock(&self.inner.seats).get_mut(&id).and_then(|seat| {
            let events = seat.events.take()?;
            Some((seat.link.clone(), events))
        });
        let refused = |reason: String| Execution::without_output(End::Refused { reason });
        let Some((link, events)) = seat else { return refused("the call was not prepared".to_owned()) };
        // That much of each stream, by the launcher's own count, and one empty piece if there was
        // more.
        let of_each = limits.output_bytes_max.saturating_add(EMPTY_BYTES);
        link.listeners.expect_output(id, of_each.saturating_mul(2));
        if let Err(unsent) = link.send(id, &Request::Go(go), connected) {
            return refused(unsent.reason);
        }
        let mut execution = Execution::without_output(End::Killed);
        let wait = Duration::from_millis(limits.wall_ms_max.saturating_add(SLACK_MS));
        // If the launcher is gone, or misses its own deadline, the call counts as killed.
        let told = timeout(wait, collect(events, limits.output_bytes_max, &mut execution)).await;
        if told == Ok(true) {
            // The launcher has reaped it: nothing is left to release.
            lock(&self.inner.seats).remove(&id);
            link.listeners.forget(id);
        }
        execution
    }

    /// The current launcher, or a new one if it has ended and another can be started.
    async fn link(&self) -> Result<Arc<Link>, PrepareError> {
        let current = lock(&self.inner.current).clone();
        if !current.has_ended() {
            return Ok(current);
        }
        let source = self.inner.source.lock().await;
        // Another task may have replaced it while this one waited.
        let newest = lock(&self.inner.current).clone();
        if !Arc::ptr_eq(&current, &newest) {
            return Ok(newest);
        }
        let (link, report) = fresh(&source).await.map_err(|_| PrepareError::LauncherEnded)?;
        Renewal { inner: &self.inner, link: link.clone(), report, _source: source }.install();
        Ok(link)
    }
}

/// A launcher next to the current one; no other task can replace that one meanwhile.
#[derive(Debug)]
#[must_use = "a renewal that is dropped ends its launcher"]
pub struct Renewal<'a> {
    inner: &'a Inner,
    link: Arc<Link>,
    report: Report,
    _source: tokio::sync::MutexGuard<'a, LauncherSource>,
}

impl Renewal<'_> {
    /// What the new launcher found when it started.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Uses it for every later call. The previous launcher ends with the last call that is prepared
    /// or runs there.
    pub fn install(self) {
        *lock(&self.link.report) = Some(self.report);
        *lock(&self.inner.current) = self.link;
        self.inner.renewals.fetch_add(1, Ordering::Relaxed);
    }
}

async fn fresh(source: &LauncherSource) -> Result<(Arc<Link>, Report), StartError> {
    let wait = Duration::from_millis(RENEW_MS_MAX);
    let late = |_| StartError::new("renew", format!("no message came within {RENEW_MS_MAX} ms"));
    timeout(wait, new_link(source)).await.map_err(late)?
}

/// Replaces the entries that `journalctl` printed by one object, before they are searched for
/// secrets: journalctl writes bytes in ways that no search for a secret would recognize.
fn entries_to_object(execution: &mut Execution, arguments: &str) {
    let files = JournalFiles::take(&mut execution.stderr);
    let has_said_nothing = execution.stdout.is_empty() && is_only_about_damage(&execution.stderr);
    match execution.end {
        End::Exit { code: 0 } => {}
        // It ends like this if no entry matches a pattern.
        End::Exit { code: 1 } if has_said_nothing => execution.end = End::Exit { code: 0 },
        _ => return,
    }
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let limit = arguments.get("limit").and_then(Value::as_u64);
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy();
    let told = journal_result(&execution.stdout, &execution.stderr, files, limit, &host);
    execution.stdout = told.to_string().into_bytes();
}

/// Gathers output and end; returns whether an end came. Leaves `execution` as killed if none did.
async fn collect(
    mut events: UnboundedReceiver<Event>,
    output_bytes_max: usize,
    execution: &mut Execution,
) -> bool {
    while let Some(event) = events.recv().await {
        match event {
            Event::Output(PacketKind::Stdout, bytes) => {
                append(&mut execution.stdout, &bytes, output_bytes_max)
            }
            Event::Output(_, bytes) => append(&mut execution.stderr, &bytes, output_bytes_max),
            Event::Ended(ended) => {
                execution.end = ended.end;
                execution.layers = ended.layers;
                execution.level = ended.level;
                execution.protections = ended.protections;
                execution.given = ended.given;
                execution.wall_us = ended.wall_us;
                return true;
            }
            Event::Hello(_) | Event::Prepared(..) | Event::NotPrepared(_) | Event::Pong => {}
        }
    }
    false
}

/// The launcher counts too, but the front does not rely on it.
fn append(out: &mut Vec<u8>, bytes: &[u8], bytes_max: usize) {
    let room = bytes_max.saturating_sub(out.len()).min(bytes.len());
    out.extend(bytes.get(..room).unwrap_or_default());
}

/// Ends a child once it is released.
fn release(inner: &Arc<Inner>) -> Arc<dyn Fn(u64) + Send + Sync> {
    let inner: Weak<Inner> = Arc::downgrade(inner);
    Arc::new(move |id| {
        let seat = inner.upgrade().and_then(|inner| lock(&inner.seats).remove(&id));
        if let Some(seat) = seat {
            seat.link.listeners.forget(id);
            // A launcher that is gone has no child left to release.
            seat.link.send(id, &Request::Release, None).ok();
        }
    })
}

async fn new_link(source: &LauncherSource) -> Result<(Arc<Link>, Report), StartError> {
    let fail = |e: io::Error| StartError::new("renew", e);
    let socket = source.another().await?;
    let (link, mut events) = Link::open(socket, None).map_err(fail)?;
    match events.recv().await {
        Some(Event::Hello(Ok(report))) => Ok((link, report)),
        Some(Event::Hello(Err(reason))) => Err(StartError::new("renew", reason)),
        _ => Err(StartError::new("renew", "it ended before its first message")),
    }
}
