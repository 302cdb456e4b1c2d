//! What each principal's runs put on the ledger within the last hour: started runs, and bytes.
//!
//! Counts are kept by minute, only from the headers of committed entries. So after a start the
//! ledger yields the same numbers that the previous process had.

use crate::ledger::entry::{Header, Kind};
use std::collections::{BTreeMap, VecDeque};

/// How far back entries count, in minutes, including the current one.
const MINUTES: u64 = 60;
const MINUTE_US: u64 = 60_000_000;
/// What an entry takes in addition to its payload, in bytes: its header, its leaf, and its rows in
/// the indices.
const ENTRY_BYTES: u64 = 1_024;
/// The entries that count for a run's principal. Answers to approvals are by other people.
const OF_RUNS: [Kind; 10] = [
    Kind::RunRequest,
    Kind::ModelAsk,
    Kind::ModelReply,
    Kind::ModelError,
    Kind::ContextTrim,
    Kind::CallDecision,
    Kind::CallConnect,
    Kind::CallResult,
    Kind::ApprovalRequest,
    Kind::RunReply,
];

/// Runs and bytes of one principal within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    /// Runs that were started.
    pub runs: u64,
    /// Bytes of the payloads of its runs' entries, plus 1,024 bytes for each entry.
    pub bytes: u64,
}

/// The counts of every principal that had runs within the hour.
#[derive(Debug, Default)]
pub struct Spent(BTreeMap<String, VecDeque<Minute>>);

/// The counts of one minute since 1970. Minutes are sorted and unique.
#[derive(Clone, Copy, Debug)]
struct Minute {
    at: u64,
    of: Hour,
}

