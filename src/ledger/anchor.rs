//! Anchors: the newest checkpoint is told, again and again, to a place that this host does not rule alone, and
//! what came of it is an entry of its own.
//!
//! Three places: the log lines of this process; a file that is only ever appended to; a witness, which signs
//! what goes on from what it has seen and nothing else.
//!
//! Architecture invariants: an `anchor` entry is appended only after its place has taken the checkpoint; no
//! append ever waits for a place.

use super::cosignature::{Said, WitnessKey, request};
use super::note::{Checkpoint, Note};
use super::payload::AnchorPayload;
use super::{AppendError, Draft, Files, Head, Ledger, ReadError, Reader};
use crate::config::Anchoring;
use crate::egress::{Ask, Client, EgressError, Endpoint};
use crate::types::clock::Wall;
use crate::types::{limits, text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Tells a ledger's checkpoints to its place. Shared by all clones.
#[derive(Clone, Debug)]
pub struct Anchor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    name: String,
    every: Duration,
    age_us_max: u64,
    /// When this was opened, in microseconds since 1970.
    opened_us: u64,
    /// Where the standing is kept over a restart.
    memory: PathBuf,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
enum Place {
    Nowhere,
    Journal,
    File(AnchorFile),
    Witness(Box<Witness>),
}

/// Who signs what goes on from what it has seen.
#[derive(Debug)]
struct Witness {
    endpoint: Endpoint,
    key: WitnessKey,
    client: Client,
}

/// How the anchors of a ledger stand; kept in `data/anchor`, which proves nothing and only says where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The place, as configured.
    pub place: String,
    /// Entries under the newest checkpoint that the place has taken.
    pub size: u64,
    /// The same, and the entry that says so where it is the next one: behind these the ledger has grown.
    pub covered: u64,
    /// When the place took it, in microseconds since 1970; 0 for never.
    pub at_us: u64,
    /// Tries that failed, since the place was configured.
    pub failures: u64,
    /// Why the last try failed, if it did.
    pub error: Option<String>,
    /// Whether it failed because the place holds another history of this log.
    pub is_conflict: bool,
}

impl Standing {
    /// What was kept for `files`, if anything that can be read.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(files.anchor()).ok()?).ok()
    }
}

/// Why a checkpoint was not anchored.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// The place holds another history: somebody rewrote or rolled back the one or the other.
    Conflict(String),
    /// Nothing was told, or nothing is known of it; to be tried again.
    Missed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Conflict(what) | Self::Missed(what)) = self;
        f.write_str(what)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Missed(error.to_string())
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        Self::Missed(format!("it was told, and not recorded: {error}"))
    }
}

impl From<EgressError> for Failure {
    fn from(error: EgressError) -> Self {
        Self::Missed(error.to_string())
    }
}

impl Anchor {
    /// Opens the place that is configured. A file is made where it is not there, and is held open to be
    /// appended to: behind this call nothing outside of `data/` needs to be writable.
    pub fn open(asked: &Anchoring, files: &Files) -> Result<Self, String> {
        let place = match asked.place.as_str() {
            "" | "none" => Place::Nowhere,
            "journal" => Place::Journal,
            place => match place.strip_prefix("file:") {
                Some(path) => Place::File(AnchorFile::open(Path::new(path), &files.data)?),
                None => witness(place, &asked.key)?,
            },
        };
        if !asked.key.is_empty() && !matches!(place, Place::Witness(_)) {
            return Err("`anchor_key` is a witness's, and `anchor` names none".to_owned());
        }
        let kept = Standing::read(files).filter(|kept| kept.place == asked.place);
        let fresh = Standing { place: asked.place.clone(), ..Standing::default() };
        Ok(Self(Arc::new(Inner {
            place,
            name: asked.place.clone(),
            every: Duration::from_millis(asked.every_ms),
            age_us_max: asked.age_ms_max.saturating_mul(1_000),
            opened_us: Wall::now().0,
            memory: files.anchor(),
            standing: Mutex::new(kept.unwrap_or(fresh)),
        })))
    }

