//! Every decision of a ledger made again from its own record.
//!
//! Under the bundle that its header names it must come out as it is recorded; under another bundle it may
//! not, and those that do not are the flips. Nothing is written, and nothing but the ledger and the kept
//! bundles is read. The chain is not verified here: that is `ledger::audit`.

mod power;

use super::beneath;
use super::bundles::kept_bundle;
use crate::ledger::payload::CallDecisionPayload;
use crate::ledger::{Header, Kind, ReadError, Reader, Stored};
use crate::policy::{Again, Bundle, Recorded, Ruling};
use crate::types::json::parse_strict;
use crate::types::{Digest, limits, text};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Differences that are told one by one; all are counted.
const DIFFERENCES_MAX: usize = 100;
/// Examples of one group of flips.
pub const EXAMPLES_MAX: usize = 5;

/// What to make again, and from what.
#[derive(Debug)]
pub struct Replay<'a> {
    /// The folder with the kept bundles in it.
    pub data: &'a Path,
    /// Rules to put the same requests to.
    pub against: Option<&'a Bundle>,
    /// Decisions before this are left out: wall time in microseconds.
    pub since_us: u64,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// Entries looked at.
    pub entries: u64,
    /// Decisions among them, of the time that was asked for.
    pub decisions: u64,
    /// Made again, with the recorded answer.
    pub as_recorded: u64,
    /// Uses of powers of the API that entries say they were written by.
    pub powers: u64,
    /// Not asked: proposed calls that were none.
    pub invalid: u64,
    /// Not asked: denied before there was a request.
    pub without_request: u64,
    /// Not asked: the payload was erased, or is cut.
    pub without_payload: u64,
    /// Not made again under their own bundle, which is not kept: digest → decisions.
    pub not_kept: BTreeMap<String, u64>,
    /// Bundles under which decisions were made again: digest → decisions.
    pub bundles: BTreeMap<String, u64>,
    /// Versions of Cedar, other than this program's, that bundles were made by.
    pub other_engines: BTreeMap<String, u64>,
    /// Where the record and the rules differ: how many.
    pub different: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// Decisions put to the other rules.
    pub compared: u64,
    /// Those that come out otherwise, by what decides them there.
    pub flips: Vec<Flips>,
    /// What policies in shadow mode would change besides: those of the other rules, or without such those
    /// of each decision's own bundle.
    pub shadow_flips: Vec<Flips>,
}

/// A decision whose record does not follow from the rules that it names.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// The entry.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

/// Decisions that come out otherwise for one reason.
#[derive(Debug, Serialize)]
pub struct Flips {
    /// The word on the ledger.
    pub from: String,
    /// The word under the other rules.
    pub to: String,
    /// What determines the new answer, in words where no policy does.
    pub by: String,
    /// How many.
    pub count: u64,
    /// Some of them, the oldest.
    pub examples: Vec<Example>,
}

/// One of many.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// The decision's entry.
    pub seq: u64,
    /// Who asked.
    pub principal: String,
    /// The tool.
    pub tool: String,
    /// The object, as the policies saw it.
    pub resource: String,
}

impl Replayed {
    /// Whether nothing was found that differs from its record.
    #[must_use]
    pub fn is_as_recorded(&self) -> bool {
        self.different == 0
    }
}

/// From, to and by → how many, and the oldest of them.
type Groups = BTreeMap<[String; 3], (u64, Vec<Example>)>;

/// What one thread found in its share.
#[derive(Default)]
struct WalkShare {
    told: Replayed,
    flips: Groups,
    shadow_flips: Groups,
    /// Digests of decisions before the share's first `policy.load`: the first entry, and how many.
    before: BTreeMap<String, (u64, u64)>,
    /// The bundle that was loaded last.
    in_force: Option<String>,
}

/// Bundles that were asked for, each made once.
struct KeptBundles<'a> {
    data: &'a Path,
    made: Mutex<BTreeMap<Digest, Kept>>,
}

type Kept = Arc<Result<Option<Bundle>, String>>;

impl KeptBundles<'_> {
    fn find(&self, digest: Digest) -> Kept {
        // A panic elsewhere leaves the map whole: each change is one insertion.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(digest).or_insert_with(|| Arc::new(kept_bundle(self.data, digest))).clone()
    }
}

