//! Erasing payloads: salt and words leave every file of `data/`, the header and its place in the tree stay.
//!
//! A `redaction` entry says who erased what and why, in the transaction that erases: there is no crash between them.
//! Then the write-ahead log is moved into the file and cut to nothing, and the raw bytes of every file are searched
//! for what was there. What is still found, and what no program can reach, is told.

use super::forget::forget;
use super::payload::{PowerUsed, RedactionPayload};
use super::traces::{Sight, Traces, name};
use super::writer::{Append, Scrub, Task};
use super::{AppendError, Draft, Header, Kind, Ledger, ReadError, Ref, Stored};
use crate::store;
use crate::types::{RunStatus, limits, text};
use aho_corasick::AhoCorasick;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// What is to be erased, by whom and why.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// Which entries.
    pub targets: Targets,
    /// Why, for whoever reads the ledger later.
    pub reason: String,
    /// Who asks, by the name on the ledger.
    pub principal: String,
    /// What let them in, as `Granted::record` has it; `None` without a server.
    pub power: Option<PowerUsed>,
}

/// Which entries.
#[derive(Clone, Debug)]
pub enum Targets {
    /// These, all or none.
    Entries(Vec<u64>),
    /// Every one of this run whose payload may be erased and is there.
    Run(String),
}

/// What was done, for people.
#[derive(Clone, Debug, Serialize)]
pub struct Redacted {
    /// What was erased, by rising number.
    pub entries: Vec<Erased>,
    /// Other entries of the same runs that hold words of it.
    pub same_words: Vec<Same>,
    /// Files of `data/` whose raw bytes were searched.
    pub files: usize,
    /// Where something of it may still be found, and why.
    pub left: Vec<String>,
    /// What no program can reach.
    pub beyond: [&'static str; 5],
}

/// One payload that is gone.
#[derive(Clone, Debug, Serialize)]
pub struct Erased {
    /// The entry.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
    /// Bytes that the payload had.
    pub bytes: u64,
    /// The entry that says so.
    pub redaction: u64,
}

/// An entry with the same words.
#[derive(Clone, Debug, Serialize)]
pub struct Same {
    /// The entry.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
    /// Whether it can be erased too.
    pub may_be_erased: bool,
}

/// From one try to the next, where somebody reads.
const STEP_MS: u64 = 20;

const BEYOND: [&str; 5] = [
    "blocks of the device that held the files before, and its snapshots",
    "backups and other copies of data/",
    "proof files, exports and pages that were made or read before",
    "the model's provider, as far as the words went there",
    "the system's log, and what tools and jobs wrote elsewhere",
];

/// Why nothing was erased.
#[derive(Debug)]
pub enum RedactError {
    /// A value does not fit: its name and the reason.
    Unfit(&'static str, String),
    /// Entries that stay as they are, each with the reason.
    Kept(Vec<String>),
    /// The ledger cannot be read.
    Read(ReadError),
    /// The ledger cannot be written.
    Append(AppendError),
    /// The search cannot be made.
    Failed(String),
}

impl fmt::Display for RedactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(what, why) => write!(f, "`{what}`: {why}"),
            Self::Kept(why) => write!(f, "nothing was erased: {}", why.join("; ")),
            Self::Read(e) => e.fmt(f),
            Self::Append(e) => e.fmt(f),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RedactError {}

impl From<ReadError> for RedactError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl RedactError {
    /// The code of the admin socket.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unfit(..) => "unfit",
            Self::Kept(_) => "kept",
            Self::Read(_) | Self::Append(_) => "ledger",
            Self::Failed(_) => "failed",
        }
    }
}

/// A payload that is about to go.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) header: Header,
    pub(super) salt: [u8; 32],
    pub(super) body: Vec<u8>,
}