    /// No place at all.
    #[must_use]
    pub fn none() -> Self {
        let standing = Mutex::default();
        let (name, every, memory) = (String::new(), Duration::ZERO, PathBuf::new());
        let place = Place::Nowhere;
        Self(Arc::new(Inner { place, name, every, age_us_max: 0, opened_us: 0, memory, standing }))
    }

    /// How the anchors stand; `None` where there is no place.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        let standing = || self.0.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!matches!(self.0.place, Place::Nowhere)).then(standing)
    }

    /// Since when the place has taken nothing, in microseconds: since its last checkpoint, else since this
    /// process asked first.
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

    /// Anchors until `stopped`: soon, and then each time that the ledger has grown. Failures are tried again,
    /// later and later.
    pub async fn run(&self, ledger: Ledger, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        if matches!(self.0.place, Place::Nowhere) {
            return stopped.await;
        }
        let first = Duration::from_millis(limits::ANCHOR_FIRST_MS);
        let (mut pause, mut failed) = (self.0.every.min(first), 0_u32);
        loop {
            let one = async {
                tokio::time::sleep(pause).await;
                self.once(&ledger).await
            };
            // What a stop interrupts was told without an entry, or not at all: the next start tells it again.
            let outcome = tokio::select! {
                () = &mut stopped => return,
                outcome = one => outcome,
            };
            failed = if outcome.is_ok() { 0 } else { failed.saturating_add(1) };
            let again = limits::ANCHOR_PAUSE_MS << failed.saturating_sub(1).min(16);
            pause = if failed == 0 { self.0.every } else { self.0.every.min(Duration::from_millis(again)) };
        }
    }

    /// Tells the newest checkpoint, if the ledger has grown, and records that.
    async fn once(&self, ledger: &Ledger) -> Result<(), Failure> {
        let Some(note) = ledger.checkpoint() else { return Ok(()) };
        let note = Note::parse(&note).map_err(Failure::Missed)?;
        let checkpoint = Checkpoint::parse(note.text()).map_err(Failure::Missed)?;
        let before = self.standing().unwrap_or_default();
        let there = ledger.head().size;
        let told = if there < before.covered {
            let what = format!("{} entries were anchored, and there are {there}", before.covered);
            Err(Failure::Conflict(what))
        } else if checkpoint.head.size <= before.covered {
            return Ok(());
        } else {
            self.tell(ledger, &note, checkpoint.head, before.size).await
        };
        let outcome = match told {
            Ok(cosigned) => self.record(ledger, &note, checkpoint.head, cosigned).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &outcome {
            self.failed(failure);
        }
        outcome
    }

    /// The place has it: what it answered, if it signs.
    async fn tell(
        &self,
        ledger: &Ledger,
        note: &Note,
        head: Head,
        seen: u64,
    ) -> Result<Option<String>, Failure> {
        match &self.0.place {
            Place::Nowhere => Ok(None),
            Place::Journal => {
                let line = note.to_string().replace('\n', "\\n");
                tracing::info!(size = head.size, note = %line, "anchor: the newest checkpoint");
                Ok(None)
            }
            Place::File(_) => {
                let (all, ledger, note) = (self.clone(), ledger.clone(), note.clone());
                let append = move || match &all.0.place {
                    Place::File(file) => file.append(ledger.reader(), &note),
                    _ => Ok(()),
                };
                aside(append).await.map(|()| None)
            }
            Place::Witness(witness) => witness.cosigned(ledger, note, head, seen).await.map(Some),
        }
    }

    /// The entry, and what is kept for the next time.
    async fn record(
        &self,
        ledger: &Ledger,
        note: &Note,
        head: Head,
        cosignature: Option<String>,
    ) -> Result<(), Failure> {
        let witness = match &self.0.place {
            Place::Witness(witness) => cosignature.is_some().then(|| witness.key.to_string()),
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
        let receipt = ledger.append_one(Draft::new(payload)).await?;
        // An entry that says nothing but that the ledger was anchored is no growth.
        let covered = if receipt.seq() == head.size { head.size + 1 } else { head.size };
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

    fn failed(&self, failure: &Failure) {
        let error = text::visible_line(text::prefix(&failure.to_string(), limits::REASON_BYTES_MAX));
        let is_conflict = matches!(failure, Failure::Conflict(_));
        let place = self.0.name.as_str();
        if is_conflict {
            tracing::error!(place, error, "anchor: CONFLICT: the ledger is not the one that was anchored");
        } else {
            tracing::warn!(place, error, "anchor: the checkpoint was not taken; it is tried again");
        }
        self.keep(|standing| {
            standing.failures += 1;
            // What was found wrong with the log stays so until its place takes it again.
            if is_conflict || !standing.is_conflict {
                standing.error = Some(error);
                standing.is_conflict = is_conflict;
            }
        });
    }

    /// Changes the standing, and writes it down. A failure to write costs no more than a question.
    fn keep(&self, change: impl FnOnce(&mut Standing)) {
        let mut standing = self.0.standing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut standing);
        if let Err(e) = write(&self.0.memory, &standing) {
            tracing::warn!(error = %e, "{} was not written", self.0.memory.display());
        }
    }
}

/// What is wrong with anchors that stand like this, if anything.
#[must_use]
pub fn warning(standing: &Standing, size: u64, age_us: u64, age_us_max: u64) -> Option<String> {
    let error = standing.error.as_deref().unwrap_or_default();
    if standing.is_conflict {
        return Some(format!("{}: the ledger is not the one that was anchored: {error}", standing.place));
    }
    let is_old = size > standing.covered && age_us > age_us_max;
    is_old.then(|| {
        let (there, minutes) = (standing.size, age_us / 60_000_000);
        let why = if error.is_empty() { String::new() } else { format!(": {error}") };
        format!("{}: has {there} of {size} entries, and took none for {minutes} minutes{why}", standing.place)
    })
}

fn write(path: &Path, standing: &Standing) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(standing).map_err(std::io::Error::other)?)?;
    std::fs::rename(&fresh, path)
}

