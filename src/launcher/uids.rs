//! A separate uid for each call that writes nothing, if the launcher may change uids and a range is
//! configured.
//!
//! Two concurrent calls never share a uid: to each of them, the other's files and signals are
//! another user's, whatever the rest of the sandbox does, and a limit by uid applies to one call
//! alone. The group stays that of the tools' user. A tool that writes keeps that user: otherwise
//! what it made would belong to a foreign user in the next call.

use crate::launcher::spec::CALLS_MAX;
use std::collections::{BTreeMap, VecDeque};

/// The uids of a range: free ones, and those of calls.
#[derive(Debug)]
pub(crate) struct Slots {
    /// How reports name the range as a layer; a call's record has its own uid.
    pub(crate) layer: String,
    free: VecDeque<u32>,
    used: BTreeMap<u64, u32>,
}

impl Slots {
    /// Takes the uids from `first` to `last`. An error is an unusable range: one with an id that
    /// belongs to a user or group of this host, or that this process cannot take, or one smaller
    /// than the number of concurrent calls.
    pub(crate) fn new((first, last): (u32, u32)) -> Result<Self, String> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("`{path}`: {e}"));
        let lists = ["/etc/passwd", "/etc/group"].map(read);
        let maps = ["/proc/self/uid_map", "/proc/self/gid_map"].map(read);
        let refuse = |reason: String| format!("`sandbox.slot_uids`: {reason}");
        for list in lists {
            check_list((first, last), &list.map_err(refuse)?).map_err(refuse)?;
        }
        for map in maps {
            let map = map.map_err(refuse)?;
            if !is_mapped((first, last), &map) {
                return Err(refuse("not all of them are mapped in this user namespace".to_owned()));
            }
        }
        let free: VecDeque<u32> = (first..=last).collect();
        if free.len() < CALLS_MAX {
            return Err(refuse(format!(
                "{} uids are too few, expected at least {CALLS_MAX}, one for each concurrent call",
                free.len()
            )));
        }
        Ok(Self { layer: format!("uid {first}-{last}"), free, used: BTreeMap::new() })
    }

    /// The uid of the call `id`: the one that was free longest, so that leftovers of its last call
    /// had time to go.
    pub(crate) fn take(&mut self, id: u64) -> Result<u32, String> {
        let uid = self.free.pop_front().ok_or("no uid is free")?;
        self.used.insert(id, uid);
        Ok(uid)
    }

    /// The call is over, and its last process is reaped.
    pub(crate) fn give_back(&mut self, id: u64) {
        self.free.extend(self.used.remove(&id));
    }
}

/// Fails if an entry of a list (passwd(5), group(5)) has one of these ids.
fn check_list((first, last): (u32, u32), list: &str) -> Result<(), String> {
    for line in list.lines() {
        let mut words = line.split(':');
        let (name, id) = (words.next().unwrap_or_default(), words.nth(1).and_then(|id| id.parse().ok()));
        if id.is_some_and(|id: u32| (first..=last).contains(&id)) {
            return Err(format!("{} belongs to `{name}`", id.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Whether one line of a map (user_namespaces(7)) covers all of them.
fn is_mapped((first, last): (u32, u32), map: &str) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (from, _outside, count) = (words.next(), words.next(), words.next());
        let (from, count) = (from.unwrap_or(0), count.unwrap_or(0));
        from <= u64::from(first) && u64::from(last) < from.saturating_add(count)
    })
}

#[cfg(test)]
mod tests {
    use super::{Slots, check_list, is_mapped};
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn a_range_with_an_assigned_uid_is_refused() {
        let list = "root:x:0:0:root:/root:/bin/sh\nlate:x:60010:60010::/:/bin/false\nbroken\n";
        assert_eq!(check_list((60_011, 60_100), list), Ok(()));
        assert_eq!(check_list((60_000, 60_100), list), Err("60010 belongs to `late`".to_owned()));
    }

    #[test]
    fn all_of_the_range_is_mapped() {
        assert!(is_mapped((60_000, 60_063), "         0          0 4294967295\n"));
        assert!(is_mapped((60_000, 60_063), "0 100 1\n60000 7 64\n"));
        assert!(!is_mapped((60_000, 60_064), "0 100 1\n60000 7 64\n"));
    }

    #[test]
    fn no_two_calls_have_one_uid() {
        let mut slots = Slots { layer: String::new(), free: VecDeque::from([7, 8]), used: BTreeMap::new() };
        assert_eq!((slots.take(1), slots.take(2)), (Ok(7), Ok(8)));
        assert_eq!(slots.take(3), Err("no uid is free".to_owned()));
        slots.give_back(2);
        slots.give_back(2);
        assert_eq!((slots.take(3), slots.take(4)), (Ok(8), Err("no uid is free".to_owned())));
    }
}
