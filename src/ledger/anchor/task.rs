//! Sends the newest checkpoint to a place outside the control of this host alone, again and again,
//! and records each success as an entry.
//!
//! There are three places: the log lines of this process; a file that is only appended to; a
//! witness, which signs only what extends the tree that it has seen.
//!
//! An `anchor` entry is appended only after its place has taken the checkpoint, and no append waits
//! for a place.

use super::failure::{AnchorFailure, AnchorOpenError, aside};
use super::file::AnchorFile;
use super::standing::{Standing, warning, write};
use super::witness::Witness;
use crate::config::Anchoring;
use crate::ledger::checkpoint::{Checkpoint, Note};
use crate::ledger::entry::Draft;
use crate::ledger::files::Files;
use crate::ledger::handle::Ledger;
use crate::ledger::payload::AnchorPayload;
use crate::ledger::tree::Head;
use crate::types::clock::Wall;
use crate::types::{limits, text};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Sends a ledger's checkpoints to its place. All clones share their state.
#[derive(Clone, Debug)]
pub struct Anchor(Arc<AnchorState>);

#[derive(Debug)]
struct AnchorState {
    place: AnchorPlace,
    name: String,
    every: Duration,
    age_us_max: u64,
    /// When this was opened, in microseconds since 1970.
    opened_us: u64,
    /// Where the state is kept across restarts.
    memory: PathBuf,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
enum AnchorPlace {
    Nowhere,
    Journal,
    File(AnchorFile),
    Witness(Box<Witness>),
}

impl Anchor {
    /// Opens the configured place. A file is created if it is missing, and stays open for appends:
    /// after this call nothing outside `data/` needs to be writable.
    pub fn open(asked: &Anchoring, files: &Files) -> Result<Self, AnchorOpenError> {
        let place = match asked.place.as_str() {
            "" | "none" => AnchorPlace::Nowhere,
            "journal" => AnchorPlace::Journal,
            place => match place.strip_prefix("file:") {
                Some(path) => AnchorPlace::File(AnchorFile::open(Path::new(path), &files.data)?),
                None => AnchorPlace::Witness(Box::new(Witness::parse(place, &asked.key)?)),
            },
        };
        if !asked.key.is_empty() && !matches!(place, AnchorPlace::Witness(_)) {
            return Err(AnchorOpenError::KeyWithoutWitness);
        }
        let kept = Standing::read(files).filter(|kept| kept.place == asked.place);
        let fresh = Standing { place: asked.place.clone(), ..Standing::default() };
        Ok(Self(Arc::new(AnchorState {
            place,
            name: asked.place.clone(),
            every: Duration::from_millis(asked.every_ms),
            age_us_max: asked.age_ms_max.saturating_mul(1_000),
            opened_us: Wall::now().0,
            memory: files.anchor(),
            standing: Mutex::new(kept.unwrap_or(fresh)),
        })))
    }

    /// An anchor without a place.
    #[must_use]
    pub fn none() -> Self {
        let standing = Mutex::default();
        let (name, every, memory) = (String::new(), Duration::ZERO, PathBuf::new());
        let place = AnchorPlace::Nowhere;
        Self(Arc::new(AnchorState { place, name, every, age_us_max: 0, opened_us: 0, memory, standing }))
    }

    /// The state of the anchors; `None` without a place.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        let standing = || self.0.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!matches!(self.0.place, AnchorPlace::Nowhere)).then(standing)
    }

    /// How long the place has taken nothing, in microseconds: since its last checkpoint, or else
    /// since this process opened it.
    #[must_use]
    pub fn age_us(&self, standing: &Standing) -> u64 {
        let since = if standing.at_us == 0 { self.0.opened_us } else { standing.at_us };
        Wall::now().0.saturating_sub(since)
    }

    /// What is wrong with the anchors of a ledger of `size` entries, if anything.
    #[must_use]
    pub fn warning(&self, size: u64) -> Option<String> {
        let standing = self.standing()?;
        let age_us = self.age_us(&standing);
        warning(&standing, size, age_us, self.0.age_us_max)
    }

    /// Anchors until `stopped`: soon after the start, and then each time the ledger has grown.
    /// Failures are tried again at growing intervals.
    pub async fn run(&self, ledger: Ledger, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        if matches!(self.0.place, AnchorPlace::Nowhere) {
            return stopped.await;
        }
        let first = Duration::from_millis(limits::ANCHOR_FIRST_MS);
        let (mut pause, mut failed) = (self.0.every.min(first), 0_u32);
        loop {
            let one = async {
                tokio::time::sleep(pause).await;
                self.once(&ledger).await
            };
            // A try that a stop interrupts has no entry; the next start sends the checkpoint again.
            let outcome = tokio::select! {
                () = &mut stopped => return,
                outcome = one => outcome,
            };
            failed = if outcome.is_ok() { 0 } else { failed.saturating_add(1) };
            let again = limits::ANCHOR_PAUSE_MS << failed.saturating_sub(1).min(16);
            pause = if failed == 0 { self.0.every } else { self.0.every.min(Duration::from_millis(again)) };
        }
    }