impl Ledger {
    /// Erases payloads, all that are asked for or none. Blocking, and not for a thread of an async runtime: it waits
    /// for the disk, for readers at most [`limits::REDACTION_WAIT_MS_MAX`], and reads every file of `data/`.
    ///
    /// Once it has returned the erasure is durable, and what is not told under `left` is in no file any more.
    pub fn redact(&self, asked: &Erasure) -> Result<Redacted, RedactError> {
        let reason = reason(&asked.reason)?;
        let runs = Runs { ledger: self, known: BTreeMap::new() };
        let (payloads, runs) = self.targets(&asked.targets, runs)?;
        let words = Words::of(&payloads)?;
        if words.are_in(reason.as_bytes()) {
            let why = "it repeats words of what is to be erased, and it stays".to_owned();
            return Err(RedactError::Unfit("reason", why));
        }
        let same_words = self.same_words(&payloads, &words, &runs)?;
        let traces = Traces::of(&payloads).map_err(RedactError::Failed)?;
        let redactions = self.erase(&payloads, asked, &reason)?;
        // From here on the erasure is durable; what follows is about what the files hold beside the rows, and what
        // of it fails is told and not an error.
        let mut left = forget(self.files(), &self.shared.raw, &payloads);
        let (files, more) = self.cleanse(&traces);
        left.extend(more);
        let erased = payloads.iter().zip(redactions).map(|(payload, redaction)| Erased {
            seq: payload.header.seq,
            kind: payload.header.kind.clone(),
            bytes: payload.header.payload_len,
            redaction,
        });
        Ok(Redacted { entries: erased.collect(), same_words, files, left, beyond: BEYOND })
    }