impl Replay<'_> {
    /// Walks the ledger, each of `readers` its share of it in a thread of its own. `progress` is told now and
    /// then how many entries of how many were looked at. Blocking.
    pub fn run(
        &self,
        readers: &[Reader],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Replayed, ReadError> {
        let size = readers.first().map_or(Ok(0), Reader::size)?;
        let shelf = KeptBundles { data: self.data, made: Mutex::default() };
        let done = AtomicU64::new(0);
        let step = |entries: u64| {
            let before = done.fetch_add(entries, Ordering::Relaxed);
            progress(before.saturating_add(entries), size);
        };
        let part = size.div_ceil(readers.len().max(1) as u64).max(1);
        let shares = std::thread::scope(|scope| {
            let (shelf, step) = (&shelf, &step);
            let starts = (0_u64..).map(|at| at.saturating_mul(part).min(size));
            let threads: Vec<_> = readers
                .iter()
                .zip(starts)
                .map(|(reader, from)| {
                    let range = from..from.saturating_add(part).min(size);
                    scope.spawn(move || self.walk(reader, range, shelf, step))
                })
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(share) => share,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Result<Vec<WalkShare>, ReadError>>()
        })?;
        let mut whole = WalkShare::default();
        shares.into_iter().for_each(|share| whole.add(share));
        whole.told.entries = size;
        Ok(whole.finish())
    }

    fn walk(
        &self,
        reader: &Reader,
        range: Range<u64>,
        shelf: &KeptBundles<'_>,
        step: &dyn Fn(u64),
    ) -> Result<WalkShare, ReadError> {
        const STEP: u64 = 256;
        let mut share = WalkShare::default();
        let mut seen = 0;
        let wants = |header: &Header| {
            seen += 1;
            if seen % STEP == 0 {
                step(STEP);
            }
            let is_asked = header.u64("wall_us").is_none_or(|at| at >= self.since_us);
            let is_made = header.is(Kind::CallDecision) || power::power_of(header).is_some();
            header.is(Kind::PolicyLoad) || (is_made && is_asked)
        };
        reader.walk(range, wants, |stored| {
            if stored.header.is(Kind::CallDecision) {
                return self.decision(&stored, shelf, &mut share);
            }
            self.power(&stored, shelf, &mut share);
            if stored.header.is(Kind::PolicyLoad) {
                share.in_force = Some(stored.header.str("policy").unwrap_or_default().to_owned());
            }
        })?;
        Ok(share)
    }

    /// Makes one decision again.
    fn decision(&self, stored: &Stored, shelf: &KeptBundles<'_>, share: &mut WalkShare) {
        let header = &stored.header;
        let policy = header.str("policy").unwrap_or_default();
        share.told.decisions += 1;
        share.under(policy, header.seq);
        let word = header.str("decision").unwrap_or_default();
        let payload = stored.body.as_deref().map(|body| parse_strict(body, limits::JSON_DEPTH_MAX + 8));
        let payload = match payload {
            None => return share.told.without_payload += 1,
            Some(Err(e)) => return share.differs(header.seq, format!("the payload is no JSON: {e}")),
            Some(Ok(payload)) if payload.get("cut").is_some() => return share.told.without_payload += 1,
            Some(Ok(payload)) => payload,
        };
        let payload = match serde_json::from_value::<CallDecisionPayload>(payload) {
            Ok(payload) => payload,
            Err(e) => return share.differs(header.seq, format!("the payload cannot be read: {e}")),
        };
        let request = payload.request.as_ref().and_then(Value::as_object);
        if word == "invalid" {
            // What is no valid call was never a question to the policies.
            if request.is_some_and(|request| !request.is_empty()) || header.fields.contains_key("policies") {
                return share.differs(
                    header.seq,
                    "recorded `invalid` of a call that policies were asked about".to_owned(),
                );
            }
            share.told.invalid += 1;
            return;
        }
        if request.is_none_or(serde_json::Map::is_empty) {
            if word != "deny" || header.fields.contains_key("policies") {
                let what = format!("recorded `{word}` of a call that no policy was asked about");
                return share.differs(header.seq, what);
            }
            share.told.without_request += 1;
            return;
        }
        let recorded = payload.request.as_ref().map_or_else(|| Err(String::new()), Recorded::read);
        match recorded {
            Err(e) => share.differs(header.seq, format!("the recorded request cannot be read: {e}")),
            Ok(recorded) => {
                self.check(header, &payload, &recorded, shelf, share);
                if let Some(against) = self.against {
                    share.told.compared += 1;
                    share.compare(header, &recorded, &against.decide_other(&recorded));
                }
            }
        }
    }

    /// Under its own bundle the request must lead to what is recorded.
    fn check(
        &self,
        header: &Header,
        payload: &CallDecisionPayload,
        recorded: &Recorded,
        shelf: &KeptBundles<'_>,
        share: &mut WalkShare,
    ) {
        let seq = header.seq;
        let Some(digest) = header.str("policy").and_then(Digest::from_hex) else {
            return share.differs(seq, "the decision names no policy bundle".to_owned());
        };
        if let Some(what) = is_of_another(header, recorded) {
            return share.differs(seq, what);
        }
        let bundle = shelf.find(digest);
        match &*bundle {
            Err(what) => share.differs(seq, format!("the kept bundle is not what decided: {what}")),
            Ok(None) => *share.told.not_kept.entry(digest.hex()).or_default() += 1,
            Ok(Some(bundle)) => {
                if let Some(engine) = bundle.other_engine() {
                    *share.told.other_engines.entry(engine.to_owned()).or_default() += 1;
                }
                *share.told.bundles.entry(digest.hex()).or_default() += 1;
                let again = bundle.decide_again(recorded);
                if self.against.is_none() {
                    share.beside(header, recorded, &again);
                }
                let is_allowed = matches!(again.answer, Ruling::Allow { .. });
                let may_run = !matches!(again.answer, Ruling::Deny { .. });
                let below = || beneath::difference(payload, recorded, bundle, is_allowed).filter(|_| may_run);
                match difference(header, payload, &again).or_else(below) {
                    None => share.told.as_recorded += 1,
                    Some(what) => share.differs(seq, format!("{what}, under the bundle {}", digest.short())),
                }
            }
        }
    }
}