impl Hour {
    fn add(&mut self, other: Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Spent {
    /// Counts one committed entry. Old entries may come in any order.
    pub fn count(&mut self, header: &Header) {
        let is_of_run = OF_RUNS.into_iter().any(|kind| header.is(kind));
        let (Some(principal), Some(at_us), true) =
            (header.str("principal"), header.u64("wall_us"), is_of_run)
        else {
            return;
        };
        let of = Hour {
            runs: u64::from(header.is(Kind::RunRequest)),
            bytes: header.payload_len.saturating_add(ENTRY_BYTES),
        };
        let minutes = match self.0.get_mut(principal) {
            Some(minutes) => minutes,
            None => self.0.entry(principal.to_owned()).or_default(),
        };
        let at = at_us / MINUTE_US;
        match minutes.iter_mut().rev().find(|minute| minute.at <= at) {
            Some(minute) if minute.at == at => minute.of.add(of),
            _ => {
                let place = minutes.partition_point(|minute| minute.at < at);
                minutes.insert(place, Minute { at, of });
            }
        }
        // With more minutes than an hour has, the oldest are over.
        while minutes.len() as u64 > MINUTES
            && minutes.front().is_some_and(|oldest| oldest.at + MINUTES <= at)
        {
            minutes.pop_front();
        }
    }

    /// What `principal` used in the hour up to `now_us`.
    #[must_use]
    pub fn hour(&self, principal: &str, now_us: u64) -> Hour {
        let mut hour = Hour::default();
        self.recent(principal, now_us).for_each(|minute| hour.add(minute.of));
        hour
    }

    /// Seconds until `principal` is below `bound` in runs and bytes, at least 1; `None` if it
    /// already is.
    #[must_use]
    pub fn wait_s(&self, principal: &str, bound: Hour, now_us: u64) -> Option<u64> {
        let mut left = self.hour(principal, now_us);
        let is_below = |left: Hour| left.runs < bound.runs && left.bytes < bound.bytes;
        if is_below(left) {
            return None;
        }
        let mut free_us = now_us;
        for minute in self.recent(principal, now_us) {
            left.runs = left.runs.saturating_sub(minute.of.runs);
            left.bytes = left.bytes.saturating_sub(minute.of.bytes);
            free_us = (minute.at + MINUTES) * MINUTE_US;
            if is_below(left) {
                break;
            }
        }
        Some(free_us.saturating_sub(now_us).div_ceil(1_000_000).max(1))
    }

    fn recent(&self, principal: &str, now_us: u64) -> impl Iterator<Item = Minute> {
        let minutes = self.0.get(principal).into_iter().flatten();
        minutes.copied().filter(move |minute| is_recent(minute.at, now_us))
    }
}

/// A minute counts for an hour. If the clock is set back, minutes in the future count too.
fn is_recent(at: u64, now_us: u64) -> bool {
    at + MINUTES > now_us / MINUTE_US
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_BYTES, Hour, MINUTE_US, Spent};
    use crate::ledger::Header;

    fn entry(kind: &str, principal: &str, bytes: u64, minute: u64) -> Header {
        let digest = "0".repeat(64);
        let text = format!(
            r#"{{"t":"par/entry/1","log":"0","seq":1,"payload":"{digest}","payload_len":{bytes},"boot":"b",
                "wall_us":{},"mono_us":1,"kind":"{kind}","principal":"{principal}"}}"#,
            minute * MINUTE_US + 5
        );
        Header::parse(text.as_bytes()).expect("header")
    }

    #[test]
    fn an_hour_of_one_principal_is_counted_by_minutes() {
        let mut spent = Spent::default();
        for (kind, who, bytes, minute) in [
            ("run.request", "key:a", 10, 100),
            ("run.reply", "key:a", 20, 100),
            ("run.request", "key:b", 1, 101),
            ("run.request", "key:a", 30, 130),
            ("approval.grant", "key:c", 5, 130),
            ("key.create", "key:a", 5, 130),
        ] {
            spent.count(&entry(kind, who, bytes, minute));
        }
        let hour = |spent: &Spent, who: &str, minute: u64| {
            let hour = spent.hour(who, minute * MINUTE_US + 7);
            (hour.runs, hour.bytes)
        };
        assert_eq!(hour(&spent, "key:a", 159), (2, 60 + 3 * ENTRY_BYTES));
        assert_eq!(hour(&spent, "key:a", 160), (1, 30 + ENTRY_BYTES), "the first minute is over");
        assert_eq!(hour(&spent, "key:b", 130), (1, 1 + ENTRY_BYTES));
        assert_eq!(hour(&spent, "key:c", 130), (0, 0), "an answer does not count as a run");
    }

    #[test]
    fn the_wait_ends_with_the_minute_that_frees_enough() {
        let mut spent = Spent::default();
        for minute in [100, 110, 120] {
            spent.count(&entry("run.request", "key:a", 1_000, minute));
        }
        let wait = |runs: u64, bytes: u64| spent.wait_s("key:a", Hour { runs, bytes }, 125 * MINUTE_US);
        assert_eq!(wait(4, u64::MAX), None);
        assert_eq!(wait(3, u64::MAX), Some(35 * 60));
        assert_eq!(wait(2, u64::MAX), Some(45 * 60));
        assert_eq!(wait(u64::MAX, 2 * (1_000 + ENTRY_BYTES)), Some(45 * 60));
        assert_eq!(wait(0, 0), Some(55 * 60), "never below: waits until all minutes are over");
        assert_eq!(spent.wait_s("key:b", Hour { runs: 1, bytes: 1 }, 125 * MINUTE_US), None);
    }

    /// Reading backwards, as a start does, gives the same counts.
    #[test]
    fn the_order_of_counting_changes_nothing() {
        let entries: Vec<Header> =
            [3, 1, 2, 2, 1].iter().map(|minute| entry("run.request", "key:a", 7, 100 + minute)).collect();
        let (mut on, mut back) = (Spent::default(), Spent::default());
        entries.iter().for_each(|header| on.count(header));
        entries.iter().rev().for_each(|header| back.count(header));
        for minute in 100..170 {
            assert_eq!(on.hour("key:a", minute * MINUTE_US), back.hour("key:a", minute * MINUTE_US));
        }
    }
}
