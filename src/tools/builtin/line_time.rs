//! The time at which a line of a log was written, in the forms that logs use.

use crate::types::clock::Wall;
use serde_json::Value;

/// Bytes at the start of a line in which its time is looked for.
const LOOKED_AT: usize = 256;
const DAY_S: i64 = 86_400;
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// A form in which a log writes times; the names in calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeFormat {
    /// `2026-11-24T10:00:00Z`, also with a space, with a fraction, or without an offset.
    Rfc3339,
    /// `2026/11/24 10:00:00`, as in the error log of nginx.
    Slashes,
    /// `[24/Nov/2026:10:00:00 +0000]`, as in access logs.
    CommonLog,
    /// `Nov 24 10:00:00`.
    Syslog,
    /// Seconds since 1970, at the start of the line.
    Epoch,
}

impl TimeFormat {
    const ALL: [Self; 5] = [Self::Rfc3339, Self::Slashes, Self::CommonLog, Self::Syslog, Self::Epoch];

    fn name(self) -> &'static str {
        match self {
            Self::Rfc3339 => "rfc3339",
            Self::Slashes => "slashes",
            Self::CommonLog => "common_log",
            Self::Syslog => "syslog",
            Self::Epoch => "epoch",
        }
    }
}

/// Which lines of a file are new enough.
#[derive(Debug)]
pub(super) struct Since {
    /// In seconds since 1970, like every time here.
    from: i64,
    now: i64,
    format: Option<TimeFormat>,
    /// Added to a time that says no offset.
    offset: i64,
    /// Whether the line before was new enough; `None` before the first time in a file.
    is_new: Option<bool>,
}

impl Since {
    /// Reads `since`, `time_format` and `utc_offset`; nothing without `since`.
    pub(super) fn read(arguments: &Value, now: Wall) -> Result<Option<Self>, String> {
        let words = |name: &str| arguments.get(name).and_then(Value::as_str);
        let now = i64::try_from(now.0 / 1_000_000).unwrap_or(i64::MAX);
        let Some(since) = words("since") else { return Ok(None) };
        let format = words("time_format").map(|name| {
            let known = TimeFormat::ALL.into_iter().find(|format| format.name() == name);
            known.ok_or_else(|| format!("`time_format` `{name}` is unknown"))
        });
        let offset = match words("utc_offset") {
            None => 0,
            Some(words) => {
                TimeScan(words.as_bytes()).offset().ok_or("`utc_offset` is not of the form `+02:00`")?
            }
        };
        let from = match ago(since) {
            Some(seconds) => now.saturating_sub(seconds),
            None => TimeScan(since.as_bytes()).rfc3339(offset).ok_or_else(|| {
                format!("`since` `{since}` is neither a time such as `2026-11-24T10:00:00Z` nor an age such as `2h`")
            })?,
        };
        Ok(Some(Self { from, now, format: format.transpose()?, offset, is_new: None }))
    }

    /// A file begins: nothing is known of its lines.
    pub(super) fn begin(&mut self) {
        self.is_new = None;
    }

    /// Whether a time was found in the file that is read.
    pub(super) fn has_found_a_time(&self) -> bool {
        self.is_new.is_some()
    }

    /// Whether `line` is new enough. A line without a time belongs to the one before it.
    pub(super) fn lets(&mut self, line: &[u8]) -> bool {
        if let Some(at) = self.time(line) {
            self.is_new = Some(at >= self.from);
        }
        self.is_new == Some(true)
    }

    /// When `line` was written, in seconds since 1970.
    pub(super) fn time(&self, line: &[u8]) -> Option<i64> {
        let line = line.get(..LOOKED_AT).unwrap_or(line);
        match self.format {
            Some(format) => self.time_in(format, line),
            None => TimeFormat::ALL.into_iter().find_map(|format| self.time_in(format, line)),
        }
    }

    fn time_in(&self, format: TimeFormat, line: &[u8]) -> Option<i64> {
        match format {
            TimeFormat::Rfc3339 => TimeScan(line).rfc3339(self.offset),
            TimeFormat::Slashes => TimeScan(line).slashes(self.offset),
            TimeFormat::CommonLog => {
                let open = line.iter().position(|byte| *byte == b'[')?;
                TimeScan(line.get(open + 1..)?).common_log()
            }
            TimeFormat::Syslog => TimeScan(line).syslog(self.offset, self.now),
            TimeFormat::Epoch => TimeScan(line).epoch(),
        }
    }
}