/// A request that is another call's than the header's.
fn is_of_another(header: &Header, recorded: &Recorded) -> Option<String> {
    let pairs = [("tool", recorded.tool()), ("session", recorded.session())];
    let odd = pairs.into_iter().find(|(name, is)| header.str(name).unwrap_or_default() != *is);
    if let Some((name, is)) = odd {
        return Some(format!("the request is of the {name} `{is}`, and the header of another"));
    }
    let by = header.str("principal").unwrap_or_default();
    (!recorded.is_by(by))
        .then(|| format!("the header says `{}`, and the request is another's", text::visible_line(by)))
}

/// What differs between a record and the answer that its request leads to.
fn difference(header: &Header, payload: &CallDecisionPayload, again: &Again) -> Option<String> {
    let word = header.str("decision").unwrap_or_default();
    let policies = header.policies();
    let answer = &again.answer;
    let say = |word: &str, policies: &[String]| match policies {
        [] => format!("`{word}`"),
        some => format!("`{word}` by {}", some.join(", ")),
    };
    if word != answer.word() || policies != answer.policies() {
        let (then, now) = (say(word, &policies), say(answer.word(), answer.policies()));
        return Some(format!("recorded {then}; the rules say {now}"));
    }
    let has_errors = payload.errors.as_ref().is_some_and(|errors| !errors.is_empty());
    if has_errors == answer.errors().is_empty() {
        let (then, now) = if has_errors { ("an error", "none") } else { ("no error", "one") };
        return Some(format!("recorded {then}; the rules lead to {now}"));
    }
    // Errors are told in words, which may change: that there are any is what counts.
    let then = payload.shadow.as_ref().map(|shadow| (shadow.decision, &shadow.policies));
    let now = again.shadow.as_ref().map(|shadow| (shadow.decision, &shadow.policies));
    (then != now).then(|| "what is recorded of policies in shadow mode is not what they say".to_owned())
}

impl WalkShare {
    fn differs(&mut self, seq: u64, what: String) {
        self.told.different += 1;
        if self.told.differences.len() < DIFFERENCES_MAX {
            self.told.differences.push(Difference { seq, what });
        }
    }

    /// A decision under `policy` must come behind the `policy.load` of that bundle, with none between.
    fn under(&mut self, policy: &str, seq: u64) {
        match &self.in_force {
            Some(in_force) if in_force == policy => {}
            Some(in_force) => {
                let loaded = in_force.get(..8).unwrap_or_default();
                self.differs(seq, format!("decided under another bundle than {loaded}, which was in force"));
            }
            None => self.before.entry(policy.to_owned()).or_insert((seq, 0)).1 += 1,
        }
    }

