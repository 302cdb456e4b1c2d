//! Who logged in, from where and how often; and how often it failed. Sums only.
//!
//! People type passwords where a name is asked for, so a name of a failed login is shown only if a
//! user of this host has it.

use super::auth_log::ssh_login;
use super::folders::{SystemEntry, SystemFolder, SystemView};
use super::lines::FileLines;
use super::login_records::{RecordKind, each_record};
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::tools::builtin::line_time::Since;
use crate::types::clock::Wall;
use crate::types::text;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{Seek as _, SeekFrom};

/// Hours that are looked at if the call does not say.
const HOURS_DEFAULT: u64 = 168;
/// Lines of each list if the call sets no limit.
const LIMIT_DEFAULT: u64 = 20;
/// Different sources or users that are counted.
const KEYS_MAX: usize = 20_000;
/// The part of a log that is read, at its end, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// How often, and when first and last.
#[derive(Clone, Copy, Debug)]
struct LoginTimes {
    count: u64,
    first_s: i64,
    last_s: i64,
}

/// The sums of one kind of source: of the records, or of the log.
#[derive(Debug, Default)]
struct LoginSums {
    logins: BTreeMap<(String, String), LoginTimes>,
    failed_from: BTreeMap<String, LoginTimes>,
    failed_users: BTreeMap<String, LoginTimes>,
    logins_total: u64,
    failed_total: u64,
    failed_unknown: u64,
    /// Unknown without `wtmp`.
    starts: Option<u64>,
    /// The oldest record that was seen, whether or not it was counted.
    oldest_s: Option<i64>,
    is_cut: bool,
}

/// One login, whether or not it succeeded.
struct LoginSeen<'a> {
    has_failed: bool,
    user: &'a str,
    from: &'a str,
    at_s: i64,
    times: u64,
}

/// Sums up logins since some hours ago: from `wtmp` and `btmp`, and where these say nothing, from
/// the log of sshd.
pub(super) fn logins(view: &SystemView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let now = Wall::now();
    let now_s = i64::try_from(now.0 / 1_000_000).unwrap_or(i64::MAX);
    let hours = integer(arguments, "hours", HOURS_DEFAULT);
    let from_s = now_s.saturating_sub(i64::try_from(hours.saturating_mul(3_600)).unwrap_or(i64::MAX));
    let mut sums = LoginSums::default();
    for stem in ["wtmp", "btmp"] {
        records(view, stem, from_s, &mut sums);
    }
    let (has_logins, has_failed) = (sums.logins_total > 0, sums.failed_total > 0);
    let mut of_log = LoginSums::default();
    let mut has_log = false;
    if !has_logins || !has_failed {
        let mut asked = json!({ "since": format!("{}h", hours.min(u64::from(u32::MAX))) });
        if let (Some(offset), Some(members)) = (arguments.get("utc_offset"), asked.as_object_mut()) {
            members.insert("utc_offset".to_owned(), offset.clone());
        }
        let since = Since::read(&asked, now)?.ok_or("no time to begin at")?;
        has_log = log(view, &since, from_s, &mut of_log);
    }
    let source = |has: bool, name: &str| match (has, has_log) {
        (true, _) => Some(name.to_owned()),
        (false, true) => Some("auth_log".to_owned()),
        (false, false) => files(view, name).next().map(|_| name.to_owned()),
    };
    let read_from = json!({ "logins": source(has_logins, "wtmp"), "failed": source(has_failed, "btmp") });
    if !has_logins {
        sums.logins = of_log.logins;
        sums.logins_total = of_log.logins_total;
    }
    if !has_failed {
        sums.failed_from = of_log.failed_from;
        sums.failed_users = of_log.failed_users;
        sums.failed_total = of_log.failed_total;
        sums.failed_unknown = of_log.failed_unknown;
    }
    sums.oldest_s = [sums.oldest_s, of_log.oldest_s].into_iter().flatten().min();
    sums.is_cut |= of_log.is_cut;
    let limit = integer(arguments, "limit", LIMIT_DEFAULT);
    let mut answer = sums.answer(limit, output_bytes_max.saturating_sub(FRAME_BYTES));
    if let Some(members) = answer.as_object_mut() {
        members.insert("hours".to_owned(), json!(hours));
        // Without records nothing is known: that is not none.
        for (source, totals) in
            [("logins", &["logins_total"][..]), ("failed", &["failed_total", "failed_for_unknown_users"])]
        {
            for total in totals.iter().filter(|_| read_from.get(source).is_none_or(Value::is_null)) {
                members.insert((*total).to_owned(), Value::Null);
            }
        }
        members.insert("read_from".to_owned(), read_from);
    }
    Ok(answer)
}

/// The files of one name in the granted folders, the older first.
fn files<'a>(
    view: &'a SystemView<'_>,
    stem: &str,
) -> impl Iterator<Item = (&'a SystemFolder, &'a SystemEntry)> + use<'a> {
    let older = format!("{stem}.1");
    let names = [older, stem.to_owned()];
    names.into_iter().flat_map(move |name| {
        view.folders.iter().filter_map(move |folder| {
            Some((folder, folder.entries.iter().find(|entry| entry.is_file && entry.name == name)?))
        })
    })
}