/// An age, such as `90s`, `15m`, `2h` or `3d`, in seconds.
fn ago(words: &str) -> Option<i64> {
    let unit = match words.bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3_600,
        b'd' => DAY_S,
        _ => return None,
    };
    let number = words.get(..words.len().checked_sub(1)?)?;
    number.parse::<u32>().ok().map(|number| i64::from(number).saturating_mul(unit))
}

/// Reads a time from the start of its bytes.
struct TimeScan<'a>(&'a [u8]);

impl TimeScan<'_> {
    fn rfc3339(mut self, offset: i64) -> Option<i64> {
        let day = self.date(b'-')?;
        self.one_of(b"T ")?;
        let time = self.clock()?;
        if self.one_of(b".,").is_some() {
            self.0 = self.0.get(self.0.iter().take_while(|byte| byte.is_ascii_digit()).count()..)?;
        }
        let said = if self.one_of(b"Z").is_some() { Some(0) } else { self.offset() };
        Some(day * DAY_S + time - said.unwrap_or(offset))
    }

    fn slashes(mut self, offset: i64) -> Option<i64> {
        let day = self.date(b'/')?;
        self.one_of(b" ")?;
        Some(day * DAY_S + self.clock()? - offset)
    }

    fn common_log(mut self) -> Option<i64> {
        let day = self.digits(2)?;
        self.one_of(b"/")?;
        let month = self.month()?;
        self.one_of(b"/")?;
        let year = self.digits(4)?;
        self.one_of(b":")?;
        let time = self.clock()?;
        self.one_of(b" ")?;
        Some(days(year, month, day)? * DAY_S + time - self.offset()?)
    }

    /// Without a year: the latest that is not in the future, with a day's tolerance for clocks.
    fn syslog(mut self, offset: i64, now: i64) -> Option<i64> {
        let month = self.month()?;
        self.one_of(b" ")?;
        let day = if self.one_of(b" ").is_some() { self.digits(1)? } else { self.digits(2)? };
        self.one_of(b" ")?;
        let time = self.clock()?;
        let this_year = 1970 + now.div_euclid(DAY_S) * 400 / 146_097;
        let in_year = |year| Some(days(year, month, day)? * DAY_S + time - offset);
        [this_year + 1, this_year, this_year - 1]
            .into_iter()
            .filter_map(in_year)
            .find(|at| *at <= now.saturating_add(DAY_S))
    }

    fn epoch(self) -> Option<i64> {
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = self.0.get(..length).filter(|digits| matches!(digits.len(), 9 | 10))?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Year, month and day, as days since 1970.
    fn date(&mut self, mark: u8) -> Option<i64> {
        let year = self.digits(4)?;
        self.one_of(&[mark])?;
        let month = self.digits(2)?;
        self.one_of(&[mark])?;
        days(year, month, self.digits(2)?)
    }

    /// Hours, minutes and seconds, in seconds.
    fn clock(&mut self) -> Option<i64> {
        let hours = self.digits(2)?;
        self.one_of(b":")?;
        let minutes = self.digits(2)?;
        self.one_of(b":")?;
        let seconds = self.digits(2)?;
        (hours < 24 && minutes < 60 && seconds <= 60).then_some(hours * 3_600 + minutes * 60 + seconds)
    }

    /// An offset such as `+02:00` or `-0330`, in seconds.
    fn offset(&mut self) -> Option<i64> {
        let sign = if self.one_of(b"+-")? == b'+' { 1 } else { -1 };
        let hours = self.digits(2)?;
        let _colon = self.one_of(b":");
        let minutes = self.digits(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
    }

    fn month(&mut self) -> Option<i64> {
        let name = self.0.get(..3)?;
        let at = MONTHS.iter().position(|month| *month == name)?;
        self.0 = self.0.get(3..)?;
        i64::try_from(at + 1).ok()
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.0.get(..count).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        self.0 = self.0.get(count..)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        let first = wanted.contains(first).then_some(*first)?;
        self.0 = rest;
        Some(first)
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the day that comes and goes is the last.
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::{Since, TimeFormat, TimeScan, days};
    use crate::types::clock::Wall;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// 2026-11-24T14:00:00Z.
    const NOW: i64 = 1_795_528_800;

    fn since(arguments: &Value) -> Result<Option<Since>, String> {
        Since::read(arguments, Wall(u64::try_from(NOW).expect("positive") * 1_000_000))
    }

    #[test]
    fn times_of_every_form_are_read() {
        let all = since(&json!({ "since": "1h" })).expect("valid").expect("since");
        for (line, ago) in [
            ("2026-11-24T13:30:00Z x", 1_800),
            ("2026-11-24 13:30:00.123456 x", 1_800),
            ("2026-11-24T15:30:00,5+02:00 x", 1_800),
            ("2026-11-24T10:00:00-0330 x", 1_800),
            ("2026/11/24 13:30:00 [error] 7#7: x", 1_800),
            ("10.0.0.1 - - [24/Nov/2026:14:30:00 +0100] \"GET / HTTP/1.1\" 200", 1_800),
            ("Nov 24 13:30:00 web1 sshd[7]: x", 1_800),
            ("Nov  4 14:00:00 web1 x", 20 * 86_400),
            ("Dec 24 14:00:00 web1 x", 335 * 86_400),
            ("1795527000.5 x", 1_800),
        ] {
            assert_eq!(all.time(line.as_bytes()), Some(NOW - ago), "{line}");
        }
        for line in
            ["", "x 2026-11-24T13:30:00Z", "2026-13-24T13:30:00Z", "Now 24 13:30:00", "12345", "[24/Nov"]
        {
            assert_eq!(all.time(line.as_bytes()), None, "{line}");
        }
        let east = since(&json!({ "since": "1h", "utc_offset": "+02:00" })).expect("valid").expect("since");
        assert_eq!(east.time(b"2026-11-24 15:30:00 x"), Some(NOW - 1_800));
        let one = json!({ "since": "1h", "time_format": "syslog" });
        assert_eq!(since(&one).expect("valid").expect("since").time(b"2026-11-24T13:30:00Z x"), None);
    }

    /// A line without a time, such as one of a stack trace, goes with the line before it.
    #[test]
    fn lines_are_let_from_the_first_that_is_new() {
        let mut since = since(&json!({ "since": "2026-11-24T13:00:00Z" })).expect("valid").expect("since");
        for (line, expect) in [
            ("before any time", false),
            ("2026-11-24T12:59:59Z old", false),
            ("  of the old", false),
            ("2026-11-24T13:00:00Z new", true),
            ("  of the new", true),
            ("2026-11-24T12:00:00Z old again", false),
        ] {
            assert_eq!(since.lets(line.as_bytes()), expect, "{line}");
        }
        assert!(since.has_found_a_time());
        since.begin();
        assert!(!since.has_found_a_time() && !since.lets(b"of another file"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (arguments, expect) in [
            (json!({ "since": "yesterday" }), "is neither a time"),
            (json!({ "since": "1h", "time_format": "iso" }), "is unknown"),
            (json!({ "since": "1h", "utc_offset": "CET" }), "is not of the form"),
        ] {
            let error = since(&arguments).expect_err("refused");
            assert!(error.contains(expect), "{error}");
        }
        assert!(since(&json!({})).expect("valid").is_none());
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(
            (days(1970, 1, 1), days(2000, 2, 29), days(2026, 11, 24)),
            (Some(0), Some(11_016), Some(20_781))
        );
        assert_eq!(TimeScan(b"Foo").month(), None);
        assert_eq!(TimeFormat::ALL.map(TimeFormat::name).len(), 5);
    }

    proptest! {
        #[test]
        fn no_line_stops_the_reader(line: Vec<u8>, offset in "[+-][0-9]{2}:[0-9]{2}") {
            let mut one = since(&json!({ "since": "1h" })).expect("valid").expect("since");
            one.lets(&line);
            drop(since(&json!({ "since": "1h", "utc_offset": offset })));
        }
    }
}