    /// Reads what is to go; every entry that has to stay is a reason to do nothing.
    fn targets<'a>(
        &self,
        targets: &Targets,
        mut runs: Runs<'a>,
    ) -> Result<(Vec<Payload>, Runs<'a>), RedactError> {
        let (mut payloads, mut kept) = (Vec::new(), Vec::new());
        let seqs = match targets {
            Targets::Entries(seqs) => BTreeSet::from_iter(seqs.iter().copied()),
            Targets::Run(run) => {
                let of_run = runs.of(run)?;
                let erasable = of_run.iter().filter(|header| header.may_be_erased());
                erasable.map(|header| header.seq).collect()
            }
        };
        if seqs.len() > limits::REDACTED_ENTRIES_MAX {
            let why = format!("{} entries are more than {}", seqs.len(), limits::REDACTED_ENTRIES_MAX);
            return Err(RedactError::Unfit("entries", why));
        }
        for seq in seqs {
            match self.reader().salted(seq)? {
                None => kept.push(format!("there is no entry {seq}")),
                // Of a run what is gone already is no reason.
                Some((Stored { body: None, .. }, _)) if matches!(targets, Targets::Run(_)) => {}
                Some((Stored { header, body, .. }, salt)) => {
                    match (runs.why_kept(&header)?, body.zip(salt)) {
                        (Some(why), _) => kept.push(format!("entry {seq} {why}")),
                        (None, None) => kept.push(format!("entry {seq} was erased already")),
                        (None, Some((body, salt))) => payloads.push(Payload { salt, header, body }),
                    }
                }
            }
        }
        if payloads.is_empty() && kept.is_empty() {
            kept.push("there is nothing to erase".to_owned());
        }
        if kept.is_empty() { Ok((payloads, runs)) } else { Err(RedactError::Kept(kept)) }
    }

    /// Entries of the same runs, beside those that go, that hold words of them.
    fn same_words(
        &self,
        payloads: &[Payload],
        words: &Words,
        runs: &Runs<'_>,
    ) -> Result<Vec<Same>, RedactError> {
        let going: BTreeSet<u64> = payloads.iter().map(|payload| payload.header.seq).collect();
        let mut same = Vec::new();
        for header in runs.known.values().flatten().filter(|header| !going.contains(&header.seq)) {
            let body = self.reader().entry(header.seq)?.and_then(|stored| stored.body);
            if body.is_some_and(|body| words.are_in(&body)) {
                let (seq, kind, may_be_erased) = (header.seq, header.kind.clone(), header.may_be_erased());
                same.push(Same { seq, kind, may_be_erased });
            }
        }
        same.sort_by_key(|same| same.seq);
        Ok(same)
    }

    /// One commit: the entries that say so, and the rows without salt and body. Returns the entries' numbers.
    fn erase(&self, payloads: &[Payload], asked: &Erasure, reason: &str) -> Result<Vec<u64>, RedactError> {
        let drafts = payloads.iter().map(|Payload { header, .. }| {
            let payload = RedactionPayload {
                reason: reason.to_owned(),
                kind: header.kind.clone(),
                bytes: header.payload_len,
                power: asked.power.clone(),
            };
            let draft = Draft::new(payload);
            Draft { answers: Some(Ref::Seq(header.seq)), principal: Some(asked.principal.clone()), ..draft }
        });
        let erases = payloads.iter().map(|payload| payload.header.seq).collect();
        let (append, answer) = Append::of(drafts.collect()).map_err(RedactError::Append)?;
        let append = Append { erases, ..append };
        let closed = || RedactError::Append(AppendError::Closed);
        self.queue.blocking_send(Task::Append(append)).map_err(|_| closed())?;
        let receipts = answer.blocking_recv().map_err(|_| closed())?.map_err(RedactError::Append)?;
        Ok(receipts.iter().map(super::Receipt::seq).collect())
    }

    /// Empties the write-ahead log and searches the files; writes the ledger's file anew where that has to be. Tells
    /// how many files were searched, and what is left.
    fn cleanse(&self, traces: &Traces) -> (usize, Vec<String>) {
        self.settle_sealed();
        let mut is_empty = self.empty_log(false);
        let mut sight = self.look(traces);
        let mut left = Vec::new();
        let written = self.files().segment(self.shared.segment.load(Ordering::Acquire));
        let segments: BTreeSet<PathBuf> =
            self.reader().shelf().firsts().iter().map(|first| self.files().segment(*first)).collect();
        let found: Vec<PathBuf> =
            sight.found.keys().filter(|path| segments.contains(*path)).cloned().collect();
        let may_rewrite = is_empty == Ok(true);
        for path in found.iter().filter(|_| may_rewrite) {
            let bytes = std::fs::metadata(path).map_or(u64::MAX, |meta| meta.len());
            if bytes > limits::REDACTION_REWRITE_BYTES_MAX {
                let name = name(self.files(), path);
                left.push(format!("{name}: it has {bytes} bytes, too many to be written anew"));
            } else if *path == written {
                is_empty = self.empty_log(true);
            } else if let Err(e) = store::open_sealed(path).map(|db| store::rewrite(&db)) {
                left.push(e.to_string());
            }
        }
        if !found.is_empty() {
            sight = self.look(traces);
        }
        match is_empty {
            Ok(true) => {}
            Ok(false) => left.push(
                "ledger.db-wal and ledger.db: somebody reads the ledger; it is done as soon as nobody does"
                    .to_owned(),
            ),
            Err(why) => left.push(format!("ledger.db-wal and ledger.db: {why}")),
        }
        left.extend(sight.unread);
        let found = sight.found.keys();
        left.extend(found.map(|path| format!("{}: pieces of it are found", name(self.files(), path))));
        (sight.files, left)
    }

    /// Ends the write-ahead logs of sealed segments. One that is not sealed for long may have its last reader yet; what
    /// stays is found by the search.
    fn settle_sealed(&self) {
        let written = self.shared.segment.load(Ordering::Acquire);
        let firsts = self.reader().shelf().firsts().to_vec();
        let has_log = |first: &u64| {
            let mut log = self.files().segment(*first).into_os_string();
            log.push("-wal");
            PathBuf::from(log).exists()
        };
        for first in firsts.into_iter().filter(|first| *first != written && has_log(first)) {
            if let Err(e) = self.reader().settle_within(first, limits::REDACTION_WAIT_MS_MAX) {
                tracing::warn!(error = %e, "a sealed segment keeps its write-ahead log");
            }
        }
    }

    /// Has the writer empty the log, after it wrote the file anew with `rewrite`. Tries again while somebody reads.
    fn empty_log(&self, rewrite: bool) -> Result<bool, String> {
        let mut rewrite = rewrite;
        for _ in 0..limits::REDACTION_WAIT_MS_MAX / STEP_MS {
            let (reply, answer) = oneshot::channel();
            let scrub = Scrub { rewrite, reply };
            let closed = |_| AppendError::Closed.to_string();
            self.queue.blocking_send(Task::Scrub(scrub)).map_err(|_| AppendError::Closed.to_string())?;
            if answer.blocking_recv().map_err(closed)?? {
                return Ok(true);
            }
            rewrite = false;
            std::thread::sleep(Duration::from_millis(STEP_MS));
        }
        Ok(false)
    }

    /// Searches the files. What entries that are there hold too says nothing of what is gone.
    fn look(&self, traces: &Traces) -> Sight {
        let mut sight = traces.search(self.files(), &self.shared.raw);
        let pieces: BTreeSet<usize> =
            sight.found.values().flatten().copied().filter(|needle| !traces.is_salt(*needle)).collect();
        if pieces.is_empty() {
            return sight;
        }
        match self.alive(traces, &pieces) {
            Ok(alive) => {
                sight.found.values_mut().for_each(|found| found.retain(|needle| !alive.contains(needle)));
                sight.found.retain(|_, found| !found.is_empty());
            }
            Err(why) => sight.unread.push(format!("what entries hold was not compared: {why}")),
        }
        sight
    }
    /// Those of `pieces` that stand in an entry that is there.
    fn alive(&self, traces: &Traces, pieces: &BTreeSet<usize>) -> Result<BTreeSet<usize>, String> {
        let wanted = traces.only(pieces)?;
        let mut found = BTreeSet::new();
        let firsts = self.reader().shelf().firsts().to_vec();
        for first in firsts {
            let path = self.files().segment(first);
            let db = store::open_reader(&path).map_err(|e| e.to_string())?;
            let mut read = || -> Result<(), rusqlite::Error> {
                for sql in ["SELECT header FROM entry", "SELECT body FROM payload WHERE body IS NOT NULL"] {
                    let mut statement = db.prepare(sql)?;
                    let mut rows = statement.query([])?;
                    while let Some(row) = rows.next()? {
                        wanted.in_bytes(row.get_ref(0)?.as_bytes()?, &mut found);
                    }
                }
                Ok(())
            };
            read().map_err(|e| format!("{}: {e}", name(self.files(), &path)))?;
        }
        let numbers: Vec<usize> = pieces.iter().copied().collect();
        Ok(found.into_iter().filter_map(|at| numbers.get(at).copied()).collect())
    }
}