    fn compare(&mut self, header: &Header, recorded: &Recorded, again: &Again) {
        let was = header.str("decision").unwrap_or_default();
        let (now, policies) = (again.answer.word(), again.answer.policies());
        if now != was {
            let by = match policies {
                _ if !again.fits => "a request that does not fit the new tools and schema".to_owned(),
                [] if !again.answer.errors().is_empty() => "an error in the evaluation".to_owned(),
                [] => format!("no policy that permits it, as {} did", header.policies().join(", ")),
                some => some.join(", "),
            };
            note(&mut self.flips, [was, now, &by], || example(header, recorded));
        }
        self.beside(header, recorded, again);
    }

    /// What policies in shadow mode would change.
    fn beside(&mut self, header: &Header, recorded: &Recorded, again: &Again) {
        let Some(shadow) = &again.shadow else { return };
        let by = match shadow.policies.as_slice() {
            _ if !shadow.errors.is_empty() => "an error in the evaluation".to_owned(),
            some => some.join(", "),
        };
        let group = [again.answer.word(), shadow.decision.as_str(), &by];
        note(&mut self.shadow_flips, group, || example(header, recorded));
    }

    /// Takes in the share that comes behind this one.
    fn add(&mut self, next: Self) {
        for (policy, (seq, count)) in &next.before {
            if self.in_force.is_none() {
                let first = self.before.entry(policy.clone()).or_insert((*seq, 0));
                first.1 += count;
            } else if self.in_force.as_ref() != Some(policy) {
                self.differs(*seq, "decided under another bundle than the one in force".to_owned());
                self.told.different += count - 1;
            }
        }
        if next.in_force.is_some() {
            self.in_force = next.in_force;
        }
        let (told, more) = (&mut self.told, next.told);
        told.decisions += more.decisions;
        told.as_recorded += more.as_recorded;
        told.powers += more.powers;
        told.invalid += more.invalid;
        told.without_request += more.without_request;
        told.without_payload += more.without_payload;
        told.compared += more.compared;
        told.different += more.different;
        told.differences.extend(more.differences);
        told.differences.truncate(DIFFERENCES_MAX);
        for (into, from) in [
            (&mut told.not_kept, more.not_kept),
            (&mut told.bundles, more.bundles),
            (&mut told.other_engines, more.other_engines),
        ] {
            from.into_iter().for_each(|(name, count)| *into.entry(name).or_default() += count);
        }
        for (into, from) in [(&mut self.flips, next.flips), (&mut self.shadow_flips, next.shadow_flips)] {
            for (group, (count, examples)) in from {
                let (sum, some) = into.entry(group).or_default();
                *sum += count;
                some.extend(examples);
                some.truncate(EXAMPLES_MAX);
            }
        }
    }

    fn finish(mut self) -> Replayed {
        for (seq, count) in std::mem::take(&mut self.before).into_values() {
            self.differs(seq, "decided before any rules were loaded".to_owned());
            self.told.different += count - 1;
        }
        self.told.differences.sort_by_key(|one| one.seq);
        let listed = |groups: Groups| {
            let mut flips: Vec<Flips> = groups
                .into_iter()
                .map(|([from, to, by], (count, examples))| Flips { from, to, by, count, examples })
                .collect();
            flips.sort_by_key(|flips| std::cmp::Reverse(flips.count));
            flips
        };
        self.told.flips = listed(self.flips);
        self.told.shadow_flips = listed(self.shadow_flips);
        self.told
    }
}

fn note(groups: &mut Groups, group: [&str; 3], example: impl FnOnce() -> Example) {
    let (count, examples) = groups.entry(group.map(str::to_owned)).or_default();
    *count += 1;
    if examples.len() < EXAMPLES_MAX {
        examples.push(example());
    }
}

fn example(header: &Header, recorded: &Recorded) -> Example {
    let (kind, id) = recorded.resource();
    Example {
        seq: header.seq,
        principal: header.str("principal").unwrap_or_default().to_owned(),
        tool: recorded.tool().to_owned(),
        resource: if kind == "Path" { id.to_owned() } else { format!("{kind} {id}") },
    }
}