fn records(view: &SystemView<'_>, stem: &str, from_s: i64, sums: &mut LoginSums) {
    let mut is_there = false;
    for (folder, entry) in files(view, stem).collect::<Vec<_>>() {
        let Some(file) = view.open(folder, entry) else { continue };
        is_there = true;
        sums.starts = sums.starts.or((stem == "wtmp").then_some(0));
        let users = &view.host.users;
        let is_cut = each_record(file, entry.size_bytes, |record| {
            let from = if record.from.is_empty() { "local" } else { &record.from };
            sums.note_time(record.at_s);
            match record.kind {
                RecordKind::Start if record.at_s >= from_s => {
                    sums.starts = sums.starts.map(|starts| starts.saturating_add(1));
                }
                RecordKind::Login if record.at_s >= from_s && !record.user.is_empty() => {
                    let has_failed = stem == "btmp";
                    let is_known = users.values().any(|name| *name == record.user);
                    let seen =
                        LoginSeen { has_failed, user: &record.user, from, at_s: record.at_s, times: 1 };
                    sums.add(&seen, is_known);
                }
                RecordKind::Start | RecordKind::Login | RecordKind::Other => {}
            }
        });
        sums.is_cut |= is_cut;
    }
    if !is_there {
        view.note(stem);
    }
}

/// Whether there is a log.
fn log(view: &SystemView<'_>, since: &Since, from_s: i64, sums: &mut LoginSums) -> bool {
    let all: Vec<_> = ["auth.log", "secure"].into_iter().flat_map(|stem| files(view, stem)).collect();
    let mut is_there = false;
    for (folder, entry) in all {
        let Some(mut file) = view.open(folder, entry) else { continue };
        is_there = true;
        let start = entry.size_bytes.saturating_sub(LOG_BYTES_MAX);
        sums.is_cut |= start > 0 || file.seek(SeekFrom::Start(start)).is_err();
        let mut lines = FileLines::new(file, view, LOG_BYTES_MAX);
        while let Some(line) = lines.next_line() {
            let Some(at_s) = since.time(line) else { continue };
            sums.note_time(at_s);
            let Some(login) = ssh_login(line).filter(|_| at_s >= from_s) else { continue };
            let is_known = view.host.users.values().any(|name| name == login.user);
            let (has_failed, user, times) = (login.has_failed, login.user, login.times);
            sums.add(&LoginSeen { has_failed, user, from: &login.from.to_string(), at_s, times }, is_known);
        }
        sums.is_cut |= lines.is_cut();
    }
    view.note(if is_there { "logins_without_ssh" } else { "auth_log" });
    is_there
}

impl LoginSums {
    fn note_time(&mut self, at_s: i64) {
        if self.oldest_s.is_none_or(|oldest| at_s < oldest) && at_s > 0 {
            self.oldest_s = Some(at_s);
        }
    }

    fn add(&mut self, seen: &LoginSeen<'_>, is_known: bool) {
        let from = text::visible_line(text::prefix(seen.from, 255));
        let user = text::visible_line(text::prefix(seen.user, 64));
        if !seen.has_failed {
            self.logins_total = self.logins_total.saturating_add(seen.times);
            self.is_cut |= !count(&mut self.logins, (user, from), seen);
            return;
        }
        self.failed_total = self.failed_total.saturating_add(seen.times);
        self.is_cut |= !count(&mut self.failed_from, from, seen);
        if is_known {
            self.is_cut |= !count(&mut self.failed_users, user, seen);
        } else {
            self.failed_unknown = self.failed_unknown.saturating_add(seen.times);
        }
    }

    /// Each list has at most `limit` entries and takes a third of `room`.
    fn answer(&self, limit: u64, room: usize) -> Value {
        let mut is_cut = self.is_cut;
        let mut list = |mut all: Vec<(Value, LoginTimes)>| {
            all.sort_by_key(|(_, times)| std::cmp::Reverse((times.count, times.last_s)));
            let total = all.len();
            let mut list = Fitting::new(limit, room / 3);
            all.into_iter().map(|(names, times)| times.members(names)).for_each(|one| {
                if !list.is_full() {
                    list.push(one);
                }
            });
            let (entries, _) = list.finish();
            is_cut |= entries.len() < total;
            entries
        };
        let logins = list(
            self.logins
                .iter()
                .map(|((user, from), at)| (json!({ "user": user, "from": from }), *at))
                .collect(),
        );
        let sources =
            list(self.failed_from.iter().map(|(from, at)| (json!({ "from": from }), *at)).collect());
        let users = list(self.failed_users.iter().map(|(user, at)| (json!({ "user": user }), *at)).collect());
        json!({
            "logins_total": self.logins_total,
            "failed_total": self.failed_total,
            "failed_for_unknown_users": self.failed_unknown,
            "host_starts": self.starts,
            "records_since": self.oldest_s.map(rfc3339),
            "logins": logins,
            "failed_by_source": sources,
            "failed_by_user": users,
            "truncated": is_cut,
        })
    }
}

/// Whether there was room for the key.
fn count<K: Ord>(all: &mut BTreeMap<K, LoginTimes>, key: K, seen: &LoginSeen<'_>) -> bool {
    let is_new = !all.contains_key(&key);
    if is_new && all.len() >= KEYS_MAX {
        return false;
    }
    let times = all.entry(key).or_insert(LoginTimes { count: 0, first_s: seen.at_s, last_s: seen.at_s });
    times.count = times.count.saturating_add(seen.times);
    times.first_s = times.first_s.min(seen.at_s);
    times.last_s = times.last_s.max(seen.at_s);
    true
}

impl LoginTimes {
    fn members(self, names: Value) -> Value {
        let mut one = match names {
            Value::Object(names) => names,
            _ => Map::new(),
        };
        one.insert("count".to_owned(), json!(self.count));
        one.insert("first_at".to_owned(), json!(rfc3339(self.first_s)));
        one.insert("last_at".to_owned(), json!(rfc3339(self.last_s)));
        Value::Object(one)
    }
}

fn rfc3339(seconds: i64) -> String {
    Wall(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000)).rfc3339()
}
