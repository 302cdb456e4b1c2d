//! Times for people: in the time zone of this host, with how long ago they were.

use crate::types::clock::Wall;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A time and its distance from `now`: `14:03, 2 min ago`.
pub(in crate::cli) fn told(at: Wall, now: Wall) -> String {
    in_zone(at, now, "%H:%M", &TimeZone::system())
        .map_or_else(|| at.rfc3339(), |clock| format!("{clock}, {}", distance(at, now)))
}

/// A time to the second: `14:03:07`, with its date if that is not the date of `now`.
pub(super) fn clock(at: Wall, now: Wall) -> String {
    in_zone(at, now, "%H:%M:%S", &TimeZone::system()).unwrap_or_else(|| at.rfc3339())
}

fn in_zone(at: Wall, now: Wall, clock: &str, zone: &TimeZone) -> Option<String> {
    let (there, here) = (zoned(at, zone)?, zoned(now, zone)?);
    let date = match (there.date() == here.date(), there.year() == here.year()) {
        (true, _) => "",
        (false, true) => "%-d %b ",
        (false, false) => "%Y-%m-%d ",
    };
    Some(there.strftime(&format!("{date}{clock}")).to_string())
}

fn zoned(at: Wall, zone: &TimeZone) -> Option<Zoned> {
    let at = Timestamp::from_microsecond(i64::try_from(at.0).ok()?).ok()?;
    Some(at.to_zoned(zone.clone()))
}

/// `2 min ago`, `in 14 min` or `now`.
fn distance(at: Wall, now: Wall) -> String {
    let us = at.0.abs_diff(now.0);
    match at <= now {
        _ if us < 1_000_000 => "now".to_owned(),
        true => format!("{} ago", span(us)),
        false => format!("in {}", span(us)),
    }
}

/// A span in its largest unit, rounded down: `380 ms`, `6 s`, `14 min`, `3 h`, `9 d`.
pub(in crate::cli) fn span(us: u64) -> String {
    match us / 1_000_000 {
        0 => format!("{} ms", us / 1_000),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::{distance, in_zone, span};
    use crate::types::clock::Wall;
    use jiff::tz::{TimeZone, offset};

    /// 2026-11-24T13:03:07Z, in seconds since 1970.
    const NOW_S: u64 = 1_795_525_387;

    #[test]
    fn times_are_local_and_have_a_date_only_if_it_is_another_day() {
        let now = Wall(NOW_S * 1_000_000);
        let zone = TimeZone::fixed(offset(1));
        for (s, expect) in [
            (NOW_S, "14:03:07"),
            (NOW_S - 14 * 3_600, "00:03:07"),
            (NOW_S - 15 * 3_600, "23 Nov 23:03:07"),
            (NOW_S - 400 * 86_400, "2025-10-20 14:03:07"),
        ] {
            let shown = in_zone(Wall(s * 1_000_000), now, "%H:%M:%S", &zone);
            assert_eq!(shown.as_deref(), Some(expect));
        }
    }

    #[test]
    fn distances_and_spans_have_one_unit() {
        let at = |seconds: i64| Wall((NOW_S * 1_000_000).saturating_add_signed(seconds * 1_000_000));
        for (seconds, expect) in [
            (0, "now"),
            (-6, "6 s ago"),
            (-150, "2 min ago"),
            (14 * 60 + 5, "in 14 min"),
            (-47 * 3_600, "47 h ago"),
            (-9 * 86_400, "9 d ago"),
        ] {
            assert_eq!(distance(at(seconds), at(0)), expect);
        }
        assert_eq!(span(380_000), "380 ms");
    }
}
