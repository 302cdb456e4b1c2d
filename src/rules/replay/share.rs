//! What one thread finds in its share of the ledger, and how shares add up.

use super::told::{Difference, Example, Flips, Replayed};
use crate::ledger::Header;
use crate::policy::{RecordedRequest, RepeatedDecision};
use std::collections::BTreeMap;

/// Differences that are listed; all are counted.
const DIFFERENCES_MAX: usize = 100;
/// Examples of one group of flips.
const EXAMPLES_MAX: usize = 5;

/// From, to and by → how many, and the oldest examples.
pub(super) type Groups = BTreeMap<[String; 3], (u64, Vec<Example>)>;

/// What one thread found in its share.
#[derive(Default)]
pub(super) struct WalkShare {
    pub(super) report: Replayed,
    flips: Groups,
    shadow_flips: Groups,
    /// Digests of decisions before the share's first `policy.load`: the first entry, and how many.
    before: BTreeMap<String, (u64, u64)>,
    /// The bundle that was loaded last.
    pub(super) in_force: Option<String>,
}

impl WalkShare {
    pub(super) fn differs(&mut self, seq: u64, what: String) {
        self.report.different += 1;
        if self.report.differences.len() < DIFFERENCES_MAX {
            self.report.differences.push(Difference { seq, what });
        }
    }

    /// A decision under `policy` must follow the `policy.load` of that bundle, without another one
    /// in between.
    pub(super) fn under(&mut self, policy: &str, seq: u64) {
        match &self.in_force {
            Some(in_force) if in_force == policy => {}
            Some(in_force) => {
                let loaded = in_force.get(..8).unwrap_or_default();
                self.differs(seq, format!("decided under another bundle than {loaded}, which was in force"));
            }
            None => self.before.entry(policy.to_owned()).or_insert((seq, 0)).1 += 1,
        }
    }

    pub(super) fn compare(&mut self, header: &Header, recorded: &RecordedRequest, again: &RepeatedDecision) {
        let was = header.str("decision").unwrap_or_default();
        let (now, policies) = (again.answer.word(), again.answer.policies());
        if header.decision() != Some(again.answer.decision()) {
            let by = match policies {
                _ if !again.fits => "a request that does not match the new tools and schema".to_owned(),
                [] if !again.answer.errors().is_empty() => "an error in the evaluation".to_owned(),
                [] => format!("no policy that permits it, as {} did", header.policies().join(", ")),
                some => some.join(", "),
            };
            note(&mut self.flips, [was, now, &by], || example(header, recorded));
        }
        self.count_shadow(header, recorded, again);
    }

    /// Counts what policies in shadow mode would change.
    pub(super) fn count_shadow(
        &mut self,
        header: &Header,
        recorded: &RecordedRequest,
        again: &RepeatedDecision,
    ) {
        let Some(shadow) = &again.shadow else { return };
        let by = match shadow.policies.as_slice() {
            _ if !shadow.errors.is_empty() => "an error in the evaluation".to_owned(),
            some => some.join(", "),
        };
        let group = [again.answer.word(), shadow.decision.as_str(), &by];
        note(&mut self.shadow_flips, group, || example(header, recorded));
    }

    /// Adds the share that follows this one.
    pub(super) fn add(&mut self, next: Self) {
        for (policy, (seq, count)) in &next.before {
            if self.in_force.is_none() {
                let first = self.before.entry(policy.clone()).or_insert((*seq, 0));
                first.1 += count;
            } else if self.in_force.as_ref() != Some(policy) {
                self.differs(*seq, "decided under another bundle than the one in force".to_owned());
                self.report.different += count - 1;
            }
        }
        if next.in_force.is_some() {
            self.in_force = next.in_force;
        }
        let (report, more) = (&mut self.report, next.report);
        report.decisions += more.decisions;
        report.as_recorded += more.as_recorded;
        report.powers += more.powers;
        report.invalid += more.invalid;
        report.without_request += more.without_request;
        report.without_payload += more.without_payload;
        report.compared += more.compared;
        report.filled += more.filled;
        report.different += more.different;
        report.differences.extend(more.differences);
        report.differences.truncate(DIFFERENCES_MAX);
        for (into, from) in [
            (&mut report.not_kept, more.not_kept),
            (&mut report.bundles, more.bundles),
            (&mut report.other_engines, more.other_engines),
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

    pub(super) fn finish(mut self) -> Replayed {
        for (seq, count) in std::mem::take(&mut self.before).into_values() {
            self.differs(seq, "decided before any rules were loaded".to_owned());
            self.report.different += count - 1;
        }
        self.report.differences.sort_by_key(|one| one.seq);
        let listed = |groups: Groups| {
            let mut flips: Vec<Flips> = groups
                .into_iter()
                .map(|([from, to, by], (count, examples))| Flips { from, to, by, count, examples })
                .collect();
            flips.sort_by_key(|flips| std::cmp::Reverse(flips.count));
            flips
        };
        self.report.flips = listed(self.flips);
        self.report.shadow_flips = listed(self.shadow_flips);
        self.report
    }
}

fn note(groups: &mut Groups, group: [&str; 3], example: impl FnOnce() -> Example) {
    let (count, examples) = groups.entry(group.map(str::to_owned)).or_default();
    *count += 1;
    if examples.len() < EXAMPLES_MAX {
        examples.push(example());
    }
}

fn example(header: &Header, recorded: &RecordedRequest) -> Example {
    let (kind, id) = recorded.resource();
    Example {
        seq: header.seq,
        principal: header.str("principal").unwrap_or_default().to_owned(),
        tool: recorded.tool().to_owned(),
        resource: if kind == "Path" { id.to_owned() } else { format!("{kind} {id}") },
    }
}