fn reason(reason: &str) -> Result<String, RedactError> {
    let reason = text::visible_line(reason.trim());
    match reason.len() {
        0 => Err(RedactError::Unfit("reason", "is empty".to_owned())),
        long if long > limits::REDACTION_REASON_BYTES_MAX => {
            let why = format!("is longer than {} bytes", limits::REDACTION_REASON_BYTES_MAX);
            Err(RedactError::Unfit("reason", why))
        }
        _ => Ok(reason),
    }
}

/// The headers of the runs that are asked about, each run looked up once.
struct Runs<'a> {
    ledger: &'a Ledger,
    known: BTreeMap<String, Vec<Header>>,
}

impl Runs<'_> {
    fn of(&mut self, run: &str) -> Result<&[Header], ReadError> {
        if !self.known.contains_key(run) {
            let headers = self.read(run)?;
            self.known.insert(run.to_owned(), headers);
        }
        Ok(self.known.get(run).map(Vec::as_slice).unwrap_or_default())
    }

    fn read(&self, run: &str) -> Result<Vec<Header>, ReadError> {
        let sql = "SELECT seq, header FROM entry \
                   WHERE instr(header, CAST('\"run\":\"' || ?1 || '\"' AS BLOB)) > 0 ORDER BY seq";
        let mut headers = Vec::new();
        let mut shelf = self.ledger.reader().shelf();
        for first in shelf.firsts().to_vec() {
            let mut statement = shelf.of(first)?.prepare_cached(sql)?;
            let rows =
                statement.query_map([run], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
            for row in rows {
                let (seq, bytes) = row?;
                let seq = u64::try_from(seq).unwrap_or(0);
                headers.push(Header::parse(&bytes).map_err(|what| ReadError::Damaged(seq, what))?);
            }
        }
        headers.retain(|header| header.str("run") == Some(run));
        Ok(headers)
    }

    /// Why the payload of this entry has to stay.
    fn why_kept(&mut self, header: &Header) -> Result<Option<String>, ReadError> {
        if !header.may_be_erased() {
            return Ok(Some(format!("is a `{}`, which is never erased", text::visible_line(&header.kind))));
        }
        let Some(run) = header.str("run") else { return Ok(None) };
        let mut replies = self.of(run)?.iter().filter(|of_run| of_run.is(Kind::RunReply));
        // A run that has ended has no entry behind its reply, and never gets one.
        let has_ended =
            replies.next_back().is_some_and(|reply| reply.str("status") != Some(RunStatus::Waiting.as_str()));
        Ok((!has_ended).then(|| "is of a run that has not ended".to_owned()))
    }
}