/// Reads and writes files aside from the threads that serve.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(Failure::Missed(e.to_string())))
}

fn witness(url: &str, key: &str) -> Result<Place, String> {
    let endpoint = Endpoint::parse(url, "add-checkpoint").map_err(|e| format!("`anchor`: {e}"))?;
    if !endpoint.is_private() {
        return Err("`anchor`: a witness is asked by `https`, or on this host".to_owned());
    }
    let key = WitnessKey::parse(key).ok_or(
        "`anchor_key`: must be the witness's key, `NAME+HASH+KEY`, of the type for cosignatures (4)",
    )?;
    Ok(Place::Witness(Box::new(Witness { endpoint, key, client: Client::new(None) })))
}

impl Witness {
    /// Asks for a signature of `note`, which goes on from the `seen` entries that were signed before.
    ///
    /// The witness may have seen others than is known here, once: the answer that a crash lost, or nothing.
    async fn cosigned(&self, ledger: &Ledger, note: &Note, head: Head, seen: u64) -> Result<String, Failure> {
        let mut old = seen;
        for _ in 0..2 {
            let at = ledger.clone();
            let proof = aside(move || Ok(at.reader().consistency(old, head.size)?)).await?;
            let body = request(old, &proof, note).map_err(Failure::Missed)?;
            let ask = Ask {
                endpoint: &self.endpoint,
                credential: None,
                headers: &[("content-type", "text/plain; charset=utf-8")],
                body: Some(body.as_bytes()),
                deadline: Duration::from_millis(limits::WITNESS_MS_MAX),
            };
            let answer = self.client.exchange(ask).await?;
            match Said::read(answer.status, &answer.body, note, &self.key) {
                Said::Cosigned(line, _) => return Ok(line),
                Said::Conflict(what) => return Err(Failure::Conflict(what)),
                Said::Refused(what) => return Err(Failure::Missed(what)),
                Said::Seen(size) if size > head.size => {
                    let what = format!("it has seen {size} entries, and there are {}", head.size);
                    return Err(Failure::Conflict(what));
                }
                Said::Seen(size) => {
                    if size < seen {
                        tracing::warn!(size, seen, "anchor: the witness has forgotten what it signed");
                    }
                    old = size;
                }
            }
        }
        Err(Failure::Missed("it names another size each time".to_owned()))
    }
}