    /// Sends the newest checkpoint if the ledger has grown, and records the result.
    async fn once(&self, ledger: &Ledger) -> Result<(), AnchorFailure> {
        let Some(note) = ledger.checkpoint() else { return Ok(()) };
        let note = Note::parse(&note)?;
        let checkpoint = Checkpoint::parse(note.text())?;
        let before = self.standing().unwrap_or_default();
        let there = ledger.head().size;
        let taken = if there < before.covered {
            let what = format!("{} entries were anchored, but the ledger has {there}", before.covered);
            Err(AnchorFailure::Conflict(what))
        } else if checkpoint.head.size <= before.covered {
            return Ok(());
        } else {
            self.send(ledger, &note, checkpoint.head, before.size).await
        };
        let outcome = match taken {
            Ok(cosigned) => self.record(ledger, &note, checkpoint.head, cosigned).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &outcome {
            self.failed(failure);
        }
        outcome
    }

    /// Sends the checkpoint to the place. Returns the cosignature, if the place signs.
    async fn send(
        &self,
        ledger: &Ledger,
        note: &Note,
        head: Head,
        seen: u64,
    ) -> Result<Option<String>, AnchorFailure> {
        match &self.0.place {
            AnchorPlace::Nowhere => Ok(None),
            AnchorPlace::Journal => {
                let line = note.to_string().replace('\n', "\\n");
                tracing::info!(size = head.size, note = %line, "anchor: the newest checkpoint");
                Ok(None)
            }
            AnchorPlace::File(_) => {
                let (all, ledger, note) = (self.clone(), ledger.clone(), note.clone());
                let append = move || match &all.0.place {
                    AnchorPlace::File(file) => file.append(ledger.reader(), &note),
                    _ => Ok(()),
                };
                aside(append).await.map(|()| None)
            }
            AnchorPlace::Witness(witness) => witness.cosigned(ledger, note, head, seen).await.map(Some),
        }
    }

    /// Appends the entry, and keeps the state for the next time.
    async fn record(
        &self,
        ledger: &Ledger,
        note: &Note,
        head: Head,
        cosignature: Option<String>,
    ) -> Result<(), AnchorFailure> {
        let witness = match &self.0.place {
            AnchorPlace::Witness(witness) => cosignature.is_some().then(|| witness.key.to_string()),
            _ => None,
        };
        let payload = AnchorPayload {
            place: self.0.name.clone(),
            size: head.size,
            root: head.root,
            note: note.to_string(),
            cosignature: cosignature.filter(|_| witness.is_some()),
            witness,
        };
        // A damaged log is published too, so that the entry that says so cannot be removed. It
        // takes no `anchor` entry.
        let at = match ledger.damage() {
            Some(_) => None,
            None => Some(ledger.append_one(Draft::new(payload)).await?.seq()),
        };
        // An `anchor` entry alone is not growth.
        let covered = if at == Some(head.size) { head.size + 1 } else { head.size };
        let at_us = Wall::now().0;
        self.keep(|standing| {
            *standing = Standing {
                size: head.size,
                covered,
                at_us,
                error: None,
                is_conflict: false,
                ..standing.clone()
            };
        });
        Ok(())
    }

    fn failed(&self, failure: &AnchorFailure) {
        let error = text::visible_line(text::prefix(&failure.to_string(), limits::REASON_BYTES_MAX));
        let is_conflict = matches!(failure, AnchorFailure::Conflict(_));
        let place = self.0.name.as_str();
        if is_conflict {
            tracing::error!(place, error, "anchor: CONFLICT: the ledger is not the one that was anchored");
        } else {
            tracing::warn!(place, error, "anchor: the checkpoint could not be published; trying again later");
        }
        self.keep(|standing| {
            standing.failures += 1;
            // A conflict stays until the place takes a checkpoint again.
            if is_conflict || !standing.is_conflict {
                standing.error = Some(error);
                standing.is_conflict = is_conflict;
            }
        });
    }

    /// Changes the state and writes it down. If writing fails, the next start only asks the place
    /// again.
    fn keep(&self, change: impl FnOnce(&mut Standing)) {
        let mut standing = self.0.standing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut standing);
        if let Err(e) = write(&self.0.memory, &standing) {
            tracing::warn!(error = %e, "cannot write {}", self.0.memory.display());
        }
    }
}