/// The words of payloads, to be found again in other entries and in the reason.
struct Words {
    needles: AhoCorasick,
}

/// Members that hold words of people, models and tools.
const SPEAKING: [&str; 12] = [
    "message",
    "text",
    "calls",
    "arguments",
    "arguments_raw",
    "object",
    "result",
    "answer",
    "steps",
    "error",
    "sources",
    "stop_text",
];
/// Members within them that name things, and stand in every entry of a call.
const NAMING: [&str; 9] =
    ["id", "tool", "call", "type", "is", "decision", "status", "policies", "proposed_id"];

/// What is shorter stands everywhere.
const WORD_BYTES_MIN: usize = 12;
const WORDS_MAX: usize = 8_192;
const DEPTH_MAX: usize = limits::JSON_DEPTH_MAX + 8;

impl Words {
    fn of(payloads: &[Payload]) -> Result<Self, RedactError> {
        let mut words = BTreeSet::new();
        for Payload { header, body, .. } in payloads {
            let payload: Value = serde_json::from_slice(body).unwrap_or_default();
            let mut own = BTreeSet::new();
            for (_, value) in payload
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| SPEAKING.contains(&name.as_str()))
            {
                collect(value, DEPTH_MAX, &mut own);
            }
            // A payload that was cut is known by its head alone.
            if let Some(head) = payload.get("head").filter(|_| payload.get("cut").is_some()) {
                collect(head, DEPTH_MAX, &mut own);
            }
            own.retain(|word| header.fields.values().all(|field| field.as_str() != Some(word)));
            words.extend(own);
        }
        // A text may stand in a JSON text, and that in another: of a tool in the arguments, of those in the model's
        // own bytes.
        let mut needles = BTreeSet::new();
        for word in words.into_iter().take(WORDS_MAX) {
            let once = escaped(&word);
            let twice = escaped(&once);
            needles.extend([escaped(&twice), twice, once, word]);
        }
        let needles = AhoCorasick::new(needles).map_err(|e| RedactError::Failed(e.to_string()))?;
        Ok(Self { needles })
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        self.needles.is_match(bytes)
    }
}

/// The strings of `value`, each also by its lines and by what white space and quotes cut it into.
fn collect(value: &Value, depth: usize, words: &mut BTreeSet<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::String(string) => {
            // Arguments as the model wrote them: their own strings count.
            if string.starts_with(['{', '['])
                && let Ok(inner) = serde_json::from_str::<Value>(string)
            {
                return collect(&inner, depth, words);
            }
            let cut = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;=".contains(c);
            let parts = string.lines().map(str::trim).chain(string.split(cut));
            words.extend(parts.filter(|part| part.len() >= WORD_BYTES_MIN).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth, words)),
        Value::Object(members) => {
            let speaking = members.iter().filter(|(name, _)| !NAMING.contains(&name.as_str()));
            speaking.for_each(|(_, value)| collect(value, depth, words));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// As it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}