/// A file that checkpoints are appended to.
#[derive(Debug)]
struct AnchorFile {
    path: PathBuf,
    /// Opened before the front locked itself: of all that lies outside of `data/`, this alone can be written.
    file: Mutex<std::fs::File>,
}

impl AnchorFile {
    fn open(path: &Path, data: &Path) -> Result<Self, String> {
        let at = |what: &dyn fmt::Display| format!("`anchor`: {}: {what}", path.display());
        if !path.is_absolute() {
            return Err(at(&"must be an absolute path"));
        }
        if path.starts_with(data) {
            return Err(at(&"lies in `data/`: who rolls the ledger back would roll it back too"));
        }
        let mut open = std::fs::OpenOptions::new();
        let file = open.read(true).append(true).create(true).mode(0o600).open(path).map_err(|e| at(&e))?;
        if !file.metadata().map_err(|e| at(&e))?.is_file() {
            return Err(at(&"is no regular file"));
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Appends `note`, durably, behind an empty line; what stands there must be of the same history.
    fn append(&self, reader: &Reader, note: &Note) -> Result<(), Failure> {
        let missed = |e: std::io::Error| Failure::Missed(e.to_string());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, there) = (file.metadata().map_err(missed)?, std::fs::metadata(&self.path));
        // What is written into a file that has no name any more, nobody finds.
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())) {
            return Err(Failure::Missed(
                "the file was removed or replaced: a restart opens it anew".to_owned(),
            ));
        }
        file.seek(SeekFrom::Start(held.len().saturating_sub(TAIL_BYTES))).map_err(missed)?;
        let mut tail = Vec::new();
        (&*file).take(TAIL_BYTES).read_to_end(&mut tail).map_err(missed)?;
        let tail = String::from_utf8_lossy(&tail);
        if let Some(last) = Note::last(&tail) {
            goes_on(reader, &last, note)?;
        }
        // What a full disk left of a note stays its own.
        let between = match tail.as_bytes() {
            [] => "",
            [.., b'\n'] => "\n",
            _ => "\n\n",
        };
        file.write_all(format!("{between}{note}").as_bytes()).map_err(missed)?;
        file.sync_all().map_err(missed)
    }
}

/// Bytes of an anchor's file that the last note is looked for in.
const TAIL_BYTES: u64 = 64 << 10;

/// Whether the ledger goes on from the checkpoint that was told last.
fn goes_on(reader: &Reader, last: &Note, note: &Note) -> Result<(), Failure> {
    let read = |note: &Note| Checkpoint::parse(note.text()).map_err(Failure::Missed);
    let (last, now) = (read(last)?, read(note)?);
    let (before, here) = (last.head.size, now.head.size);
    let conflict = if last.origin != now.origin {
        format!("the file's last checkpoint is of `{}`: each log has a file of its own", last.origin)
    } else if before > here {
        format!("the file's last checkpoint is of {before} entries, and there are {here}")
    } else if reader.head_at(before)? != last.head {
        format!("the file's last checkpoint, of {before} entries, has another root")
    } else {
        return Ok(());
    };
    Err(Failure::Conflict(conflict))
}
